//! One frame.
//!
//! ```text
//!   head: version, clients, memory, processor          requests ▁▂▃     p99 ▁▂▃
//!   servers
//!   tenants, mirrors, read targets (`others`)
//!   commands
//!   hot keys                │ large requests and replies
//!   slow requests
//! ```
//! Invariant: whatever the size, nothing is drawn outside; what does not fit is left out from below.

use super::figures::Figures;
use super::others;
use super::source::Answer;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table};

/// Rows of the longest tables.
const ROWS_MAX: usize = 12;

/// Draws what is known; `trouble` is why there is nothing newer.
pub(super) fn draw(frame: &mut Frame<'_>, figures: &Figures, trouble: Option<&str>) {
    let Some(now) = &figures.now else { return };
    let servers = now.upstreams.len().min(ROWS_MAX) as u16;
    let commands = now.commands.len().min(ROWS_MAX) as u16;
    let [head, charts, upstreams, rest, calls, keys, slow, foot] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(6),
        Constraint::Length(servers + 3),
        Constraint::Length(others::lines(now)),
        Constraint::Length(commands + 3),
        Constraint::Length(8),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(head_of(figures, now), head);
    let [requests, p99] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(charts);
    chart(frame, requests, "requests in a second", figures.requests.iter().copied());
    chart(frame, p99, "p99 in µs", figures.p99_us.iter().copied());
    frame.render_widget(upstreams_of(figures, now), upstreams);
    others::draw(frame, rest, figures, now);
    frame.render_widget(commands_of(figures, now), calls);
    let [hot, big] =
        Layout::horizontal([Constraint::Percentage(40), Constraint::Percentage(60)]).areas(keys);
    frame.render_widget(hot_of(now), hot);
    frame.render_widget(big_of(now), big);
    frame.render_widget(slow_of(now), slow);
    let foot_text = match trouble {
        Some(trouble) => Line::styled(trouble.to_owned(), Style::new().fg(Color::Red)),
        None => Line::styled("q ends", Style::new().add_modifier(Modifier::DIM)),
    };
    frame.render_widget(Paragraph::new(foot_text), foot);
}

fn head_of(figures: &Figures, now: &Answer) -> Paragraph<'static> {
    let (stats, total) = (&now.stats, &now.stats.total);
    let share = |counter: fn(&Answer) -> u64| figures.rate(counter) / 10_000.0;
    let busy = |worker: usize| {
        figures.rate(|answer| {
            let worker = answer.stats.workers.get(worker);
            worker.map_or(0, |worker| worker.busy_user_us + worker.busy_system_us)
        }) / 10_000.0
    };
    let workers: Vec<String> =
        (0..stats.workers.len()).map(|worker| format!("{:.0} %", busy(worker))).collect();
    let batch =
        figures.ratio(|a| a.stats.total.upstream_requests, |a| a.stats.total.upstream_writes);
    let quantile = |q: f64| figures.quantile_us(q).map_or("-".to_owned(), shown_us);
    Paragraph::new(vec![
        Line::styled(
            format!("respool {}   up {}", stats.version, shown_span(stats.uptime_us / 1_000_000)),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Line::from(format!(
            "clients {} of {}   in flight {}   memory {}   buffers {}",
            total.clients,
            stats.clients_max,
            total.inflight,
            shown_bytes(stats.rss_bytes),
            shown_bytes(total.buffered_bytes)
        )),
        Line::from(format!(
            "{}/s   errors {}/s   p50 {}   p99 {}   p99.9 {}   requests in a write {}   near cache {}",
            shown_count(figures.rate(|a| a.stats.total.requests)),
            shown_count(figures.rate(|a| a.stats.total.errors)),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            batch.map_or("-".to_owned(), |batch| format!("{batch:.1}")),
            others::shown_share(others::hits(total))
        )),
        Line::from(format!(
            "processor {:.0} % user, {:.0} % system   workers {}",
            share(|a| a.stats.cpu_user_us),
            share(|a| a.stats.cpu_system_us),
            workers.join(", ")
        )),
    ])
}

fn chart(frame: &mut Frame<'_>, area: Rect, title: &str, values: impl Iterator<Item = u64>) {
    let values: Vec<u64> = values.collect();
    let columns = usize::from(area.width.saturating_sub(2));
    let last = &values[values.len().saturating_sub(columns)..];
    let most = last.iter().max().copied().unwrap_or(0);
    let block = Block::new().borders(Borders::ALL).title(format!(" {title}, at most {most} "));
    frame.render_widget(Sparkline::default().block(block).data(last.iter().copied()), area);
}

pub(super) fn table<const N: usize>(
    title: &'static str,
    heads: [&'static str; N],
    widths: [Constraint; N],
    rows: Vec<Row<'static>>,
) -> Table<'static> {
    let heads = Row::new(heads).style(Style::new().add_modifier(Modifier::DIM));
    let block = Block::new().borders(Borders::TOP).title(title);
    Table::new(rows, widths).header(heads).block(block)
}

fn upstreams_of(figures: &Figures, now: &Answer) -> Table<'static> {
    let rate = |address: &str, counter: fn(&super::source::Upstream) -> u64| {
        figures.row_rate(|answer| &answer.upstreams, |row| row.address == address, counter)
    };
    let rows = now.upstreams.iter().take(ROWS_MAX).map(|row| {
        let colour = match row.state.as_str() {
            "ready" => Color::Green,
            "down" => Color::Red,
            _ => Color::Yellow,
        };
        let requests = rate(&row.address, |row| row.requests);
        let writes = rate(&row.address, |row| row.writes);
        let batch = if writes > 0.0 { format!("{:.1}", requests / writes) } else { "-".to_owned() };
        let state = match row.state.as_str() {
            "down" => format!("down: {}", row.cause),
            state => state.to_owned(),
        };
        Row::new([
            Cell::new(row.address.clone()),
            Cell::new(row.role.clone()),
            Cell::new(shown_count(requests)),
            Cell::new(batch),
            Cell::new(shown_count(rate(&row.address, |row| row.error_replies))),
            Cell::new(row.inflight.to_string()),
            Cell::new(row.conns.values().sum::<u64>().to_string()),
            Cell::new(shown_us(row.latency.p50_us)),
            Cell::new(shown_us(row.latency.p99_us)),
            Cell::new(state).style(Style::new().fg(colour)),
        ])
    });
    table(
        " servers ",
        ["address", "role", "req/s", "batch", "err/s", "in fl.", "conns", "p50", "p99", "state"],
        [
            Constraint::Length(22),
            Constraint::Length(9),
            Constraint::Length(8),
            Constraint::Length(6),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Length(6),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Min(10),
        ],
        rows.collect(),
    )
}

fn commands_of(figures: &Figures, now: &Answer) -> Table<'static> {
    let rate = |name: &str, counter: fn(&super::source::Command) -> u64| {
        figures.row_rate(|answer| &answer.commands, |row| row.name == name, counter)
    };
    let mut rows: Vec<(f64, &super::source::Command)> =
        now.commands.iter().map(|row| (rate(&row.name, |row| row.calls), row)).collect();
    rows.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(b.calls.cmp(&a.calls)));
    let rows = rows.into_iter().take(ROWS_MAX).map(|(calls, row)| {
        Row::new([
            row.name.clone(),
            shown_count(calls),
            row.calls.to_string(),
            shown_count(rate(&row.name, |row| row.failed)),
            shown_us(row.latency.p50_us),
            shown_us(row.latency.p99_us),
        ])
    });
    table(
        " commands, the most frequent ",
        ["command", "calls/s", "calls", "failed/s", "p50", "p99"],
        [
            Constraint::Length(22),
            Constraint::Length(10),
            Constraint::Length(14),
            Constraint::Length(10),
            Constraint::Length(10),
            Constraint::Min(8),
        ],
        rows.collect(),
    )
}

fn hot_of(now: &Answer) -> Table<'static> {
    let title = if now.hot.enabled { " hot keys " } else { " hot keys: off (TOPKEYS ENABLE) " };
    let rows =
        now.hot.keys.iter().map(|row| Row::new([row.key.clone(), shown_count(row.per_second)]));
    table(title, ["key", "per s"], [Constraint::Min(10), Constraint::Length(9)], rows.collect())
}

fn big_of(now: &Answer) -> Table<'static> {
    let rows = now.big.iter().map(|row| {
        let what = format!("{} {}", row.command, row.direction);
        Row::new([row.key.clone(), what, shown_bytes(row.bytes_max), row.elements_max.to_string()])
    });
    table(
        " large requests and replies ",
        ["key", "what", "bytes", "elements"],
        [
            Constraint::Min(10),
            Constraint::Length(18),
            Constraint::Length(10),
            Constraint::Length(9),
        ],
        rows.collect(),
    )
}

fn slow_of(now: &Answer) -> Table<'static> {
    let rows = now.slow.iter().map(|row| {
        Row::new([
            shown_us(row.took_us),
            shown_us(row.queued_us),
            row.behind.to_string(),
            row.client.clone(),
            row.args.join(" "),
        ])
    });
    table(
        " slow requests ",
        ["took", "waited", "behind", "client", "request"],
        [
            Constraint::Length(10),
            Constraint::Length(10),
            Constraint::Length(7),
            Constraint::Length(22),
            Constraint::Min(10),
        ],
        rows.collect(),
    )
}

pub(super) fn shown_count(count: f64) -> String {
    match count {
        count if count >= 1e6 => format!("{:.2} M", count / 1e6),
        count if count >= 1e4 => format!("{:.1} k", count / 1e3),
        count if count >= 10.0 || count == 0.0 => format!("{count:.0}"),
        count => format!("{count:.1}"),
    }
}

pub(super) fn shown_us(us: u64) -> String {
    match us {
        0..10_000 => format!("{us} µs"),
        10_000..10_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

pub(super) fn shown_bytes(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift >= 10) {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

fn shown_span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", seconds % 60),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 3.26, 15.0, 12_345.0, 2.5e6].map(shown_count),
            ["0", "3.3", "15", "12.3 k", "2.50 M"]
        );
        assert_eq!([7, 12_000, 20_000_000].map(shown_us), ["7 µs", "12.0 ms", "20.0 s"]);
        assert_eq!([5, 20 << 10, 11 << 30].map(shown_bytes), ["5 B", "20 KiB", "11 GiB"]);
        assert_eq!([61, 7_260, 90_000].map(shown_span), ["1 min 1 s", "2 h 1 min", "1 d 1 h"]);
    }
}
