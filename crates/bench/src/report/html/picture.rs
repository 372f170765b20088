//! A drawn picture: SVG markup with its size, to be put into the page or into a file of its own.
//!
//! Colours never stand in the markup. Elements carry classes (`c3` for a target, `u` and `s` for user and system time),
//! and `theme` gives them colours by CSS variables; so one drawing serves light and dark, page and file.
//!
//! Why no plotting library: plotters writes fixed colours without classes, has no tooltips, measures text with its own
//! fonts and wants a bitmap-like drawing area per plot. Four kinds of plots by `maud`, which escapes every text, are less
//! code than bending that.
//!
//! Invariant: everything drawn lies within `width` × `height`.

use maud::{Markup, PreEscaped, html};

use super::text::{self, Px};
use super::theme;

/// Font size of ordinary text in a picture, in its own pixels.
pub(super) const FONT: f64 = 13.0;
/// Font size of ticks and remarks.
pub(super) const SMALL: f64 = 11.5;
/// Width that the small pictures (one a test) are drawn with; the page scales them between 0.8 and 1.1.
pub(super) const PANEL_WIDTH: f64 = 400.0;
/// Height of a small picture's heading.
pub(super) const HEAD: f64 = 30.0;

/// A drawing.
#[derive(Clone)]
pub(super) struct Picture {
    /// What it shows, for those who cannot see it.
    pub title: String,
    pub width: f64,
    pub height: f64,
    /// SVG elements.
    pub body: Markup,
}

impl Picture {
    /// As an element of the page.
    pub(super) fn inline(&self) -> Markup {
        html! {
            svg class="picture" viewBox={ "0 0 " (Px(self.width)) " " (Px(self.height)) } role="img" aria-label=(self.title) {
                (self.body)
            }
        }
    }
}

/// Several pictures in one file, row by row, under a heading. Follows the reader's light or dark theme by itself.
pub(super) fn file(heading: &str, key: &Key, pictures: &[Picture], columns: usize) -> String {
    const MARGIN: f64 = 24.0;
    const GAP: f64 = 28.0;
    let columns = columns.min(pictures.len()).max(1);
    let inner = pictures.chunks(columns).map(|row| row_width(row, GAP)).fold(0.0, f64::max);
    let heading_room = text::width(heading, 17.0).max(320.0);
    let inner = inner.max(heading_room.min(560.0));
    let (key_markup, key_height) = key.draw(inner, 0.0);
    let mut y = MARGIN + 34.0 + key_height;
    let mut placed = Vec::new();
    for row in pictures.chunks(columns) {
        let mut x = MARGIN;
        for picture in row {
            placed.push((x, y, picture));
            x += picture.width + GAP;
        }
        y += row.iter().map(|p| p.height).fold(0.0, f64::max) + GAP * 0.6;
    }
    let (width, height) = (inner + 2.0 * MARGIN, y - GAP * 0.6 + MARGIN);
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(Px(width)) height=(Px(height))
            viewBox={ "0 0 " (Px(width)) " " (Px(height)) } role="img" aria-label=(heading) class="picture" {
            style { (PreEscaped(theme::pictures())) }
            rect class="paper" width=(Px(width)) height=(Px(height)) rx="10" {}
            text class="heading" x=(Px(MARGIN)) y=(Px(MARGIN + 15.0)) { (text::fit(heading, 17.0, inner)) }
            g transform={ "translate(" (Px(MARGIN)) " " (Px(MARGIN + 34.0)) ")" } { (key_markup) }
            @for (x, y, picture) in placed {
                g transform={ "translate(" (Px(x)) " " (Px(y)) ")" } { (picture.body) }
            }
        }
    };
    drawn.into_string()
}

fn row_width(row: &[Picture], gap: f64) -> f64 {
    row.iter().map(|p| p.width + gap).sum::<f64>() - gap
}

/// What the colours of a file mean: targets, and the two tones when time is split.
#[derive(Clone, Debug, Default)]
pub(super) struct Key {
    /// (name, class of its colour); empty where the names stand beside what they name.
    pub targets: Vec<(String, String)>,
    /// Say which tone is user and which is system time.
    pub tones: bool,
}

impl Key {
    /// Draws it from (0, `top`), wrapped to `width`; also tells its height.
    pub(super) fn draw(&self, width: f64, top: f64) -> (Markup, f64) {
        let line = 22.0;
        let tones = [("user", "k u"), ("system", "k s")];
        let tones = tones.map(|(name, class)| (name.to_owned(), class.to_owned()));
        let entries = self.targets.iter().map(|(name, class)| (name.clone(), format!("{class} u")));
        let entries = entries.chain(self.tones.then_some(tones).into_iter().flatten());
        let (mut x, mut y, mut placed) = (0.0, 0.0, Vec::new());
        for (name, class) in entries {
            let name = text::fit(&name, SMALL, width - 20.0);
            let wide = 17.0 + text::width(&name, SMALL) + 16.0;
            if x > 0.0 && x + wide > width {
                (x, y) = (0.0, y + line);
            }
            placed.push((x, y, name, class));
            x += wide;
        }
        let height = if placed.is_empty() { 0.0 } else { y + line + 4.0 };
        let drawn = html! {
            @for (x, y, name, class) in placed {
                rect class=(class) x=(Px(x)) y=(Px(top + y + 2.0)) width="11" height="11" rx="2" {}
                text class="small" x=(Px(x + 17.0)) y=(Px(top + y + 12.0)) { (name) }
            }
        };
        (drawn, height)
    }
}

/// The heading of a small picture, cut to its width.
pub(super) fn head(name: &str, unit: &str) -> Markup {
    let unit_room = text::width(unit, SMALL);
    html! {
        text class="name" x="0" y="15" {
            (text::fit(name, FONT * 1.06, PANEL_WIDTH - unit_room - 16.0))
            title { (name) }
        }
        text class="small end" x=(Px(PANEL_WIDTH - 2.0)) y="15" { (unit) }
    }
}
