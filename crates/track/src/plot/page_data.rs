//! Data of a page's script, packed: numbers as base64 of floats, reports as runs.

use std::{array, collections::HashMap, iter};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD as BASE64};
use serde::Serialize;
use wingbeat_text::{Units, in_order, share::change};

use super::{
    chart::{Chart, Line, Panel, Scale},
    layout::{FONT_SMALL, Frame, Layout, thin, width},
    svg::{Note, label, name},
};
use crate::{model::Limit, output::outcome_word, store::PlotPoint};

/// Approximate maximum of numbers in a page: values, ends of spreads, limits. Beyond, each time interval keeps its
/// extremes, alerts and changes.
const NUMBERS_MAX: usize = 3_000_000;

const HASH_LENGTH: usize = 12;

#[derive(Serialize)]
pub(super) struct Data {
    left: f64,
    width: f64,
    /// Number of panels rendered as static images.
    pictures: usize,
    /// Names of branches and testbeds, which are referred to by index elsewhere.
    texts: Vec<String>,
    stamps: Vec<StampData>,
    /// The first report of each column. `None` if each report has its own.
    columns: Option<Vec<usize>>,
    scale: &'static str,
    /// Reports of the numbered environment changes, and the numbers.
    notes: Vec<(usize, usize)>,
    places: Vec<Places>,
    panels: Vec<PanelData>,
}

/// Unix time in seconds, commit, branch, testbed, iterations, news.
type StampData = (i64, Option<String>, usize, usize, u32, Option<String>);

#[derive(Serialize)]
struct PanelData {
    name: String,
    title: String,
    direction: &'static str,
    height: f64,
    span: f64,
    units: Units,
    lines: Vec<LineData>,
}

#[derive(Serialize)]
struct LineData {
    name: String,
    /// Shortened name, newest value, its change.
    label: [String; 3],
    colour: usize,
    places: usize,
    /// Value, lower and upper end of the spread, lower and upper limit.
    columns: [Option<String>; 5],
    steps: Vec<StepData>,
    marks: Vec<MarkData>,
}

/// First dot of the new level, level before, level after, the change and the width of its text.
type StepData = (usize, f64, f64, String, f64);

/// Point, outcome, alert's limit and status.
type MarkData = (usize, Option<&'static str>, Option<String>);

/// The reports and iterations of dots. Shared between lines of the same reports.
#[derive(Serialize, PartialEq, Eq, Hash, Clone, Default)]
struct Places {
    /// First report and number of reports of each contiguous run.
    runs: Vec<usize>,
    /// Iteration of each dot. `None` if all are the first.
    iterations: Option<Vec<u32>>,
}

impl Data {
    pub(super) fn of(
        chart: &Chart,
        layout: &Layout,
        colours: &[Vec<usize>],
        notes: &[Note<'_>],
        pictures: usize,
    ) -> Self {
        let mut texts = Numbered::default();
        let mut places = Numbered::default();
        let stamps = chart.stamps.iter().map(|stamp| {
            let hash = stamp.hash.as_ref().map(|hash| hash.chars().take(HASH_LENGTH).collect());
            let (branch, testbed) = (
                texts.number(shown(stamp.branch.as_str())),
                texts.number(shown(stamp.testbed.as_str())),
            );
            let news = (!stamp.news.is_empty()).then(|| shown(&stamp.news.join("; ")));
            (stamp.time.unix_timestamp(), hash, branch, testbed, stamp.iterations, news)
        });
        let stamps = stamps.collect();
        let numbers = chart.lines().flat_map(|line| &line.dots).flat_map(columns).flatten().count();
        let share = NUMBERS_MAX as f64 / numbers.max(1) as f64;
        let mut panel = |(panel, frame, colours): (&Panel, &Frame, &Vec<usize>)| {
            let lines = panel.lines.iter().zip(colours);
            PanelData {
                name: shown(&panel.name()),
                title: shown(&name(panel, layout)),
                direction: panel.measure.direction.words(),
                height: frame.plot_height,
                span: frame.span_min,
                units: frame.units.clone(),
                lines: lines
                    .map(|(line, &colour)| LineData::of(line, colour, frame, share, &mut places))
                    .collect(),
            }
        };
        let panels = iter::zip(&chart.panels, iter::zip(&layout.panels, colours));
        let panels = panels.map(|(one, (frame, colours))| panel((one, frame, colours))).collect();
        Self {
            left: layout.left,
            width: layout.width,
            pictures: pictures.min(chart.panels.len()),
            notes: notes.iter().map(|note| (note.stamp, note.number)).collect(),
            stamps,
            columns: (!chart.columns.is_empty()).then(|| chart.starts()),
            scale: match chart.scale {
                Scale::Auto => "",
                Scale::Linear => "linear",
                Scale::Logarithmic => "log",
            },
            panels,
            texts: texts.all,
            places: places.all,
        }
    }
}

impl LineData {
    /// The line with that share of its dots, or all.
    fn of(
        line: &Line,
        colour: usize,
        frame: &Frame,
        share: f64,
        places: &mut Numbered<Places>,
    ) -> Self {
        let kept = kept(line, share);
        let dots: Vec<&PlotPoint> = kept.iter().map(|&index| &line.dots[index]).collect();
        let step = |step: &super::chart::Step| {
            let text = step.relative().map(change).unwrap_or_default();
            let room = width(&text, FONT_SMALL);
            let dot = kept.partition_point(|&index| index < step.dot);
            (dot, step.before, step.after, text, room)
        };
        let mark = |(index, dot): (usize, &&PlotPoint)| {
            let alert = dot.alert.map(|(limit, status)| {
                let limit = if limit == Limit::Upper { "upper" } else { "lower" };
                format!("{limit} {status}")
            });
            let is_marked = dot.outcome.is_some() || alert.is_some();
            is_marked.then(|| (index, dot.outcome.map(outcome_word), alert))
        };
        Self {
            name: shown(&line.name),
            label: label(line, frame).map(|text| shown(&text)),
            colour,
            places: places.number(Places::of(&dots)),
            columns: array::from_fn(|at| column(dots.iter().map(move |dot| columns(dot)[at]))),
            steps: line.steps.iter().map(step).collect(),
            marks: dots.iter().enumerate().filter_map(mark).collect(),
        }
    }
}

/// A text as shown by the script.
fn shown(text: &str) -> String {
    in_order(text).into_owned()
}

/// Indices of the dots to keep, at about that share.
fn kept(line: &Line, share: f64) -> Vec<usize> {
    let count = line.dots.len();
    if share >= 1.0 {
        return (0..count).collect();
    }
    // Each column keeps up to four.
    let column = |index: usize| (index as f64 * share / 4.0) as usize;
    let mut kept = thin(count, column, |index| line.dots[index].value);
    let alerts = (0..count).filter(|&index| line.dots[index].alert.is_some());
    kept.extend(alerts.chain(line.steps.iter().map(|step| step.dot)));
    kept.sort_unstable();
    kept.dedup();
    kept
}

fn columns(dot: &PlotPoint) -> [Option<f64>; 5] {
    [Some(dot.value), dot.lower, dot.upper, dot.lower_limit, dot.upper_limit]
}

/// Numbers as base64 of little-endian floats: "f" for four bytes, or "d" for eight if four would change an integer or
/// overflow. `None` if there are no numbers.
fn column(numbers: impl Iterator<Item = Option<f64>> + Clone) -> Option<String> {
    numbers.clone().flatten().next()?;
    let fits = |number: f64| {
        let short = number as f32;
        let is_whole = number.fract() == 0.0;
        number == f64::from(short) || !is_whole && short.is_normal()
    };
    let all = numbers.clone().map(|number| number.unwrap_or(f64::NAN));
    let (mark, bytes): (_, Vec<u8>) = match numbers.flatten().all(fits) {
        true => ('f', all.flat_map(|number| (number as f32).to_le_bytes()).collect()),
        false => ('d', all.flat_map(f64::to_le_bytes).collect()),
    };
    let mut text = String::from(mark);
    BASE64.encode_string(bytes, &mut text);
    Some(text)
}

impl Places {
    fn of(dots: &[&PlotPoint]) -> Self {
        let mut runs: Vec<usize> = Vec::new();
        for dot in dots {
            match runs[..] {
                [.., first, count] if first + count == dot.report => {
                    let last = runs.len() - 1;
                    runs[last] += 1;
                }
                _ => runs.extend([dot.report, 1]),
            }
        }
        let has_several = dots.iter().any(|dot| dot.iteration > 0);
        Self {
            runs,
            iterations: has_several.then(|| dots.iter().map(|dot| dot.iteration).collect()),
        }
    }
}

/// Assigns numbers to repeated items.
#[derive(Default)]
struct Numbered<T> {
    all: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, one: T) -> usize {
        let Self { all, numbers } = self;
        *numbers.entry(one).or_insert_with_key(|one| {
            all.push(one.clone());
            all.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_what_counts() {
        let check = |numbers: &[Option<f64>], expected: Option<&str>| {
            assert_eq!(column(numbers.iter().copied()).as_deref(), expected, "{numbers:?}");
        };
        check(&[], None);
        check(&[None, None], None);
        check(&[Some(1.0)], Some("fAACAPw"));
        check(&[Some(1.0), None], Some("fAACAPwAAwH8"));
        // A count of instructions beyond 2²⁴, and numbers that do not fit into a four-byte float.
        for number in [18_204_123_457.0, 1e300, 1e-300] {
            let text = column([Some(number)].into_iter()).expect("a column");
            assert!(text.starts_with('d') && text.len() == 12, "{text}");
        }
    }

    #[test]
    fn neighbours_are_runs() {
        let check = |stamps: &[usize], expected: &[usize]| {
            let dots: Vec<PlotPoint> =
                stamps.iter().map(|&report| PlotPoint { report, ..PlotPoint::default() }).collect();
            assert_eq!(Places::of(&dots.iter().collect::<Vec<_>>()).runs, expected, "{stamps:?}");
        };
        check(&[], &[]);
        check(&[0, 1, 2, 5, 6], &[0, 3, 5, 2]);
        check(&[3, 3, 4], &[3, 1, 3, 2]);
    }
}
