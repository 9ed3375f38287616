//! Serializes series as `JsonPerf` without holding a hundred thousand metrics in memory. Serializes a report's common
//! part once.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use serde::Serialize;
use time::{OffsetDateTime, serde::rfc3339};
use uuid::Uuid;
use wingbeat_track::store::{Plot, PlotPoint, PlotSeries, StoredAlert};

use super::{
    Judges, View,
    branch::version,
    report::perf_alert,
    series::{Source, Wanted},
};
use crate::{
    ApiError,
    api::shapes::{
        JsonBenchmark, JsonBoundary, JsonBranch, JsonMeasure, JsonMetric, JsonProject, JsonTestbed,
        JsonVersion,
    },
    registry::Thing,
};

/// Series in request order.
pub(in crate::api) struct PerfAnswer {
    head: Head,
    plot: Plot,
    sources: Vec<Option<Source>>,
    places: Vec<Place>,
    series: Vec<Series>,
}

/// A branch on a testbed.
pub(super) struct Place {
    pub(super) branch: JsonBranch,
    pub(super) testbed: JsonTestbed,
    /// For each report of the plot.
    about: Vec<About>,
    judges: Judges,
    alerts: HashMap<(Uuid, u32), StoredAlert>,
}

/// JSON before and after the iteration in each metric of a report. Empty if the report is of another branch.
#[derive(Default)]
struct About {
    before: String,
    behind: String,
}

/// A requested series, of the last location so far.
struct Series {
    place: usize,
    benchmark: JsonBenchmark,
    measure: JsonMeasure,
    measure_thing: Thing,
    /// Indexes of the plot's series: units may have changed.
    parts: Vec<usize>,
}

/// Members of an object before its long list.
#[derive(Serialize)]
struct Head {
    project: JsonProject,
    #[serde(with = "rfc3339::option")]
    start_time: Option<OffsetDateTime>,
    #[serde(with = "rfc3339::option")]
    end_time: Option<OffsetDateTime>,
}

#[derive(Serialize)]
struct SeriesHead<'a> {
    branch: &'a JsonBranch,
    testbed: &'a JsonTestbed,
    benchmark: &'a JsonBenchmark,
    measure: &'a JsonMeasure,
}

#[derive(Serialize)]
struct Times {
    #[serde(with = "rfc3339")]
    start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    end_time: OffsetDateTime,
    version: JsonVersion,
}

impl PerfAnswer {
    pub(super) fn new(
        view: &View<'_>,
        wanted: &Wanted,
        plot: Plot,
        sources: Vec<Option<Source>>,
    ) -> Self {
        let head =
            Head { project: view.project(), start_time: wanted.since, end_time: wanted.until };
        Self { head, plot, sources, places: Vec::new(), series: Vec::new() }
    }

    pub(super) fn plot(&self) -> &Plot {
        &self.plot
    }

    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    /// Starts series of another branch or testbed.
    pub(super) fn begin(
        &mut self,
        (branch, testbed): (JsonBranch, JsonTestbed),
        stored_branch: &str,
        numbers: &HashMap<Uuid, u64>,
        judges: Judges,
        alerts: HashMap<(Uuid, u32), StoredAlert>,
    ) -> Result<(), ApiError> {
        let mut about = Vec::with_capacity(self.plot.reports.len());
        for (report, source) in self.plot.reports.iter().zip(&self.sources) {
            about.push(match source {
                Some(source) if report.branch.as_str() == stored_branch => {
                    let number = numbers.get(&report.uuid).copied().unwrap_or_default();
                    let times = Times {
                        start_time: report.start_time,
                        end_time: source.end_time,
                        version: version(number, report.hash.as_deref()),
                    };
                    let times = serde_json::to_string(&times);
                    let times = times.map_err(|error| ApiError::bad_request(error.to_string()))?;
                    let inner = times.trim_start_matches('{');
                    let inner = inner.strip_suffix('}').unwrap_or(inner);
                    About {
                        before: format!("{{\"report\":\"{}\",\"iteration\":", report.uuid),
                        behind: format!(",{inner},\"metric\":"),
                    }
                }
                _ => About::default(),
            });
        }
        self.places.push(Place { branch, testbed, about, judges, alerts });
        Ok(())
    }

    /// Adds a series of the current location.
    pub(super) fn add(
        &mut self,
        benchmark: JsonBenchmark,
        measure: JsonMeasure,
        measure_thing: Thing,
        parts: Vec<usize>,
    ) {
        let place = self.places.len().saturating_sub(1);
        self.series.push(Series { place, benchmark, measure, measure_thing, parts });
    }

    /// Writes a `JsonPerf`.
    pub(in crate::api) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut text = Vec::new();
        open(&mut text, &self.head, "results")?;
        for (number, series) in self.series.iter().enumerate() {
            if number > 0 {
                text.push(b',');
            }
            self.write_series(series, &mut text)?;
            to.write_all(&text)?;
            text.clear();
        }
        text.extend(b"]}");
        to.write_all(&text)
    }

    fn write_series(&self, series: &Series, text: &mut Vec<u8>) -> io::Result<()> {
        let Some(place) = self.places.get(series.place) else { return Ok(()) };
        let head = SeriesHead {
            branch: &place.branch,
            testbed: &place.testbed,
            benchmark: &series.benchmark,
            measure: &series.measure,
        };
        open(text, &head, "metrics")?;
        let parts = series.parts.iter().filter_map(|part| self.plot.series.get(*part));
        let mut is_first = true;
        for point in parts.flat_map(|part: &PlotSeries| &part.points) {
            let (Some(Some(source)), Some(about)) =
                (self.sources.get(point.report), place.about.get(point.report))
            else {
                continue;
            };
            if !is_first {
                text.push(b',');
            }
            is_first = false;
            text.extend(about.before.as_bytes());
            write!(text, "{}", point.iteration)?;
            text.extend(about.behind.as_bytes());
            serde_json::to_writer(&mut *text, &metric(source, point))?;
            text.extend(b",\"threshold\":");
            let threshold =
                place.judges.at(self.head.project.uuid, &series.measure_thing, source.row.created);
            serde_json::to_writer(&mut *text, &threshold)?;
            text.extend(b",\"boundary\":");
            serde_json::to_writer(&mut *text, &boundary(point))?;
            text.extend(b",\"alert\":");
            let alert = place.alerts.get(&(source.row.uuid, point.position));
            let alert = alert.map(|alert| perf_alert(&source.row, alert));
            serde_json::to_writer(&mut *text, &alert)?;
            text.push(b'}');
        }
        text.extend(b"]}");
        Ok(())
    }
}

/// Writes an object without its end, up to the start of a list in it.
fn open(text: &mut Vec<u8>, head: &impl Serialize, list: &str) -> io::Result<()> {
    serde_json::to_writer(&mut *text, head)?;
    text.pop();
    write!(text, ",\"{list}\":[")
}

fn metric(source: &Source, point: &PlotPoint) -> JsonMetric {
    JsonMetric {
        uuid: source.metrics.at(point.position),
        value: point.value,
        lower_value: point.lower,
        upper_value: point.upper,
    }
}

fn boundary(point: &PlotPoint) -> Option<JsonBoundary> {
    let PlotPoint { baseline, lower_limit, upper_limit, .. } = *point;
    let is_there = baseline.or(lower_limit).or(upper_limit).is_some();
    is_there.then_some(JsonBoundary { baseline, lower_limit, upper_limit })
}
