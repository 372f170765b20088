//! The tables of a frame that only some have: tenants and mirrors.
//!
//! Invariant: one that has no rows takes no line.

use super::figures::Figures;
use super::screen::{shown_bytes, shown_count, shown_us, table};
use super::source::{Answer, Compared, Totals};
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

/// Lines of both.
pub(super) fn lines(now: &Answer) -> u16 {
    lines_of(now.stats.tenants.len()) + lines_of(now.stats.mirrors.len())
}

/// Draws both.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, figures: &Figures, now: &Answer) {
    let heights = [lines_of(now.stats.tenants.len()), lines_of(now.stats.mirrors.len())];
    let [tenants, mirrors] = Layout::vertical(heights.map(Constraint::Length)).areas(area);
    if !now.stats.tenants.is_empty() {
        frame.render_widget(tenants_of(figures, now), tenants);
    }
    if !now.stats.mirrors.is_empty() {
        frame.render_widget(mirrors_of(now), mirrors);
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

fn mirrors_of(now: &Answer) -> Table<'static> {
    let rows = now.stats.mirrors.iter().take(ROWS_MAX).map(|row| {
        let colour = if row.state == "waiting" { Color::Red } else { Color::Green };
        let compared = |shadow: &Compared| shadow.equal + shadow.different;
        let reads = row.shadow.as_ref().map_or("-".to_owned(), |one| compared(one).to_string());
        let mismatch = row.shadow.as_ref().filter(|one| compared(one) > 0);
        Row::new([
            Cell::new(row.name.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_rows_takes_no_line_and_shares_are_percents() {
        assert_eq!([0, 1, 50].map(lines_of), [0, 4, 11]);
        assert_eq!(shown_share(Some(0.0125)), "1.2 %");
        assert_eq!(shown_share(None), "-");
    }
}
