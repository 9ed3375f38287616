//! Simulated reports, judged one after another.

use std::sync::atomic::{AtomicUsize, Ordering};

use time::{Duration, OffsetDateTime};
use wingbeat_stats::random::Random;
use wingbeat_track::{
    model::{
        BenchmarkName, Environment, Measure, Metric, Outcome, PastPoint, PastReport,
        ThresholdModel, threshold::Test,
    },
    verdict::{ReportInput, Series, Settings, decide},
};

use crate::noise::Kind;

/// Maximum number of reports judged after a change.
pub(crate) const REPORTS: usize = 3;

/// Composition of the reports, and how to judge them.
#[derive(Clone, Copy)]
pub(crate) struct Trial {
    pub(crate) kind: Kind,
    pub(crate) benchmarks: usize,
    /// Points before the first report.
    pub(crate) history: usize,
    /// Slowdown of the first benchmark from the first report on, in standard deviations.
    pub(crate) slowdown: Option<f64>,
    /// Consecutive reports, 1 to [`REPORTS`].
    pub(crate) reports: usize,
    /// Whether none of them is a spike itself.
    pub(crate) calm: bool,
    /// Whether bad values are measured again once (`--err`).
    pub(crate) confirm: bool,
    /// Whether the reports are pushes of a branch that starts at the history's end.
    pub(crate) are_pushes: bool,
    pub(crate) test: Test,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            kind: Kind::Gaussian,
            benchmarks: 1,
            history: 10,
            slowdown: None,
            reports: 1,
            calm: false,
            confirm: false,
            are_pushes: false,
            test: Test::Auto,
        }
    }
}

/// Rates of detections, as shares of the trials.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// An unchanged benchmark is worse or better in some report.
    pub(crate) wrong: f64,
    /// The slow benchmark raised an alert by the first, second, third report.
    pub(crate) by: [f64; REPORTS],
    /// The slow benchmark was shown by the first, second, third report, possibly as a spike.
    pub(crate) shown: [f64; REPORTS],
}

#[derive(Default)]
struct Counts {
    wrong: AtomicUsize,
    by: [AtomicUsize; REPORTS],
    shown: [AtomicUsize; REPORTS],
}

impl Trial {
    /// The values of one benchmark: history and reports, and a repeated measurement of each report.
    fn values(&self, benchmark: usize, random: &mut Random) -> (Vec<f64>, Vec<f64>) {
        let kind = self.kind.of(benchmark);
        let count = self.history + self.reports;
        let slower = self.slowdown.filter(|_| benchmark == 0).unwrap_or(0.0);
        let calm = if self.calm { self.history } else { usize::MAX };
        let noise = kind.noise(count + self.reports, self.history, calm, random);
        let mut values: Vec<f64> = Vec::with_capacity(noise.len());
        for (place, &sigmas) in noise.iter().enumerate() {
            values.push(kind.value(if place < self.history { sigmas } else { sigmas + slower }));
        }
        let again = values.split_off(count);
        (values, again)
    }

    fn judge(&self, random: &mut Random, counts: &Counts) {
        // One report per day.
        let time = |place: usize| OffsetDateTime::UNIX_EPOCH + Duration::days(place as i64);
        let point = |(place, &value): (usize, &f64)| PastPoint::new(place, value);
        let past: Vec<PastReport> = (0..self.history + self.reports)
            .map(|place| PastReport::at("main".parse().expect("a name"), time(place)))
            .collect();
        let (environment, measure) = (Environment::default(), Measure::latency());
        let is_t_test = self.test == Test::TTest;
        let model = ThresholdModel {
            upper_boundary: is_t_test.then_some(0.99),
            max_sample_size: is_t_test.then_some(64),
            ..ThresholdModel::new(self.test)
        };
        let name = |i| BenchmarkName::new(format!("b{i}")).expect("a name");
        let names: Vec<BenchmarkName> = (0..self.benchmarks).map(name).collect();
        let made: Vec<_> = (0..self.benchmarks).map(|i| self.values(i, random)).collect();
        let points: Vec<Vec<PastPoint>> =
            made.iter().map(|(values, _)| values.iter().enumerate().map(point).collect()).collect();
        let (mut is_found, mut is_shown) = (false, false);
        for report in 0..self.reports {
            let mut is_wrong = false;
            let at = self.history + report;
            let past_end = if self.are_pushes { self.history } else { at };
            let metrics: Vec<Metric> =
                made.iter().map(|(values, _)| Metric::new(values[at])).collect();
            let series = (0..self.benchmarks).map(|i| Series {
                model: Some(model),
                history: &points[i][..past_end],
                pushes: made[i].0[past_end..at].to_vec(),
                ..Series::new(&names[i], &measure, &metrics[i])
            });
            let mut input = ReportInput {
                start_time: time(at),
                environment: &environment,
                hash: None,
                past: &past,
                series: series.collect(),
            };
            let mut decision = decide(&input, &Settings::default());
            if self.confirm {
                for (place, verdict) in decision.verdicts.iter().enumerate() {
                    let is_beyond = matches!(verdict.outcome, Outcome::Better | Outcome::Worse);
                    if is_beyond || verdict.outcome.is_suspect() {
                        input.series[place].repeats = vec![made[place].1[report]];
                    }
                }
                decision = decide(&input, &Settings::default());
            }
            for (place, verdict) in decision.verdicts.iter().enumerate() {
                let outcome = verdict.outcome;
                if place == 0 && self.slowdown.is_some() {
                    is_found |= outcome == Outcome::Worse;
                    is_shown |= matches!(outcome, Outcome::Worse | Outcome::MaybeWorse);
                } else {
                    is_wrong |= matches!(outcome, Outcome::Worse | Outcome::Better);
                }
            }
            counts.by[report].fetch_add(usize::from(is_found), Ordering::Relaxed);
            counts.shown[report].fetch_add(usize::from(is_shown), Ordering::Relaxed);
            counts.wrong.fetch_add(usize::from(is_wrong), Ordering::Relaxed);
        }
    }

    pub(crate) fn run(&self, trials: usize) -> Seen {
        let (counts, next) = (Counts::default(), AtomicUsize::new(0));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= trials {
                            break;
                        }
                        self.judge(&mut Random::new(seed as u64), &counts);
                    }
                });
            }
        });
        let share = |count: AtomicUsize| count.into_inner() as f64 / trials as f64;
        Seen {
            wrong: share(counts.wrong) / self.reports as f64,
            by: counts.by.map(share),
            shown: counts.shown.map(share),
        }
    }
}
