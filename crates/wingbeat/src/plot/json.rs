//! A plot's data as JSON. docs/plot.md describes the fields.

use serde::Serialize;
use wingbeat_track::{
    model::Measure,
    plot::{Chart, Dot, Panel, Stamp, Step},
};

#[derive(Serialize)]
pub(super) struct Plot<'a> {
    title: &'a str,
    reports: &'a [Stamp],
    series: Vec<PlottedLine<'a>>,
}

#[derive(Serialize)]
struct PlottedLine<'a> {
    name: &'a str,
    benchmark: &'a str,
    measure: &'a Measure,
    points: &'a [Dot],
    changes: &'a [Step],
}

impl<'a> Plot<'a> {
    pub(super) fn of(chart: &'a Chart) -> Self {
        let series = |panel: &'a Panel| {
            panel.lines.iter().map(|line| PlottedLine {
                name: &line.name,
                benchmark: &panel.benchmark,
                measure: &panel.measure,
                points: &line.dots,
                changes: &line.steps,
            })
        };
        Self {
            title: &chart.title,
            reports: &chart.stamps,
            series: chart.panels.iter().flat_map(series).collect(),
        }
    }
}
