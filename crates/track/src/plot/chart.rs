//! The content of a plot: panels of lines over reports. Built from stored series, independent of pixels.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use serde::Serialize;
use wingbeat_stats::{changes, drift};
use wingbeat_text::{grouped, plural};

use super::{
    axis::full_time,
    stamps::{Column, Stamp, Stamps},
};
use crate::{
    model::{AlertStatus, Measure, MeasureKind, reason::drift_words},
    store::{Plot, PlotPoint, PlotSeries},
};

/// A plot without a layout.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    pub title: String,
    /// The reports along the horizontal axis, in order.
    pub stamps: Vec<Stamp>,
    /// The column of each report if reports of one commit share one; empty if each has its own.
    pub columns: Vec<Column>,
    pub scale: Scale,
    /// From top to bottom: first those with active alerts, then those with level changes, then the others.
    pub panels: Vec<Panel>,
    /// Number of series omitted for lack of room.
    pub left_out: usize,
    /// Names of all lines in order, also of hidden ones, so that the others keep their colours. Empty if none is hidden.
    pub names: Vec<String>,
}

/// How to draw series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    pub scale: Scale,
    /// Whether all reports of a commit share a column, instead of one column for each report.
    pub is_by_version: bool,
    /// Whether all benchmarks of a measure share a panel.
    pub is_together: bool,
    /// Names of lines to leave out.
    pub hidden: Vec<String>,
}

/// The vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Logarithmic if a linear one would hide changes of the smallest values.
    #[default]
    Auto,
    Linear,
    /// Linear all the same in panels with values that are not positive.
    Logarithmic,
}

/// All series of a measure of a benchmark: one line for each branch and testbed.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The benchmark; the number of benchmarks if they share the panel.
    pub benchmark: String,
    pub measure: Measure,
    /// First those with active alerts, then those with level changes, then those with the newest values.
    pub lines: Vec<Line>,
}

/// Number of lines of a panel with a colour and a label. Further ones are grey.
pub const LINES_MAX: usize = 12;

/// Maximum number of series in an SVG or on a terminal. A page has all.
pub const CHART_LINES_MAX: usize = 60;

/// What [`Line::last_change`] is, for readers.
pub(super) const LAST_CHANGE: &str = "newest value against the median before it on its line";

/// Maximum number of drifts listed.
const DRIFTS_MAX: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Distinguishes the line within its panel: the branch, and the testbed if the chart has several. The benchmark
    /// first, if several share the panel.
    pub name: String,
    /// In the order of the axis, at least one. Each refers to a report by its index in [`Chart::stamps`].
    pub dots: Vec<PlotPoint>,
    pub steps: Vec<Step>,
}

/// Display priority of a series, highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    Alert,
    Changed,
    Steady,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Step {
    /// Index in [`Line::dots`] of the first value of the new level.
    #[serde(rename = "index")]
    pub dot: usize,
    pub before: f64,
    pub after: f64,
}

impl Chart {
    /// Creates the chart of all series, and finds their changes.
    pub fn new(title: impl Into<String>, plot: &Plot) -> Self {
        Self::with(title, plot, &Look::default())
    }

    /// The same with another look.
    pub fn with(title: impl Into<String>, plot: &Plot, look: &Look) -> Self {
        let stamps = Stamps::of(plot, look.is_by_version);
        let series = || plot.series.iter().filter(|series| !series.points.is_empty());
        let has_benchmarks =
            look.is_together && has_several(series().map(|series| &series.benchmark));
        let has_branches = has_several(series().map(|series| &series.branch));
        let has_testbeds = has_several(series().map(|series| &series.testbed));
        let name = |series: &PlotSeries| {
            let parts = [
                has_benchmarks.then_some(series.benchmark.as_str()),
                (has_branches || !has_benchmarks).then_some(series.branch.as_str()),
                has_testbeds.then_some(series.testbed.as_str()),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
        };
        let mut names: Vec<String> = match look.hidden.is_empty() {
            true => Vec::new(),
            false => series().map(name).collect(),
        };
        names.sort_unstable();
        names.dedup();
        let lines = series().map(|series| (series, name(series)));
        let lines = lines.filter(|(_, name)| !look.hidden.contains(name));
        let lines = lines.map(|(series, name)| (series, Line::of(name, series, &stamps.places)));
        let panels = group(lines, look.is_together);
        let Stamps { all, columns, .. } = stamps;
        Self {
            title: title.into(),
            stamps: all,
            columns,
            scale: look.scale,
            panels,
            left_out: 0,
            names,
        }
    }

    /// The first panels, with at most that many lines, but at least one panel.
    pub fn first(&self, lines_max: usize) -> Self {
        let mut lines = 0;
        let has_room = |panel: &&Panel| {
            let is_first = lines == 0;
            lines += panel.lines.len();
            is_first || lines <= lines_max
        };
        let panels: Vec<Panel> = self.panels.iter().take_while(has_room).cloned().collect();
        let kept: usize = panels.iter().map(|panel| panel.lines.len()).sum();
        let left_out = self.left_out + self.lines().count() - kept;
        Self {
            title: self.title.clone(),
            stamps: self.stamps.clone(),
            columns: self.columns.clone(),
            scale: self.scale,
            panels,
            left_out,
            names: self.names.clone(),
        }
    }

    /// How many series are omitted, and how to see them. `None` if none are.
    pub fn left_out_text(&self) -> Option<String> {
        let left_out = grouped(self.left_out);
        (self.left_out > 0).then(|| {
            format!(
                "{left_out} more series are left out, those without alerts and changes first; -o perf.html \
                 has all, --benchmark and --measure choose"
            )
        })
    }

    /// Time of the first report, and of the last if there are several.
    pub(super) fn period(&self) -> Option<String> {
        let (first, others) = self.stamps.split_first()?;
        let last = others.last().map(|last| format!(" to {}", full_time(last.time)));
        Some(full_time(first.time) + &last.unwrap_or_default())
    }

    /// Descriptions of the lines with a slow drift up to their newest values.
    pub(super) fn drifts(&self) -> impl Iterator<Item = String> {
        let told = lines(&self.panels).filter_map(|(panel, line)| {
            let first = line.dots.iter().filter(|dot| dot.iteration == 0);
            let drift = drift::find(&first.map(|dot| dot.value).collect::<Vec<_>>())?;
            let moved = drift_words(drift.relative(), drift.points);
            Some(format!("{} of {} {moved}", panel.name(), line.name))
        });
        told.take(DRIFTS_MAX)
    }

    /// Number of columns along the horizontal axis.
    pub fn width(&self) -> usize {
        self.columns.last().map_or(self.stamps.len(), |last| last.number + 1)
    }

    /// The column of a report.
    pub fn column(&self, report: usize) -> Column {
        let alone = || Column {
            number: report,
            before: 0,
            total: self.stamps.get(report).map_or(1, |stamp| stamp.iterations.max(1)),
        };
        self.columns.get(report).copied().unwrap_or_else(alone)
    }

    /// The first report of each column.
    pub(super) fn starts(&self) -> Vec<usize> {
        (0..self.stamps.len()).filter(|&report| self.column(report).before == 0).collect()
    }

    /// Horizontal position of a value, in columns from the first.
    pub fn x(&self, dot: &PlotPoint) -> f64 {
        let Column { number, before, total } = self.column(dot.report);
        let share = (f64::from(before) + f64::from(dot.iteration) + 0.5) / f64::from(total) - 0.5;
        number as f64 + 0.8 * share
    }

    /// Horizontal position between a report and the previous one, in columns from the first.
    pub(super) fn left(&self, report: usize) -> f64 {
        let Column { number, before, total } = self.column(report);
        match before {
            0 => number as f64 - 0.5,
            _ => number as f64 + 0.8 * (f64::from(before) / f64::from(total) - 0.5),
        }
    }

    /// A colour for each line of each panel: a number below [`LINES_MAX`], or [`LINES_MAX`] for grey. A name has the
    /// same colour in all panels if there are few enough names.
    pub fn colours(&self) -> Vec<Vec<usize>> {
        let names = self.line_names();
        let colour = |place: usize, line: &Line| match names.binary_search(&line.name.as_str()) {
            Ok(number) if names.len() <= LINES_MAX => number,
            _ => place.min(LINES_MAX),
        };
        let panel = |panel: &Panel| {
            panel.lines.iter().enumerate().map(|(place, line)| colour(place, line)).collect()
        };
        self.panels.iter().map(panel).collect()
    }

    /// The distinct names of all lines, also of hidden ones, in order. Their indices are their colours, if there are at
    /// most [`LINES_MAX`].
    pub fn line_names(&self) -> Vec<&str> {
        let drawn = self.lines().map(|line| line.name.as_str());
        let mut names: Vec<&str> = drawn.chain(self.names.iter().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.panels.iter().flat_map(|panel| &panel.lines)
    }
}

impl Panel {
    pub fn name(&self) -> String {
        format!("{} · {}", self.benchmark, self.measure.name)
    }

    /// The highest rank of its lines.
    pub fn rank(&self) -> Rank {
        self.lines.iter().map(Line::rank).min().unwrap_or(Rank::Steady)
    }
}

impl Line {
    /// `places` maps reports to positions in the chart.
    fn of(name: String, series: &PlotSeries, places: &[usize]) -> Self {
        let dot = |dot: &PlotPoint| PlotPoint { report: places[dot.report], ..*dot };
        let mut dots: Vec<PlotPoint> = series.points.iter().map(dot).collect();
        dots.sort_by_key(|dot| (dot.report, dot.iteration));
        let values: Vec<f64> = dots.iter().map(|dot| dot.value).collect();
        let mut settings = changes::Settings::default();
        if series.measure.kind == MeasureKind::Exact {
            settings.change_min = 0.0;
        }
        let found = changes::find(&values, &settings);
        let step = |change: &changes::Change| Step {
            dot: change.index,
            before: change.before,
            after: change.after,
        };
        Self { name, dots, steps: found.iter().map(step).collect() }
    }

    pub fn rank(&self) -> Rank {
        match (self.active_alerts(), self.steps.is_empty()) {
            (1.., _) => Rank::Alert,
            (0, false) => Rank::Changed,
            (0, true) => Rank::Steady,
        }
    }

    /// Converts the values to another unit.
    pub(super) fn scale(&mut self, factor: f64) {
        for dot in &mut self.dots {
            dot.value *= factor;
            let around =
                [&mut dot.lower, &mut dot.upper, &mut dot.lower_limit, &mut dot.upper_limit];
            for end in around.into_iter().flatten() {
                *end *= factor;
            }
        }
        for step in &mut self.steps {
            step.before *= factor;
            step.after *= factor;
        }
    }

    /// Number of alerts that are neither dismissed nor silenced.
    pub fn active_alerts(&self) -> usize {
        let is_active = |dot: &&PlotPoint| matches!(dot.alert, Some((_, AlertStatus::Active)));
        self.dots.iter().filter(is_active).count()
    }

    pub fn last(&self) -> Option<&PlotPoint> {
        self.dots.last()
    }

    /// The change from the median of the previous values to the newest. `None` if it is the only one or the median is
    /// 0.
    pub fn last_change(&self) -> Option<f64> {
        let (last, before) = self.dots.split_last()?;
        let mut values: Vec<f64> = before.iter().map(|dot| dot.value).collect();
        if values.is_empty() {
            return None;
        }
        let middle = values.len() / 2;
        let median = *values.select_nth_unstable_by(middle, f64::total_cmp).1;
        let share = (last.value - median) / median.abs();
        share.is_finite().then_some(share)
    }
}

impl Step {
    /// The change as a share of the level before. `None` if that was 0.
    pub fn relative(&self) -> Option<f64> {
        let share = (self.after - self.before) / self.before.abs();
        share.is_finite().then_some(share)
    }
}

/// The lines of panels.
pub(super) fn lines(panels: &[Panel]) -> impl Iterator<Item = (&Panel, &Line)> {
    panels.iter().flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)))
}

fn has_several<T: PartialEq>(mut all: impl Iterator<Item = T>) -> bool {
    let first = all.next();
    first.is_some_and(|first| all.any(|other| other != first))
}

/// Groups lines into panels: one for each measure of each benchmark. Time units are converted to a common one; other
/// units get panels of their own.
fn group<'a>(lines: impl Iterator<Item = (&'a PlotSeries, Line)>, is_together: bool) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    let mut known: HashMap<_, Vec<usize>> = HashMap::new();
    let mut benchmarks: Vec<HashSet<&str>> = Vec::new();
    for (series, mut line) in lines {
        let own = series.benchmark.as_str();
        let name = if is_together { "" } else { own };
        let same = known.entry((name, &series.measure.slug)).or_default();
        let fitting = same.iter().find_map(|&index| {
            let measure = &panels[index].measure;
            let factor = match measure.units == series.measure.units {
                true => 1.0,
                false => measure.ladder().factor_from(&series.measure.ladder())?,
            };
            Some((index, factor))
        });
        if let Some((index, factor)) = fitting {
            if factor != 1.0 {
                line.scale(factor);
            }
            panels[index].lines.push(line);
            benchmarks[index].insert(own);
        } else {
            same.push(panels.len());
            benchmarks.push(HashSet::from([own]));
            panels.push(Panel {
                benchmark: series.benchmark.to_string(),
                measure: series.measure.clone(),
                lines: vec![line],
            });
        }
    }
    // By priority, then by measure and benchmark.
    for (panel, benchmarks) in panels.iter_mut().zip(&benchmarks) {
        if benchmarks.len() > 1 {
            panel.benchmark = plural(benchmarks.len(), "benchmark");
        }
        let newest = |line: &Line| line.last().map(|dot| dot.report);
        panel.lines.sort_by_cached_key(|line| (line.rank(), Reverse(newest(line))));
    }
    panels.sort_by_cached_key(|panel| {
        (panel.rank(), panel.measure.slug.clone(), panel.benchmark.clone())
    });
    panels
}
