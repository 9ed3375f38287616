//! Decisions about reports with a known history.

mod auto;
mod crowd;
mod few_reports;
mod levels;
mod models;
mod pages;
mod properties;
mod spikes;

use time::{Duration, OffsetDateTime};
use wingbeat_stats::{normal, random::Random};
use wingbeat_track::{
    model::{threshold::Test, *},
    verdict::*,
};

/// Start time of the reports under test.
const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::days(1_000));

/// A metric with its earlier values, one report a day. The newest points are whole reports.
#[derive(Clone)]
struct Made {
    name: String,
    measure: Measure,
    history: Vec<f64>,
    value: f64,
    model: Option<ThresholdModel>,
    is_ignored: bool,
    iteration: u32,
    repeats: Vec<f64>,
    pushes: Vec<f64>,
    /// Repeated values of points of history.
    repeats_before: Vec<Vec<f64>>,
    /// Verdicts about points of history.
    outcomes: Vec<Option<Outcome>>,
    samples: (Vec<f64>, Vec<f64>),
    environments: Vec<Environment>,
    points_per_report: usize,
}

/// A latency that `auto` judges.
fn latency(history: &[f64], value: f64) -> Made {
    Made {
        name: "bench".to_owned(),
        measure: Measure::latency(),
        history: history.to_vec(),
        value,
        model: Some(ThresholdModel::new(Test::Auto)),
        is_ignored: false,
        iteration: 0,
        repeats: Vec::new(),
        pushes: Vec::new(),
        repeats_before: Vec::new(),
        outcomes: Vec::new(),
        samples: (Vec::new(), Vec::new()),
        environments: Vec::new(),
        points_per_report: 1,
    }
}

/// A latency judged by a test with these boundaries.
fn under(test: Test, lower: Option<f64>, upper: Option<f64>, history: &[f64], value: f64) -> Made {
    let model = Some(ThresholdModel::new(test).within(lower, upper));
    Made { model, ..latency(history, value) }
}

impl Made {
    /// The points. Their reports are appended to those of others.
    fn history(&self, past: &mut Vec<PastReport>) -> Vec<PastPoint> {
        let (first, count) = (past.len(), self.history.len());
        let days_ago = |place: usize| (count - place).div_ceil(self.points_per_report);
        let days = if count == 0 { 0 } else { days_ago(0) };
        for days_ago in (1..=days).rev() {
            let newest = count - 1 - (days_ago - 1) * self.points_per_report;
            let time = NOW - Duration::days(days_ago as i64);
            past.push(PastReport {
                hash: Some("0123456789abcdef".to_owned()),
                environment: self.environments.get(newest).cloned().unwrap_or_default(),
                ..PastReport::at("main".parse().expect("a name"), time)
            });
        }
        let point = |(place, &value): (usize, &f64)| PastPoint {
            repeats: self.repeats_before.get(place).cloned().unwrap_or_default(),
            samples: self.samples.0.clone(),
            outcome: self.outcomes.get(place).copied().flatten(),
            ..PastPoint::new(first + days - days_ago(place), value)
        };
        self.history.iter().enumerate().map(point).collect()
    }
}

/// Judges a report of a commit.
fn judge_of(hash: Option<&str>, all: &[Made], environment: &Environment) -> Decision {
    let names: Vec<BenchmarkName> =
        all.iter().map(|made| BenchmarkName::new(made.name.clone()).expect("a name")).collect();
    let metrics: Vec<Metric> = all
        .iter()
        .map(|made| Metric::new(made.value).with_samples(made.samples.1.clone()))
        .collect();
    let mut past = Vec::new();
    let histories: Vec<Vec<PastPoint>> = all.iter().map(|made| made.history(&mut past)).collect();
    let series = all.iter().enumerate().map(|(i, made)| Series {
        iteration: made.iteration,
        benchmark: &names[i],
        measure: &made.measure,
        metric: &metrics[i],
        repeats: made.repeats.clone(),
        pushes: made.pushes.clone(),
        is_ignored: made.is_ignored,
        model: made.model,
        history: &histories[i],
    });
    let report =
        ReportInput { start_time: NOW, environment, hash, past: &past, series: series.collect() };
    decide(&report, &Settings::default())
}

fn judge_in(all: &[Made], environment: &Environment) -> Decision {
    judge_of(None, all, environment)
}

fn judge(all: &[Made]) -> Decision {
    judge_in(all, &Environment::default())
}

trait Why {
    /// The reason as text.
    fn why(&self) -> String;
}

impl Why for Verdict {
    fn why(&self) -> String {
        self.reason.text(&Measure::latency())
    }
}

/// The verdict about a metric that is alone in its report.
fn verdict(made: Made) -> Verdict {
    judge(&[made]).verdicts.swap_remove(0)
}

fn noise(count: usize, level: f64, sigma: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| level + sigma * normal::quantile(random.unit().max(1e-17))).collect()
}
