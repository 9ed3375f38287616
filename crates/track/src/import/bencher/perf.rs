//! Series as returned by Bencher's API for `bencher perf`. A report collects the values of all series that refer to it.

use std::collections::BTreeMap;

use serde::Deserialize;
use time::{OffsetDateTime, serde::rfc3339};
use uuid::Uuid;

use super::{Branch, JsonMeasure, Named, Version, add, epochs, project};
use crate::{
    import::{History, ImportError, Place},
    model::{BranchName, InvalidName, Metric, Report, Results, Slugs, TestbedName},
};

const TOOL: &str = "the output of `bencher perf`";

/// Its first key, which no report begins with.
pub(in crate::import) const BEGINNING: &str = "project";

#[derive(Deserialize)]
struct JsonPerf {
    project: Named,
    results: Vec<JsonSeries>,
}

#[derive(Deserialize)]
struct JsonSeries {
    branch: Branch,
    testbed: Named,
    benchmark: Named,
    measure: JsonMeasure,
    metrics: Vec<JsonPoint>,
}

#[derive(Deserialize)]
struct JsonPoint {
    report: Uuid,
    #[serde(default)]
    iteration: u32,
    #[serde(with = "rfc3339")]
    start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    end_time: OffsetDateTime,
    version: Option<Version>,
    metric: Metric,
}

/// Data about a report from several series.
struct Found {
    report: Report,
    iterations: BTreeMap<u32, Results>,
}

pub(in crate::import) fn read(text: &str, place: &Place) -> Result<History, ImportError> {
    let documents: Result<Vec<JsonPerf>, _> =
        serde_json::Deserializer::from_str(text).into_iter().collect();
    let documents = documents.map_err(|source| ImportError::Malformed { tool: TOOL, source })?;
    let all = || documents.iter().flat_map(|perf| &perf.results);
    let epochs = epochs(all().map(|series| &series.branch));
    let mut history = History::default();
    let mut found: BTreeMap<Uuid, Found> = BTreeMap::new();
    for perf in &documents {
        for JsonSeries { branch, testbed, benchmark, measure, metrics } in &perf.results {
            let named = |source: InvalidName| ImportError::Name {
                at: format!("a series of {:.80}", benchmark.name),
                source,
            };
            let project = project(place, &perf.project).map_err(named)?;
            let branch_name = BranchName::new(&branch.name).map_err(named)?;
            let testbed = TestbedName::new(&testbed.name).map_err(named)?;
            let epoch = epochs.get(&branch.head.uuid).copied().unwrap_or_default();
            for point in metrics {
                let JsonPoint { report: uuid, start_time, .. } = *point;
                let (project, branch, testbed) =
                    (project.clone(), branch_name.clone(), testbed.clone());
                let of_report = found.entry(uuid).or_insert_with(|| Found {
                    report: Report {
                        hash: point.version.as_ref().and_then(|version| version.hash.clone()),
                        epoch,
                        end_time: point.end_time,
                        ..Report::new(uuid, project, branch, testbed, start_time)
                    },
                    iterations: BTreeMap::new(),
                });
                let results = of_report.iterations.entry(point.iteration).or_default();
                let metric = point.metric.clone();
                add(results, &benchmark.name, measure, metric, (uuid, &mut history));
            }
        }
    }
    let mut slugs = Slugs::default();
    for Found { report, iterations } in found.into_values() {
        let mut iterations: Vec<Results> = iterations.into_values().collect();
        iterations.retain(|results| !results.is_empty());
        if !iterations.is_empty() {
            iterations.iter_mut().for_each(|results| results.tell_apart(&mut slugs));
            history.reports.push(Report { iterations, ..report });
        }
    }
    Ok(history)
}
