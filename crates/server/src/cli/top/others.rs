//! The tables of a frame that only some have: tenants, mirrors and read targets.
//!
//! Invariant: one that has no rows takes no line.

use super::figures::Figures;
use super::screen::{shown_bytes, shown_count, shown_us, table};
use super::source::{Answer, Compared, ReadTarget, Totals};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::widgets::{Cell, Row, Table};

/// Rows of each.
const ROWS_MAX: usize = 8;

/// Lines that a table of so many rows takes, with its head and the line below.
fn lines_of(rows: usize) -> u16 {
    if rows == 0 { 0 } else { rows.min(ROWS_MAX) as u16 + 3 }
}

/// Rows of each of the tables.
fn rows(now: &Answer) -> [usize; 3] {
    let stats = &now.stats;
    [stats.tenants.len(), stats.mirrors.len(), stats.read_targets.len()]
}

/// Lines of all.
pub(super) fn lines(now: &Answer) -> u16 {
    rows(now).map(lines_of).iter().sum()
}

/// Draws all that have rows.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, figures: &Figures, now: &Answer) {
    let rows = rows(now);
    let areas: [Rect; 3] = Layout::vertical(rows.map(lines_of).map(Constraint::Length)).areas(area);
    let tables: [fn(&Figures, &Answer) -> Table<'static>; 3] =
        [tenants_of, mirrors_of, read_targets_of];
    for ((table, area), _) in tables.iter().zip(areas).zip(rows).filter(|(_, rows)| *rows > 0) {
        frame.render_widget(table(figures, now), area);
    }
}

/// Share of the reads that may be kept that the near cache answered, since the start.
pub(super) fn hits(totals: &Totals) -> Option<f64> {
    let reads = totals.cache_hits + totals.cache_misses;
    (reads > 0).then(|| totals.cache_hits as f64 / reads as f64)
}

/// A share of 1.
pub(super) fn shown_share(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// What belongs to a tenant, where there are tenants.
fn shown_name(tenant: Option<&String>, name: &str) -> String {
    tenant.map_or(name.to_owned(), |tenant| format!("{tenant}: {name}"))
}

fn tenants_of(figures: &Figures, now: &Answer) -> Table<'static> {
    let rate = |name: &str, counter: fn(&Totals) -> u64| {
        let tenants = |answer: &Answer| -> u64 {
            let found = answer.stats.tenants.iter().find(|tenant| tenant.tenant == name);
            found.map_or(0, |tenant| counter(&tenant.totals))
        };
        figures.rate(tenants)
    };
    let rows = now.stats.tenants.iter().take(ROWS_MAX).map(|row| {
        Row::new([
            row.tenant.clone(),
            row.totals.clients.to_string(),
            shown_count(rate(&row.tenant, |totals| totals.requests)),
            shown_count(rate(&row.tenant, |totals| totals.errors)),
            row.totals.inflight.to_string(),
            shown_share(hits(&row.totals)),
        ])
    });
    table(
        " tenants ",
        ["tenant", "clients", "req/s", "err/s", "in fl.", "near cache"],
        [
            Constraint::Length(24),
            Constraint::Length(9),
            Constraint::Length(9),
            Constraint::Length(9),
            Constraint::Length(8),
            Constraint::Min(10),
        ],
        rows.collect(),
    )
}

fn mirrors_of(_: &Figures, now: &Answer) -> Table<'static> {
    let rows = now.stats.mirrors.iter().take(ROWS_MAX).map(|row| {
        let colour = if row.state == "waiting" { Color::Red } else { Color::Green };
        let compared = |shadow: &Compared| shadow.equal + shadow.different;
        let reads = row.shadow.as_ref().map_or("-".to_owned(), |one| compared(one).to_string());
        let mismatch = row.shadow.as_ref().filter(|one| compared(one) > 0);
        Row::new([
            Cell::new(shown_name(row.tenant.as_ref(), &row.name)),
            Cell::new(shown_us(row.lag_ms * 1_000)),
            Cell::new(row.queued.to_string()),
            Cell::new(shown_bytes(row.queued_bytes)),
            Cell::new((row.failed + row.dropped + row.unsure).to_string()),
            Cell::new(reads),
            Cell::new(shown_share(mismatch.map(|one| one.mismatch_rate))),
            Cell::new(row.state.clone()).style(Style::new().fg(colour)),
        ])
    });
    table(
        " mirrors ",
        ["mirror", "lag", "queued", "bytes", "missed", "compared", "mismatch", "state"],
        [
            Constraint::Length(24),
            Constraint::Length(10),
            Constraint::Length(9),
            Constraint::Length(10),
            Constraint::Length(9),
            Constraint::Length(11),
            Constraint::Length(10),
            Constraint::Min(8),
        ],
        rows.collect(),
    )
}

fn read_targets_of(figures: &Figures, now: &Answer) -> Table<'static> {
    let rows = now.stats.read_targets.iter().take(ROWS_MAX).map(|row| {
        let colour = if row.state == "out" { Color::Red } else { Color::Green };
        let answered = |answer: &Answer| -> u64 {
            let is_it = |one: &&ReadTarget| (&one.tenant, &one.name) == (&row.tenant, &row.name);
            let found = answer.stats.read_targets.iter().find(is_it);
            found.map_or(0, |target| target.answered)
        };
        Row::new([
            Cell::new(shown_name(row.tenant.as_ref(), &row.name)),
            Cell::new(shown_count(figures.rate(answered))),
            Cell::new(row.open.to_string()),
            Cell::new(row.hedged.to_string()),
            Cell::new((row.failed + row.late + row.refused + row.full).to_string()),
            Cell::new(row.outages.to_string()),
            Cell::new(row.state.clone()).style(Style::new().fg(colour)),
        ])
    });
    table(
        " read targets ",
        ["target", "reads/s", "open", "hedged", "missed", "outages", "state"],
        [
            Constraint::Length(24),
            Constraint::Length(10),
            Constraint::Length(9),
            Constraint::Length(9),
            Constraint::Length(9),
            Constraint::Length(9),
            Constraint::Min(8),
        ],
        rows.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_rows_takes_no_line_and_shares_are_percents() {
        assert_eq!([0, 1, 50].map(lines_of), [0, 4, 11]);
        assert_eq!(shown_share(Some(0.0125)), "1.2 %");
        assert_eq!(shown_share(None), "-");
        assert_eq!(shown_name(Some(&"blue".to_owned()), "new"), "blue: new");
        assert_eq!(shown_name(None, "new"), "new");
    }
}
