//! Lines over a numeric axis, one a target, named at their right end.
//!
//! Used for latency percentiles and for whatever a scenario varies (pipeline, clients, value size, workers, nodes). The
//! name at the end of a line replaces a legend; names that would lie on each other are moved apart and keep a thin
//! leader to their line.
//!
//! Invariant: only finite points are drawn, and names never overlap while there is room for them.

use maud::{Markup, html};

use super::picture::{HEAD, PANEL_WIDTH, Picture, SMALL, head};
use super::scale::{Axis, Spread, labels_that_fit, linear_ticks, log_ticks};
use super::text::{self, Px};

/// A place on a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    /// Least and greatest over the rounds; equal: no whisker.
    pub range: (f64, f64),
}

/// One target.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub name: String,
    /// Class of its colour.
    pub class: String,
    /// Ascending by x. A single point is drawn as a dashed line over the whole width: a target that the axis does not change.
    pub points: Vec<Point>,
}

/// What the axes say.
pub(super) struct Labels<'a> {
    /// Under the x axis.
    pub x_name: &'a str,
    pub x: &'a dyn Fn(f64) -> String,
    pub y: &'a dyn Fn(f64) -> String,
}

const PLOT_HEIGHT: f64 = 190.0;
const LINE: f64 = 15.0;

/// Draws them; `None` without any point.
pub(super) fn draw(
    (name, unit): (&str, &str),
    (x_spread, y_spread): (Spread, Spread),
    labels: &Labels,
    series: &[Series],
) -> Option<Picture> {
    let series = only_drawable(series, y_spread);
    let points = || series.iter().flat_map(|s| &s.points);
    let mut xs: Vec<f64> = points().map(|p| p.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let (&x_low, &x_high) = (xs.first()?, xs.last()?);
    let y_high = points().map(|p| p.range.1).fold(f64::MIN_POSITIVE, f64::max);
    let y_low = points().map(|p| p.range.0).fold(f64::INFINITY, f64::min);
    let (low, high, ticks) = if y_spread == Spread::Log {
        log_ticks(y_low, y_high)
    } else {
        let (high, ticks) = linear_ticks(y_high, 4.0);
        (0.0, high, ticks)
    };
    let tick_room = ticks.iter().map(|t| text::width(&(labels.y)(*t), SMALL)).fold(0.0, f64::max);
    let name_room =
        series.iter().map(|s| text::width(&s.name, SMALL)).fold(30.0, f64::max).min(104.0);
    let (top, bottom) = (HEAD + 12.0, HEAD + 12.0 + PLOT_HEIGHT);
    let y = Axis { spread: y_spread, low, high, from: bottom, to: top };
    let (left, right) = (tick_room + 8.0, PANEL_WIDTH - name_room - 16.0);
    let x = Axis { spread: x_spread, low: x_low, high: x_high, from: left + 10.0, to: right };
    let body = html! {
        (head(name, unit))
        @for tick in &ticks {
            line class="grid" x1=(Px(left)) x2=(Px(right + 4.0)) y1=(Px(y.at(*tick))) y2=(Px(y.at(*tick))) {}
            text class="small end" x=(Px(left - 6.0)) y=(Px(y.at(*tick) + 4.0)) { ((labels.y)(*tick)) }
        }
        @for (at, label) in labels_that_fit(&xs, &x, SMALL, labels.x) {
            line class="mark" x1=(Px(at)) x2=(Px(at)) y1=(Px(bottom)) y2=(Px(bottom + 4.0)) {}
            text class="small middle" x=(Px(at)) y=(Px(bottom + 17.0)) { (label) }
        }
        text class="small middle" x=(Px((left + right) / 2.0)) y=(Px(bottom + 34.0)) { (labels.x_name) }
        @for one in &series { (draw_series(one, &x, &y, labels)) }
        (names(&series, &x, &y, (top, bottom), name_room))
    };
    Some(Picture {
        title: format!("{name}: {unit}"),
        width: PANEL_WIDTH,
        height: bottom + 42.0,
        body,
    })
}

/// Without points that have no place on the axis: a logarithm needs more than zero.
fn only_drawable(series: &[Series], y_spread: Spread) -> Vec<Series> {
    let drawable = |p: &Point| {
        let all = [p.x, p.y, p.range.0, p.range.1];
        all.iter().all(|v| v.is_finite()) && (y_spread != Spread::Log || p.range.0.min(p.y) > 0.0)
    };
    let kept = series.iter().map(|s| Series {
        points: s.points.iter().copied().filter(drawable).collect(),
        ..s.clone()
    });
    kept.filter(|s| !s.points.is_empty()).collect()
}

fn draw_series(series: &Series, x: &Axis, y: &Axis, labels: &Labels) -> Markup {
    let constant = series.points.len() == 1;
    let path: String = series.points.iter().enumerate().fold(String::new(), |path, (i, p)| {
        format!("{path}{}{} {}", if i == 0 { "M" } else { "L" }, Px(x.at(p.x)), Px(y.at(p.y)))
    });
    html! {
        g class=(series.class) {
            @if constant {
                line class="line dashed" x1=(Px(x.from)) x2=(Px(x.to)) y1=(Px(y.at(series.points[0].y))) y2=(Px(y.at(series.points[0].y))) {}
            } @else {
                path class="line" d=(path) {}
            }
            @for point in &series.points {
                @let (low, high) = (y.at(point.range.0), y.at(point.range.1));
                @if low - high > 3.0 {
                    line class="range" x1=(Px(x.at(point.x))) x2=(Px(x.at(point.x))) y1=(Px(low)) y2=(Px(high)) {}
                }
                circle class="u" cx=(Px(x.at(point.x))) cy=(Px(y.at(point.y))) r="3" {
                    title {
                        (series.name) ", " (labels.x_name) " " ((labels.x)(point.x)) ": " ((labels.y)(point.y))
                        @if point.range.0 < point.range.1 {
                            " (" ((labels.y)(point.range.0)) " to " ((labels.y)(point.range.1)) ")"
                        }
                    }
                }
            }
        }
    }
}

/// The names at the right, moved apart where lines end close to each other.
fn names(series: &[Series], x: &Axis, y: &Axis, (top, bottom): (f64, f64), room: f64) -> Markup {
    let ends: Vec<(f64, f64)> = series
        .iter()
        .map(|s| {
            let last = s.points[s.points.len() - 1];
            let x = if s.points.len() == 1 { x.to } else { x.at(last.x) };
            (x, y.at(last.y))
        })
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|e| e.1).collect();
    let places = apart(&wanted, LINE, top, bottom);
    html! {
        @for ((one, end), place) in series.iter().zip(&ends).zip(&places) {
            @let text_x = x.to + 14.0;
            g class=(one.class) {
                @if (place - end.1).abs() > 2.0 || x.to - end.0 > 1.0 {
                    path class="leader" d={
                        "M" (Px(end.0 + 5.0)) " " (Px(end.1)) "L" (Px(text_x - 2.0)) " " (Px(*place))
                    } {}
                }
                text class="small of" x=(Px(text_x)) y=(Px(place + 4.0)) {
                    (text::fit(&one.name, SMALL, room)) title { (one.name) }
                }
            }
        }
    }
}

/// Places as near as possible to `wanted`, in the same order, at least `distance` from each other and within the bounds
/// while they all fit (else as evenly as the bounds allow).
fn apart(wanted: &[f64], distance: f64, low: f64, high: f64) -> Vec<f64> {
    let distance = distance.min((high - low) / (wanted.len().max(2) - 1) as f64);
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut places = vec![0.0; wanted.len()];
    // Down from the top so that none lies on the one before, then up from the bottom so that none leaves it.
    let mut least = low;
    for &i in &order {
        places[i] = wanted[i].max(least);
        least = places[i] + distance;
    }
    let mut most = high;
    for &i in order.iter().rev() {
        places[i] = places[i].min(most);
        most = places[i] - distance;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_moved_apart_and_stay_inside() {
        let places = apart(&[100.0, 101.0, 99.0, 190.0, 191.0], 15.0, 10.0, 200.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|w| w[1] - w[0] >= 14.999), "{places:?}");
        assert!(sorted[0] >= 10.0 && sorted[4] <= 200.0, "{places:?}");
        // Their order is that of the lines.
        assert!(places[2] < places[0] && places[0] < places[1]);
    }

    #[test]
    fn too_many_names_share_the_room() {
        let places = apart(&[50.0; 30], 15.0, 0.0, 200.0);
        assert!(places.iter().all(|p| (-0.001..=200.001).contains(p)), "{places:?}");
    }

    #[test]
    fn a_zero_is_left_out_of_a_logarithmic_axis() {
        let series = Series {
            name: "x".to_owned(),
            class: "c0".to_owned(),
            points: vec![
                Point { x: 1.0, y: 0.0, range: (0.0, 0.0) },
                Point { x: 2.0, y: 5.0, range: (5.0, 5.0) },
                Point { x: 3.0, y: f64::NAN, range: (5.0, 5.0) },
            ],
        };
        assert_eq!(only_drawable(std::slice::from_ref(&series), Spread::Log)[0].points.len(), 1);
        let labels = Labels { x_name: "x", x: &text::tick, y: &text::tick };
        let none = Series { points: Vec::new(), ..series };
        assert!(draw(("a", "b"), (Spread::Linear, Spread::Log), &labels, &[none]).is_none());
    }
}
