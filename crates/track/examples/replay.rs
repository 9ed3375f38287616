//! Judges a published history report by report, and prints the alerts that would have been raised.
//!
//! `cargo run --release -p wingbeat-track --example replay -- data.js…` reads the files that github-action-benchmark
//! keeps on a project's branch `gh-pages`, as `dev/bench/data.js`. At the end it counts repeated alerts, and alerts
//! about values that are better than those before.

use std::{collections::BTreeMap, error::Error, fs};

use serde::Deserialize;
use time::{Duration, OffsetDateTime};
use wingbeat_track::{
    model::{
        BenchmarkName, Environment, Measure, Metric, Outcome, PastPoint, PastReport, ReasonKind,
        ThresholdModel, Verdict, threshold::Test,
    },
    verdict::{ReportInput, Series, Settings, decide},
};

/// Earlier reports considered, as in `wingbeat run`.
const REPORTS_MAX: usize = 512;

/// Values before an alert that its own is compared with.
const BEFORE: usize = 5;

/// A report that deviates by this share of the distance already had the alert.
const AS_FAR: f64 = 0.8;

#[derive(Deserialize)]
struct Data {
    entries: BTreeMap<String, Vec<Report>>,
}

#[derive(Deserialize)]
struct Report {
    commit: Commit,
    /// In milliseconds.
    date: i64,
    benches: Vec<Bench>,
}

#[derive(Deserialize)]
struct Commit {
    id: String,
}

#[derive(Deserialize)]
struct Bench {
    name: String,
    value: f64,
    unit: String,
}

#[derive(Default)]
struct Counts {
    judged: usize,
    alerts: usize,
    levels: usize,
    repeated: usize,
    innocent: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let text = fs::read_to_string(&path)?;
        let json = text.trim_start_matches("window.BENCHMARK_DATA =").trim().trim_end_matches(';');
        let data: Data = serde_json::from_str(json)?;
        for (suite, mut reports) in data.entries {
            reports.sort_by_key(|report| report.date);
            let counts = replay(&reports)?;
            println!(
                "{path}, {suite}: {} reports, {} values judged, {} alerts; {} of a new level, {} \
                 repeated, {} about a value that is better than each of the {BEFORE} before it\n",
                reports.len(),
                counts.judged,
                counts.alerts,
                counts.levels,
                counts.repeated,
                counts.innocent
            );
        }
    }
    Ok(())
}

fn replay(reports: &[Report]) -> Result<Counts, Box<dyn Error>> {
    let mut past: Vec<PastReport> = Vec::new();
    let mut histories: BTreeMap<BenchmarkName, Vec<PastPoint>> = BTreeMap::new();
    let mut counts = Counts::default();
    let (environment, settings) = (Environment::default(), Settings::default());
    for (at, report) in reports.iter().enumerate() {
        let start_time = OffsetDateTime::UNIX_EPOCH + Duration::milliseconds(report.date);
        let mut rows = BTreeMap::new();
        for bench in report.benches.iter().filter(|bench| bench.value.is_finite()) {
            let is_rate = bench.unit.ends_with("/sec") || bench.unit.ends_with("/s");
            let measure = if is_rate { Measure::throughput() } else { Measure::latency() };
            let name = BenchmarkName::new(bench.name.clone())?;
            rows.entry(name).or_insert((measure, Metric::new(bench.value)));
        }
        let none = Vec::new();
        let oldest = at.saturating_sub(REPORTS_MAX);
        let series = rows.iter().map(|(name, (measure, metric))| {
            let history = histories.get(name).unwrap_or(&none);
            let from = history.partition_point(|point| point.report < oldest);
            Series {
                model: Some(ThresholdModel::new(Test::Auto)),
                history: &history[from..],
                ..Series::new(name, measure, metric)
            }
        });
        let input = ReportInput {
            start_time,
            environment: &environment,
            hash: Some(&report.commit.id),
            past: &past,
            series: series.collect(),
        };
        let decision = decide(&input, &settings);
        for (place, (verdict, series)) in decision.verdicts.iter().zip(&input.series).enumerate() {
            counts.judged += usize::from(verdict.points >= BEFORE);
            if decision.alerts.contains(&place) {
                tell(at, report, verdict, series, &mut counts);
            }
        }
        for (verdict, (name, (_, metric))) in decision.verdicts.iter().zip(rows) {
            let outcome = Some(verdict.outcome).filter(|outcome| outcome.stands_out());
            let point = PastPoint { outcome, ..PastPoint::new(at, metric.value) };
            histories.entry(name).or_default().push(point);
        }
        let hash = Some(report.commit.id.clone());
        past.push(PastReport { hash, ..PastReport::at("main".parse()?, start_time) });
    }
    Ok(counts)
}

/// Prints an alert and counts it.
fn tell(at: usize, report: &Report, verdict: &Verdict, series: &Series<'_>, counts: &mut Counts) {
    let value = series.metric.value;
    counts.alerts += 1;
    let baseline = verdict.boundary.and_then(|it| it.baseline).unwrap_or(f64::NAN);
    let before = &series.history[series.history.len().saturating_sub(BEFORE)..];
    let side = (value - baseline).signum();
    let mut marks = String::new();
    if before.iter().all(|point| (point.value - value) * side > 0.0) {
        counts.innocent += 1;
        marks += " [better]";
    }
    // The reason states the number of reports at the new level.
    let mut since = BEFORE;
    if let ReasonKind::NewLevel { points, .. } = verdict.reason.kind {
        counts.levels += 1;
        since += points;
    }
    let history = &series.history[series.history.len().saturating_sub(since)..];
    let is_as_far =
        |point: &PastPoint| (point.value - baseline) * side >= AS_FAR * (value - baseline).abs();
    let said = |point: &&PastPoint| point.outcome == Some(Outcome::Worse);
    if history.iter().filter(said).any(is_as_far) {
        counts.repeated += 1;
        marks += " [repeated]";
    }
    let change = verdict.change.map_or(f64::NAN, |change| 100.0 * change.relative);
    println!(
        "{at} {} {}: {baseline:.0} → {value:.0}, {change:+.1} %: {}{marks}",
        &report.commit.id[..report.commit.id.len().min(10)],
        series.benchmark,
        verdict.reason.text(series.measure)
    );
}
