//! Horizontal bars: one row a target, one or two columns (server and proxy), user and system time stacked.
//!
//! Names stand at their row, values at the end of their bar, so no legend and no axis is needed. All columns of a
//! picture share one scale, because the question is how much work moved from one process to the other.
//!
//! Invariant: a bar, its whisker and its value end before the next column begins.

use maud::{Markup, html};

use super::picture::{FONT, HEAD, PANEL_WIDTH, Picture, SMALL, head};
use super::text::{self, Px};

/// A value of one row in one column.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// The part in full tone.
    pub user: f64,
    /// The part in pale tone, stacked on it.
    pub system: f64,
    /// Ends of the whisker; equal: none is drawn.
    pub range: (f64, f64),
    /// The value in words.
    pub value: String,
    /// More words, shown beside it in a quieter tone.
    pub aside: String,
    /// Everything, for the tooltip.
    pub title: String,
}

/// One target.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub name: String,
    /// Class of its colour.
    pub class: String,
    /// One for each column; none: a dash is drawn.
    pub bars: Vec<Option<Bar>>,
}

const ROW: f64 = 27.0;
const BAR: f64 = 15.0;

/// Draws them. `columns` are headings of the columns; a single one without text has no line of its own.
pub(super) fn draw(name: &str, unit: &str, columns: &[&str], rows: &[Row]) -> Picture {
    let labels = rows.iter().map(|r| text::width(&r.name, FONT)).fold(40.0, f64::max).min(118.0);
    let left = labels + 12.0;
    let column_heads = columns.iter().any(|c| !c.is_empty());
    let top = HEAD + if column_heads { 20.0 } else { 0.0 };
    let pitch = (PANEL_WIDTH - left) / columns.len() as f64;
    let all = || rows.iter().flat_map(|r| r.bars.iter().flatten());
    let words = all().map(words_width).fold(20.0, f64::max);
    let room = (pitch - words - 14.0).max(30.0);
    let max = all().map(|b| (b.user + b.system).max(b.range.1)).fold(0.0, f64::max);
    let scale = if max > 0.0 { room / max } else { 0.0 };
    let body = html! {
        (head(name, unit))
        @for (i, column) in columns.iter().enumerate().filter(|(_, c)| !c.is_empty()) {
            text class="small" x=(Px(left + pitch * i as f64)) y=(Px(HEAD + 8.0)) { (column) }
        }
        @for (i, row) in rows.iter().enumerate() {
            @let y = top + ROW * i as f64;
            g class=(row.class) {
                text x="0" y=(Px(y + 18.0)) { (text::fit(&row.name, FONT, labels + 4.0)) title { (row.name) } }
                @for (c, bar) in row.bars.iter().enumerate() {
                    (draw_bar(bar.as_ref(), left + pitch * c as f64, y + (ROW - BAR) / 2.0, scale))
                }
            }
        }
    };
    let height = top + ROW * rows.len() as f64 + 4.0;
    Picture { title: format!("{name}: {unit}"), width: PANEL_WIDTH, height, body }
}

fn words_width(bar: &Bar) -> f64 {
    let aside = if bar.aside.is_empty() { 0.0 } else { text::width(&bar.aside, SMALL) + 7.0 };
    text::width(&bar.value, FONT) + aside
}

fn draw_bar(bar: Option<&Bar>, x: f64, y: f64, scale: f64) -> Markup {
    let Some(bar) = bar else {
        return html! { text class="small" x=(Px(x)) y=(Px(y + 11.5)) { (text::NONE) } };
    };
    let (user, system) = (bar.user * scale, bar.system * scale);
    let (low, high) = (x + bar.range.0 * scale, x + bar.range.1 * scale);
    let middle = y + BAR / 2.0;
    let words = x + (user + system).max(bar.range.1 * scale) + 6.0;
    html! {
        g {
            title { (bar.title) }
            rect class="u" x=(Px(x)) y=(Px(y)) width=(Px(user)) height=(Px(BAR)) {}
            @if system > 0.0 {
                rect class="s" x=(Px(x + user)) y=(Px(y)) width=(Px(system)) height=(Px(BAR)) {}
            }
            @if high - low > 0.5 {
                path class="whisker" d={
                    "M" (Px(low)) " " (Px(middle)) "H" (Px(high))
                    "M" (Px(low)) " " (Px(middle - 3.0)) "v6M" (Px(high)) " " (Px(middle - 3.0)) "v6"
                } {}
            }
            text x=(Px(words)) y=(Px(y + 12.0)) { (bar.value) }
            @if !bar.aside.is_empty() {
                text class="small" x=(Px(words + text::width(&bar.value, FONT) + 7.0)) y=(Px(y + 12.0)) { (bar.aside) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(user: f64, system: f64) -> Bar {
        Bar {
            user,
            system,
            range: (user, user + system),
            value: "1.00".to_owned(),
            aside: String::new(),
            title: String::new(),
        }
    }

    #[test]
    fn the_longest_bar_and_its_value_stay_in_their_column() {
        let rows = [("direct", 8.0), ("respool", 2.0)].map(|(name, user)| Row {
            name: name.to_owned(),
            class: "c0".to_owned(),
            bars: vec![Some(bar(user, 1.0)), Some(bar(user / 2.0, 1.0))],
        });
        let drawn = draw("SET", "µs", &["server", "proxy"], &rows).body.into_string();
        let left = text::width("respool", FONT) + 12.0;
        let second = left + (PANEL_WIDTH - left) / 2.0;
        // The value of the longest bar (server, direct) is the first text after its two rectangles.
        let after = drawn.split("class=\"s\"").nth(1).unwrap();
        let x: f64 =
            after.split("<text x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!(x + text::width("1.00", FONT) <= second, "{x} {second}");
    }

    #[test]
    fn nothing_used_draws_no_strange_number() {
        let rows = [Row {
            name: "idle".to_owned(),
            class: "c1".to_owned(),
            bars: vec![Some(bar(0.0, 0.0)), None],
        }];
        let drawn = draw("GET", "µs", &["server", "proxy"], &rows).body.into_string();
        assert!(!drawn.contains("NaN") && drawn.contains(text::NONE));
    }
}
