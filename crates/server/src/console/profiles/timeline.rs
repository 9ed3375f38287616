//! Timeline as bars. Each bar is a link that zooms in; a script adds selection by dragging.

use maud::{Markup, html};

use super::{
    choice::Choice,
    range::{Fields, shown, written},
};
use crate::{
    console::links::Params,
    profiles::{Point, Span},
};

const SECOND_NS: i64 = 1_000_000_000;

/// Widths of a bar in seconds. Data has no finer resolution.
const STEPS: [i64; 14] =
    [15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 86_400, 604_800];

const BARS_MAX: i64 = 96;

const HEIGHT: f64 = 90.0;

/// Width of the values beside the bars.
const VALUES_WIDTH: f64 = 76.0;

/// Amounts over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timeline {
    span: Span,
    step_ns: i64,
    start_ns: i64,
    /// Per second of each step; for a gauge, the mean of a step.
    values: Vec<f64>,
}

/// Drawing parameters of a timeline.
#[derive(Clone, Copy)]
pub(super) struct Pen<'a> {
    pub(super) path: &'a str,
    pub(super) params: &'a Params,
    pub(super) fields: Fields,
    /// The highlighted range, if not all.
    pub(super) marked: Option<Span>,
    pub(super) label: &'a str,
}

impl Timeline {
    /// From the points of each selected series.
    pub(super) fn of(choice: &Choice, points: &[Vec<Point>], span: Span) -> Self {
        let length_ns = span.until_ns - span.from_ns;
        let fits = |step: &&i64| length_ns / (**step * SECOND_NS) < BARS_MAX;
        let step_ns = STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]) * SECOND_NS;
        let start_ns = span.from_ns.div_euclid(step_ns) * step_ns;
        let count = (span.until_ns - start_ns + step_ns - 1) / step_ns;
        let count = usize::try_from(count).unwrap_or(0).min(2000);
        let mut values = vec![0.0; count];
        for points in points {
            let (mut sums, mut windows) = (vec![0.0; count], vec![0.0; count]);
            for point in points {
                spread(point, choice.at, (start_ns, step_ns), &mut sums, &mut windows);
            }
            for ((value, sum), windows) in values.iter_mut().zip(sums).zip(windows) {
                *value += match choice.figures.is_state() {
                    true if windows > 0.0 => sum / windows,
                    true => 0.0,
                    false => sum / (step_ns as f64 / 1e9),
                };
            }
        }
        Self { span, step_ns, start_ns, values }
    }

    /// Whether all values are zero.
    pub(super) fn is_empty(&self) -> bool {
        self.values.iter().all(|value| *value == 0.0)
    }

    pub(super) fn draw(&self, choice: &Choice, pen: Pen<'_>) -> Markup {
        let most = self.values.iter().copied().fold(0.0, f64::max);
        let length = (self.span.until_ns - self.span.from_ns).max(1) as f64;
        let place = |ns: i64| (ns - self.span.from_ns) as f64 / length * 100.0;
        html! {
            figure class="timeline" {
                figcaption class="quiet" { (pen.label) (choice.figures.axis()) ", at most " (choice.figures.rate(most)) }
                svg class="values" width=(VALUES_WIDTH) height=(HEIGHT + 20.0) aria-hidden="true" {
                    @for value in round_values(most).chain([0.0]) {
                        text x=(VALUES_WIDTH - 6.0) y=(format!("{:.1}", height_of(value, most) + 4.0)) { (choice.figures.rate(value)) }
                    }
                }
                svg class="bars" height=(HEIGHT + 20.0) role="group" aria-label={ (choice.figures.axis()) " by time" }
                    data-from=(self.span.from_ns / 1_000_000) data-until=(self.span.until_ns / 1_000_000)
                    data-names={ (pen.fields.last) " " (pen.fields.from) " " (pen.fields.until) } {
                    @if let Some(marked) = pen.marked {
                        @let (left, right) = (place(marked.from_ns).max(0.0), place(marked.until_ns).min(100.0));
                        rect class="marked" x=(percent(left)) width=(percent((right - left).max(0.3)))
                            y="0" height=(HEIGHT) {}
                    }
                    @for (bar, value) in (0..).zip(&self.values) { (self.bar(choice, pen, (bar, *value, most))) }
                    @for value in round_values(most) {
                        @let y = format!("{:.1}", height_of(value, most));
                        line x1="0" x2="100%" y1=(y) y2=(y) class="tick" {}
                    }
                    @for (left, text, is_minor) in self.ticks() {
                        line x1=(percent(left)) x2=(percent(left)) y1="0" y2=(HEIGHT + 4.0) class="tick" {}
                        text x=(percent(left)) y=(HEIGHT + 16.0) class=(if is_minor { "minor" } else { "major" }) { (text) }
                    }
                }
            }
        }
    }

    fn bar(&self, choice: &Choice, pen: Pen<'_>, (bar, value, most): (i64, f64, f64)) -> Markup {
        let from_ns = self.start_ns + bar * self.step_ns;
        let span = Span { from_ns, until_ns: from_ns + self.step_ns };
        let length = (self.span.until_ns - self.span.from_ns).max(1) as f64;
        let left =
            ((span.from_ns.max(self.span.from_ns) - self.span.from_ns) as f64 / length) * 100.0;
        let right =
            ((span.until_ns.min(self.span.until_ns) - self.span.from_ns) as f64 / length) * 100.0;
        let y = height_of(value, most);
        html! {
            // Keyboard users have the form fields; so many tab stops would be in their way.
            a href=(pen.fields.write(pen.params, span).with("frame", "").at(pen.path)) tabindex="-1" {
                title { (shown(span.from_ns)) " UTC: " (choice.figures.rate(value)) }
                rect class="room" x=(percent(left)) width=(percent((right - left).max(0.0))) y="0" height=(HEIGHT) {}
                rect class="bar" x=(percent(left)) width=(percent(((right - left) * 0.9).max(0.0)))
                    y=(format!("{y:.1}")) height=(format!("{:.1}", HEIGHT - y)) {}
            }
        }
    }

    /// Positions in percent, with their times; of two, one can be left out.
    fn ticks(&self) -> Vec<(f64, String, bool)> {
        let length_ns = self.span.until_ns - self.span.from_ns;
        let fits = |step: &&i64| length_ns / (**step * SECOND_NS) < 8;
        let step_ns = STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]) * SECOND_NS;
        let first = self.span.from_ns.div_euclid(step_ns) + 1;
        let mut ticks = Vec::new();
        for number in first..first + 8 {
            let ns = number * step_ns;
            let place = (ns - self.span.from_ns) as f64 / length_ns.max(1) as f64 * 100.0;
            // Leaves room for the label.
            if place > 93.0 {
                break;
            }
            let text = shown(ns);
            let text = match step_ns {
                step if step >= 86_400 * SECOND_NS => text.get(5..10),
                step if step < 60 * SECOND_NS => text.get(11..),
                _ if length_ns > 86_400 * SECOND_NS => text.get(5..16),
                _ => text.get(11..16),
            };
            ticks.push((place, text.unwrap_or_default().to_owned(), (number - first) % 2 == 1));
        }
        ticks
    }
}

/// Vertical position of a value, below the top.
fn height_of(value: f64, most: f64) -> f64 {
    if most > 0.0 { HEIGHT - value / most * (HEIGHT - 4.0) } else { HEIGHT }
}

/// Two to four round values up to the largest, without 0.
fn round_values(most: f64) -> impl Iterator<Item = f64> {
    let power = 10_f64.powf((most / 2.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].into_iter().map(move |digit| digit * power);
    let step = steps.clone().find(|step| most / step >= 2.0).unwrap_or(power);
    (1..=4)
        .map(move |count| step * f64::from(count))
        .filter(move |value| most > 0.0 && *value <= most)
}

fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

/// Distributes a point over the steps.
fn spread(
    point: &Point,
    at: usize,
    (start_ns, step_ns): (i64, i64),
    sums: &mut [f64],
    windows: &mut [f64],
) {
    let value = point.sums.get(at).copied().unwrap_or(0) as f64;
    let end_ns = point.start_ns + point.duration_ns.max(1);
    let first = (point.start_ns - start_ns).div_euclid(step_ns).max(0);
    let last = (end_ns - 1 - start_ns).div_euclid(step_ns);
    for step in first..=last {
        let Some(index) = usize::try_from(step).ok().filter(|index| *index < sums.len()) else {
            break;
        };
        let from_ns = (start_ns + step * step_ns).max(point.start_ns);
        let until_ns = (start_ns + (step + 1) * step_ns).min(end_ns);
        let part = (until_ns - from_ns) as f64 / (end_ns - point.start_ns) as f64;
        sums[index] += value * part;
        windows[index] += point.windows * part;
    }
}

/// Links that move, widen and narrow the range.
pub(super) fn moves(span: Span, now_ns: i64, (path, params): (&str, &Params)) -> Markup {
    let length_ns = span.until_ns - span.from_ns;
    let at = |from_ns: i64, until_ns: i64| {
        let params = super::range::FIELDS.write(params, Span { from_ns, until_ns });
        params.with("frame", "").at(path)
    };
    let (from_ns, until_ns) = (span.from_ns, span.until_ns);
    html! {
        nav class="moves" aria-label="Time" {
            a href=(at(from_ns - length_ns, from_ns)) { "← Earlier" }
            @if until_ns + length_ns / 20 < now_ns { a href=(at(until_ns, until_ns + length_ns)) { "Later →" } }
            a href=(at(from_ns - length_ns, until_ns + length_ns)) { "More time" }
            @if length_ns > 2 * SECOND_NS {
                a href=(at(from_ns + length_ns / 4, until_ns - length_ns / 4)) { "Less time" }
            }
            span class="quiet" data-drag hidden { "Drag over the bars to select a time range." }
        }
    }
}

/// Both ends of a range as form fields.
pub(super) fn fields(fields: Fields, span: Span) -> Markup {
    html! {
        label class="moment" { span { "From (UTC)" } input name=(fields.from) value=(written(span.from_ns)) size="21" autocomplete="off"; }
        label class="moment" { span { "Until (UTC)" } input name=(fields.until) value=(written(span.until_ns)) size="21" autocomplete="off"; }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beside_the_bars_are_round() {
        let check = |most: f64, expected: &[f64]| {
            assert_eq!(round_values(most).collect::<Vec<_>>(), expected, "{most}");
        };
        check(0.0, &[]);
        check(1.0, &[0.5, 1.0]);
        check(767.0, &[200.0, 400.0, 600.0]);
        check(999.0, &[200.0, 400.0, 600.0, 800.0]);
        check(2e6, &[1e6, 2e6]);
        assert_eq!((height_of(0.0, 2.0), height_of(2.0, 2.0)), (HEIGHT, 4.0));
    }

    #[test]
    fn points_are_spread_over_steps() {
        let check = |start: i64, duration: i64, expected: &[f64]| {
            let point =
                Point { start_ns: start, duration_ns: duration, windows: 1.0, sums: vec![0, 100] };
            let (mut sums, mut windows) = (vec![0.0; 3], vec![0.0; 3]);
            spread(&point, 1, (1000, 10), &mut sums, &mut windows);
            assert_eq!(sums, expected, "{start} {duration}");
        };
        check(1000, 10, &[100.0, 0.0, 0.0]);
        check(1005, 10, &[50.0, 50.0, 0.0]);
        check(1005, 0, &[100.0, 0.0, 0.0]);
        check(995, 10, &[50.0, 0.0, 0.0]);
        check(1025, 10, &[0.0, 0.0, 50.0]);
        check(1040, 10, &[0.0, 0.0, 0.0]);
        check(900, 10, &[0.0, 0.0, 0.0]);
    }
}
