//! What is drawn: panels of lines over reports. It comes of a store's series and knows nothing of
//! pixels.

use std::collections::HashMap;

use time::OffsetDateTime;
use wingbeat_stats::changes;

use super::panels;
use crate::{
    decide::Outcome,
    model::{BenchmarkName, BranchName, Limit, Measure, Status, TestbedName},
    store::{Plot, PlotPoint, PlotSeries},
};

/// A picture without its pixels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// What is shown, for the headline.
    pub title: String,
    /// The reports along the horizontal axis, oldest first, evenly spaced.
    pub stamps: Vec<Stamp>,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// Series for which there was no room. Those without alerts and changes go first.
    pub left_out: usize,
}

/// A report as a place on the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamp {
    /// When it began.
    pub time: OffsetDateTime,
    /// Commit that was measured.
    pub hash: Option<String>,
    /// Branch that was measured.
    pub branch: BranchName,
    /// Machine.
    pub testbed: TestbedName,
    /// Iterations that are drawn side by side.
    pub iterations: u32,
    /// What changed in the environment since the report before it on the same testbed, in words.
    pub news: Vec<String>,
}

/// Lines with a common vertical axis: of one measure, in the same units, of similar size.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The measure.
    pub measure: Measure,
    /// Which panel of the measure it is, and how many there are.
    pub part: (usize, usize),
    /// At most [`LINES_MAX`].
    pub lines: Vec<Line>,
}

/// Lines in a panel at most; more could not be told apart by colour.
pub const LINES_MAX: usize = 6;

/// Lines in a chart at most, by default.
pub const CHART_LINES_MAX: usize = 60;

/// The values of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Benchmark, and branch and testbed if there are several.
    pub name: String,
    /// Oldest first; at least one.
    pub dots: Vec<Dot>,
    /// Where the level changed.
    pub steps: Vec<Step>,
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Dot {
    /// Its report: an index of [`Chart::stamps`].
    pub stamp: usize,
    /// Iteration of that report, from 0.
    pub iteration: u32,
    /// The value, in the units of the measure.
    pub value: f64,
    /// Lower end of its spread.
    pub lower: Option<f64>,
    /// Upper end of its spread.
    pub upper: Option<f64>,
    /// Below this it was an alert.
    pub lower_limit: Option<f64>,
    /// Above this it was an alert.
    pub upper_limit: Option<f64>,
    /// The decision, if it stood out.
    pub outcome: Option<Outcome>,
    /// The alert that it raised.
    pub alert: Option<(Limit, Status)>,
}

/// A lasting change of the level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The first value of the new level: an index of [`Line::dots`].
    pub dot: usize,
    /// Level before.
    pub before: f64,
    /// Level after.
    pub after: f64,
}

impl Chart {
    /// The chart of series, with their changes found. At most `lines_max` are drawn.
    #[must_use]
    pub fn new(title: impl Into<String>, plot: &Plot, lines_max: usize) -> Self {
        let names = Names::of(plot);
        let mut all: Vec<(Measure, Line)> = plot
            .series
            .iter()
            .filter(|series| !series.points.is_empty())
            .map(|series| (series.measure.clone(), Line::of(names.name(series), &series.points)))
            .collect();
        let left_out = all.len().saturating_sub(lines_max);
        if left_out > 0 {
            // Stable, so that among equals the first by name stay.
            all.sort_by_key(|(_, line)| (line.active_alerts() == 0, line.steps.is_empty()));
            all.truncate(lines_max);
        }
        let stamps = stamps(plot, &mut all);
        Self { title: title.into(), stamps, panels: panels::divide(all), left_out }
    }

    /// Place of a value on the horizontal axis, in reports from the first.
    #[must_use]
    pub fn x(&self, dot: &Dot) -> f64 {
        let iterations = self.stamps.get(dot.stamp).map_or(1, |stamp| stamp.iterations.max(1));
        let share = (f64::from(dot.iteration) + 0.5) / f64::from(iterations) - 0.5;
        dot.stamp as f64 + 0.8 * share
    }

    /// A colour for each line of each panel, as a number below [`LINES_MAX`]. A name has the same colour
    /// in all panels if there are few enough names.
    #[must_use]
    pub fn colours(&self) -> Vec<Vec<usize>> {
        let mut names: Vec<&str> = self.lines().map(|line| line.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let colour = |place: usize, line: &Line| match names.binary_search(&line.name.as_str()) {
            Ok(number) if names.len() <= LINES_MAX => number,
            _ => place % LINES_MAX,
        };
        let panel = |panel: &Panel| {
            panel.lines.iter().enumerate().map(|(place, line)| colour(place, line)).collect()
        };
        self.panels.iter().map(panel).collect()
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.panels.iter().flat_map(|panel| &panel.lines)
    }
}

impl Line {
    fn of(name: String, points: &[PlotPoint]) -> Self {
        let dots: Vec<Dot> = points.iter().map(Dot::of).collect();
        let values: Vec<f64> = dots.iter().map(|dot| dot.value).collect();
        let found = changes::find(&values, &changes::Settings::default());
        let step = |change: &changes::Change| Step {
            dot: change.index,
            before: change.before,
            after: change.after,
        };
        Self { name, dots, steps: found.iter().map(step).collect() }
    }

    /// Alerts that nobody has settled.
    #[must_use]
    pub fn active_alerts(&self) -> usize {
        let is_active = |dot: &&Dot| matches!(dot.alert, Some((_, Status::Active)));
        self.dots.iter().filter(is_active).count()
    }

    /// The newest value.
    #[must_use]
    pub fn last(&self) -> Option<&Dot> {
        self.dots.last()
    }

    /// How far the newest value is from the median of those before it, as a share of that. `None` if it
    /// is the only one, or the median is 0.
    #[must_use]
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
    /// The change as a share of the level before; `None` if that was 0.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        let share = (self.after - self.before) / self.before.abs();
        share.is_finite().then_some(share)
    }
}

impl Dot {
    fn of(point: &PlotPoint) -> Self {
        let boundary = point.boundary.unwrap_or_default();
        Self {
            stamp: point.report,
            iteration: point.iteration,
            value: point.value,
            lower: point.lower,
            upper: point.upper,
            lower_limit: boundary.lower_limit,
            upper_limit: boundary.upper_limit,
            outcome: point.outcome,
            alert: point.alert,
        }
    }
}

/// What a series is called: whatever tells it from the others.
struct Names<'a> {
    branches: Vec<&'a BranchName>,
    testbeds: Vec<&'a TestbedName>,
    benchmarks: Vec<&'a BenchmarkName>,
}

impl<'a> Names<'a> {
    fn of(plot: &'a Plot) -> Self {
        let mut names = Self { branches: Vec::new(), testbeds: Vec::new(), benchmarks: Vec::new() };
        for series in &plot.series {
            names.branches.push(&series.branch);
            names.testbeds.push(&series.testbed);
            names.benchmarks.push(&series.benchmark);
        }
        names.branches.sort_unstable();
        names.branches.dedup();
        names.testbeds.sort_unstable();
        names.testbeds.dedup();
        names.benchmarks.sort_unstable();
        names.benchmarks.dedup();
        names
    }

    fn name(&self, series: &PlotSeries) -> String {
        let mut parts = vec![series.benchmark.as_str()];
        if self.branches.len() > 1 {
            parts.push(series.branch.as_str());
        }
        if self.testbeds.len() > 1 {
            parts.push(series.testbed.as_str());
        }
        parts.join(" · ")
    }
}

/// The reports that have a value in one of the lines, whose dots are renumbered.
fn stamps(plot: &Plot, lines: &mut [(Measure, Line)]) -> Vec<Stamp> {
    let mut iterations = vec![0_u32; plot.reports.len()];
    for dot in lines.iter().flat_map(|(_, line)| &line.dots) {
        let most = &mut iterations[dot.stamp];
        *most = (*most).max(dot.iteration.saturating_add(1));
    }
    // A report knows its testbed only through its series.
    let mut testbeds: Vec<Option<&TestbedName>> = vec![None; plot.reports.len()];
    for series in &plot.series {
        for point in &series.points {
            testbeds[point.report] = Some(&series.testbed);
        }
    }
    let mut place = vec![0; plot.reports.len()];
    let mut before = HashMap::new();
    let mut stamps = Vec::new();
    for (index, report) in plot.reports.iter().enumerate() {
        let (Some(testbed), 1..) = (testbeds[index], iterations[index]) else { continue };
        let last = before.insert(testbed, &report.environment);
        let news = last.map_or_else(Vec::new, |last| report.environment.changes_since(last));
        place[index] = stamps.len();
        stamps.push(Stamp {
            time: report.start_time,
            hash: report.hash.clone(),
            branch: report.branch.clone(),
            testbed: testbed.clone(),
            iterations: iterations[index],
            news,
        });
    }
    for dot in lines.iter_mut().flat_map(|(_, line)| &mut line.dots) {
        dot.stamp = place[dot.stamp];
    }
    stamps
}
