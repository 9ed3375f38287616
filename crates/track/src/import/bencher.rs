//! Bencher's own data: reports as listed by its API (`GET /v0/projects/{project}/reports?expand=true`, page by page, or
//! `bencher report view`), and series as returned for `bencher perf`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use time::{OffsetDateTime, serde::rfc3339};
use uuid::Uuid;

use super::{History, Place, malformed};
use crate::model::{
    Adapter, BenchmarkName, BranchName, InvalidName, Measure, Metric, ProjectName, Report, Results,
    Slug, Slugs, TestbedName,
};

const TOOL: &str = "a list of Bencher's reports";

#[derive(Deserialize)]
struct JsonReport {
    uuid: Uuid,
    project: Named,
    branch: Branch,
    testbed: Named,
    #[serde(with = "rfc3339")]
    start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    end_time: OffsetDateTime,
    #[serde(default)]
    adapter: String,
    results: Option<Vec<Vec<JsonResult>>>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    slug: String,
}

#[derive(Deserialize)]
struct Branch {
    name: String,
    head: Head,
}

#[derive(Deserialize)]
struct Head {
    uuid: Uuid,
    version: Option<Version>,
    #[serde(with = "rfc3339")]
    created: OffsetDateTime,
}

#[derive(Deserialize)]
struct Version {
    hash: Option<String>,
}

#[derive(Deserialize)]
struct JsonResult {
    benchmark: Named,
    measures: Vec<JsonMeasured>,
}

#[derive(Deserialize)]
struct JsonMeasured {
    measure: JsonMeasure,
    metric: Metric,
}

#[derive(Deserialize)]
struct JsonMeasure {
    name: String,
    slug: Slug,
    units: String,
}

pub(super) fn read(text: &str, place: &Place) -> Result<History, String> {
    let reports = reports(text).map_err(malformed(TOOL))?;
    let epochs = epochs(reports.iter().map(|report| &report.branch));
    let is_unexpanded =
        !reports.is_empty() && reports.iter().all(|report| report.results.is_none());
    if is_unexpanded {
        return Err("its reports have no results: Bencher's API leaves them out of lists unless it is asked for them \
                    with `reports?expand=true`"
            .to_owned());
    }
    let mut history = History::default();
    let mut slugs = Slugs::default();
    for report in reports {
        let uuid = report.uuid;
        let named = |error: InvalidName| format!("report {uuid}: {error}");
        let project = project(place, &report.project).map_err(named)?;
        let branch = BranchName::new(&report.branch.name).map_err(named)?;
        let testbed = TestbedName::new(&report.testbed.name).map_err(named)?;
        let mut iterations = Vec::new();
        for results in report.results.into_iter().flatten() {
            iterations.push(iteration(results, uuid, &mut slugs, &mut history));
        }
        iterations.retain(|results| !results.is_empty());
        if iterations.is_empty() {
            continue;
        }
        history.reports.push(Report {
            hash: report.branch.head.version.and_then(|version| version.hash),
            epoch: epochs.get(&report.branch.head.uuid).copied().unwrap_or_default(),
            end_time: report.end_time,
            adapter: report.adapter.parse().unwrap_or(Adapter::Json),
            iterations,
            ..Report::new(uuid, project, branch, testbed, report.start_time)
        });
    }
    Ok(history)
}

/// The epoch of each head. A branch that was reset has several heads, each with its own history.
fn epochs<'b>(branches: impl Iterator<Item = &'b Branch>) -> BTreeMap<Uuid, u32> {
    let mut heads: BTreeMap<&str, BTreeSet<(OffsetDateTime, Uuid)>> = BTreeMap::new();
    for Branch { name, head } in branches {
        heads.entry(name).or_default().insert((head.created, head.uuid));
    }
    let numbered = heads.values().flat_map(|heads| heads.iter().zip(0..));
    numbered.map(|((_, head), epoch)| (*head, epoch)).collect()
}

fn project(place: &Place, of_file: &Named) -> Result<ProjectName, InvalidName> {
    match place.is_project_named {
        true => Ok(place.project.clone()),
        false => ProjectName::new(&of_file.slug),
    }
}

/// All reports of a sequence of lists or single reports.
fn reports(text: &str) -> serde_json::Result<Vec<JsonReport>> {
    let mut reports = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = if rest.starts_with('[') {
            let mut lists = serde_json::Deserializer::from_str(rest).into_iter::<Vec<JsonReport>>();
            reports.extend(lists.next().transpose()?.into_iter().flatten());
            lists.byte_offset()
        } else {
            let mut one = serde_json::Deserializer::from_str(rest).into_iter::<JsonReport>();
            reports.extend(one.next().transpose()?);
            one.byte_offset()
        };
        rest = rest[end..].trim_start();
    }
    Ok(reports)
}

fn iteration(
    results: Vec<JsonResult>,
    report: Uuid,
    slugs: &mut Slugs,
    history: &mut History,
) -> Results {
    let mut read = Results::default();
    for JsonResult { benchmark, measures } in results {
        for JsonMeasured { measure, metric } in measures {
            add(&mut read, &benchmark.name, &measure, metric, (report, history));
        }
    }
    read.tell_apart(slugs);
    read
}

/// Adds a metric to the results of a report.
fn add(
    results: &mut Results,
    benchmark: &str,
    measure: &JsonMeasure,
    metric: Metric,
    (report, history): (Uuid, &mut History),
) {
    let JsonMeasure { name, slug, units } = measure;
    let known = Measure::from_slug(slug.clone());
    let measure = match known.is_known() {
        true => known,
        false => Measure { name: name.clone().into(), units: units.clone().into(), ..known },
    };
    let added = BenchmarkName::new(benchmark)
        .map_err(|error| error.to_string())
        .and_then(|name| results.add(name, measure, metric).map_err(|error| error.to_string()));
    if let Err(reason) = added {
        history.leave_out(|| format!("{benchmark:.80} of report {report}: {reason}"));
    }
}

const PERF_TOOL: &str = "the output of `bencher perf`";

/// The first key of a list of series, which no report begins with.
pub(super) const PERF_BEGINNING: &str = "project";

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

/// Reads series as returned by `bencher perf`. A report collects the values of all series that refer to it.
pub(super) fn read_perf(text: &str, place: &Place) -> Result<History, String> {
    let documents: Result<Vec<JsonPerf>, _> =
        serde_json::Deserializer::from_str(text).into_iter().collect();
    let documents = documents.map_err(malformed(PERF_TOOL))?;
    let all = || documents.iter().flat_map(|perf| &perf.results);
    let epochs = epochs(all().map(|series| &series.branch));
    let mut history = History::default();
    let mut found: BTreeMap<Uuid, Found> = BTreeMap::new();
    for perf in &documents {
        for JsonSeries { branch, testbed, benchmark, measure, metrics } in &perf.results {
            let named = |error: InvalidName| format!("a series of {:.80}: {error}", benchmark.name);
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
