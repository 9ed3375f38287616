//! What a plot shows, as JSON. docs/plot.md describes the fields.

use serde::Serialize;
use wingbeat_track::{
    model::{AlertStatus, Limit, Measure, Outcome},
    plot::{Chart, Dot, Line, Panel, Stamp},
};

use crate::store::rfc3339;

#[derive(Serialize)]
pub(super) struct Plot<'a> {
    title: &'a str,
    reports: Vec<Report<'a>>,
    series: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Report<'a> {
    start_time: String,
    hash: Option<&'a str>,
    branch: &'a str,
    testbed: &'a str,
    iterations: u32,
    environment_changes: &'a [String],
}

#[derive(Serialize)]
struct Series<'a> {
    name: &'a str,
    benchmark: &'a str,
    measure: &'a Measure,
    points: Vec<Point>,
    changes: Vec<Change>,
}

#[derive(Serialize)]
struct Point {
    /// Index of the report.
    report: usize,
    iteration: u32,
    value: f64,
    lower_value: Option<f64>,
    upper_value: Option<f64>,
    lower_limit: Option<f64>,
    upper_limit: Option<f64>,
    outcome: Option<Outcome>,
    alert: Option<Alert>,
}

#[derive(Serialize)]
struct Alert {
    limit: Limit,
    status: AlertStatus,
}

#[derive(Serialize)]
struct Change {
    /// Index of the first point of the new level.
    index: usize,
    before: f64,
    after: f64,
}

impl<'a> Plot<'a> {
    pub(super) fn of(chart: &'a Chart) -> Self {
        let series = |panel: &'a Panel| panel.lines.iter().map(|line| Series::of(panel, line));
        Self {
            title: &chart.title,
            reports: chart.stamps.iter().map(Report::of).collect(),
            series: chart.panels.iter().flat_map(series).collect(),
        }
    }
}

impl<'a> Report<'a> {
    fn of(stamp: &'a Stamp) -> Self {
        Self {
            start_time: rfc3339(stamp.time),
            hash: stamp.hash.as_deref(),
            branch: stamp.branch.as_str(),
            testbed: stamp.testbed.as_str(),
            iterations: stamp.iterations,
            environment_changes: &stamp.news,
        }
    }
}

impl<'a> Series<'a> {
    fn of(panel: &'a Panel, line: &'a Line) -> Self {
        let steps = line.steps.iter();
        Self {
            name: &line.name,
            benchmark: &panel.benchmark,
            measure: &panel.measure,
            points: line.dots.iter().map(Point::of).collect(),
            changes: steps
                .map(|step| Change { index: step.dot, before: step.before, after: step.after })
                .collect(),
        }
    }
}

impl Point {
    fn of(dot: &Dot) -> Self {
        Self {
            report: dot.report,
            iteration: dot.iteration,
            value: dot.value,
            lower_value: dot.lower,
            upper_value: dot.upper,
            lower_limit: dot.lower_limit,
            upper_limit: dot.upper_limit,
            outcome: dot.outcome,
            alert: dot.alert.map(|(limit, status)| Alert { limit, status }),
        }
    }
}
