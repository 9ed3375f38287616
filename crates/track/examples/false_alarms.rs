//! How often `decide` is wrong, and how often it finds what is there, by simulation: the tables of
//! docs/how-numbers-are-judged.md.
//!
//! `cargo run --release -p wingbeat-track --example false_alarms [PERCENT [false-alarms|power]]` makes reports with known noise
//! and judges them. The same numbers come out every time; with a share of the runs, rougher ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use time::OffsetDateTime;
use wingbeat_stats::{normal, random::Random};
use wingbeat_track::{
    decide::{Outcome, Point, ReportInput, Series, Settings, decide},
    model::{BenchmarkName, Environment, Measure, Metric, ThresholdModel, threshold::Test},
};

const HISTORIES: [usize; 5] = [5, 10, 20, 50, 100];
const BENCHMARKS: [usize; 3] = [1, 10, 100];
const STEPS: [f64; 4] = [2.0, 3.0, 5.0, 10.0];

/// Level and standard deviation of all series.
const LEVEL: f64 = 100.0;
const SIGMA: f64 = 3.0;

/// A kind of noise with standard deviation 1, spikes left out.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Gaussian,
    LogNormal,
    HeavyTails,
    Spikes,
    Autoregressive,
    Bimodal,
    Quantised,
    Constant,
    Mixed,
}

const KINDS: [(Kind, &str); 9] = [
    (Kind::Gaussian, "Gaussian"),
    (Kind::LogNormal, "log-normal"),
    (Kind::HeavyTails, "Student's t, 3 degrees"),
    (Kind::Spikes, "5 % spikes of 5 to 20 σ"),
    (Kind::Autoregressive, "AR(1), ρ = 0.5"),
    (Kind::Bimodal, "bimodal"),
    (Kind::Quantised, "quantised to 1 σ"),
    (Kind::Constant, "constant"),
    (Kind::Mixed, "all of them by turns"),
];

fn gaussian(random: &mut Random) -> f64 {
    normal::quantile(1.0 - random.unit() - f64::EPSILON / 4.0)
}

impl Kind {
    fn noise(self, count: usize, benchmark: usize, random: &mut Random) -> Vec<f64> {
        let mut last = gaussian(random);
        let mut one = |random: &mut Random| match self {
            Self::Gaussian | Self::Quantised => gaussian(random),
            Self::LogNormal => {
                const S: f64 = 0.6;
                let mean = (S * S / 2.0_f64).exp();
                let deviation = mean * ((S * S).exp() - 1.0).sqrt();
                ((S * gaussian(random)).exp() - mean) / deviation
            }
            Self::HeavyTails => {
                let squares: f64 = (0..3).map(|_| gaussian(random).powi(2)).sum();
                gaussian(random) / (squares / 3.0).sqrt() / 3.0_f64.sqrt()
            }
            Self::Spikes => {
                let value = gaussian(random);
                let size = 5.0 + 15.0 * random.unit();
                match random.unit() {
                    chance if chance < 0.04 => value + size,
                    chance if chance < 0.05 => value - size,
                    _ => value,
                }
            }
            Self::Autoregressive => {
                let value = last;
                last = 0.5 * last + 0.75_f64.sqrt() * gaussian(random);
                value
            }
            Self::Bimodal => {
                let level = if random.coin() { 2.0 } else { -2.0 };
                (level + gaussian(random)) / 5.0_f64.sqrt()
            }
            Self::Constant | Self::Mixed => 0.0,
        };
        if self == Self::Mixed {
            return KINDS[benchmark % 8].0.noise(count, benchmark, random);
        }
        (0..count).map(|_| one(random)).collect()
    }

    /// A value as it is written down.
    fn value(self, benchmark: usize, sigmas: f64) -> f64 {
        let kind = if self == Self::Mixed { KINDS[benchmark % 8].0 } else { self };
        LEVEL + SIGMA * if kind == Self::Quantised { sigmas.round() } else { sigmas }
    }
}

/// One report: what it is made of, and what is to be told of it.
#[derive(Clone, Copy)]
struct Trial {
    kind: Kind,
    benchmarks: usize,
    history: usize,
    /// Points at the new level, the report's own included, and the step of the first benchmark.
    step: (usize, f64),
    /// Whether what looks suspicious is measured again, once (`--confirm 1`).
    confirm: bool,
    test: Test,
}

/// Judges one report. Is the first benchmark worse, and is any other verdict a change?
fn judge(trial: &Trial, random: &mut Random) -> (bool, bool) {
    let time = OffsetDateTime::UNIX_EPOCH;
    let point = |value| Point {
        value,
        samples: &[],
        start_time: time,
        environment: None,
        hash: None,
        is_alert: false,
    };
    let (environment, measure) = (Environment::default(), Measure::latency());
    let upper_boundary = (trial.test == Test::TTest).then_some(0.99);
    let max_sample_size = (trial.test == Test::TTest).then_some(64);
    let model =
        ThresholdModel { upper_boundary, max_sample_size, ..ThresholdModel::new(trial.test) };
    let names: Vec<BenchmarkName> = (0..trial.benchmarks)
        .map(|i| BenchmarkName::new(format!("b{i}")).expect("a name"))
        .collect();
    let made: Vec<(Vec<Point<'_>>, Metric, f64)> = (0..trial.benchmarks)
        .map(|benchmark| {
            let noise = trial.kind.noise(trial.history + trial.step.0 + 1, benchmark, random);
            let values = noise.iter().enumerate().map(|(place, &sigmas)| {
                let is_after = benchmark == 0 && place >= trial.history;
                let step = if is_after { trial.step.1 } else { 0.0 };
                trial.kind.value(benchmark, sigmas + step)
            });
            let mut points: Vec<Point<'_>> = values.map(point).collect();
            let again = points.pop().expect("a value").value;
            let last = points.pop().expect("a value").value;
            (points, Metric::new(last), again)
        })
        .collect();
    let series = names.iter().zip(&made).map(|(benchmark, (history, metric, _))| Series {
        iteration: 0,
        repeats: &[],
        benchmark,
        measure: &measure,
        metric,
        is_ignored: false,
        model: Some(&model),
        history,
    });
    let mut report =
        ReportInput { start_time: time, environment: &environment, series: series.collect() };
    let mut decision = decide(&report, &Settings::default());
    if trial.confirm {
        for &index in decision.suspects.iter().chain(&decision.alerts) {
            report.series[index].repeats = std::slice::from_ref(&made[index].2);
        }
        decision = decide(&report, &Settings::default());
    }
    let is_change =
        |outcome| matches!(outcome, Outcome::Worse | Outcome::Better | Outcome::Changed);
    let mut outcomes = decision.verdicts.iter().map(|verdict| verdict.outcome);
    let first = outcomes.next().expect("a verdict");
    let is_first_changed = is_change(first);
    if trial.step.1 == 0.0 {
        return (false, is_first_changed || outcomes.any(is_change));
    }
    (first == Outcome::Worse, outcomes.any(is_change))
}

/// Shares of so many reports: found, and with a false verdict.
fn run(trial: &Trial, reports: usize) -> (f64, f64) {
    let (found, wrong, next) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= reports {
                        break;
                    }
                    let (is_found, is_wrong) = judge(trial, &mut Random::new(seed as u64));
                    found.fetch_add(usize::from(is_found), Ordering::Relaxed);
                    wrong.fetch_add(usize::from(is_wrong), Ordering::Relaxed);
                }
            });
        }
    });
    let share = |count: AtomicUsize| count.into_inner() as f64 / reports as f64;
    (share(found), share(wrong))
}

fn heading(first: &str, columns: impl Iterator<Item = String> + Clone) {
    let rule: Vec<&str> = columns.clone().map(|_| "---").collect();
    println!("| {first} | {} |", columns.collect::<Vec<_>>().join(" | "));
    println!("| --- | {} |", rule.join(" | "));
}

fn percent(share: f64) -> String {
    format!("{:.*}", if share < 0.0995 { 2 } else { 0 }, share * 100.0)
}

fn main() {
    let part: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let which = std::env::args().nth(2).unwrap_or_default();
    if which != "power" {
        print_false_alarms(part);
    }
    if which != "false-alarms" {
        print_power(part);
    }
}

fn print_false_alarms(part: usize) {
    for (test, title) in [(Test::Auto, "auto"), (Test::TTest, "t_test 0.99")] {
        println!(
            "\nReports with a false verdict, %, by benchmarks and points of history: {title}\n"
        );
        let columns = BENCHMARKS.iter().flat_map(|benchmarks| {
            HISTORIES.iter().map(move |points| format!("{benchmarks}: {points}"))
        });
        heading("noise", columns);
        for (kind, name) in KINDS {
            let cells = BENCHMARKS.iter().flat_map(|&benchmarks| {
                HISTORIES.map(|history| {
                    // As many kinds have to be there.
                    if kind == Kind::Mixed && benchmarks < 8 {
                        return "–".to_owned();
                    }
                    let step = (1, 0.0);
                    let trial = Trial { kind, benchmarks, history, step, confirm: false, test };
                    let reports = [20_000, 8_000, 3_000][benchmarks.ilog10() as usize];
                    percent(run(&trial, (reports * part / 100).max(1)).1)
                })
            });
            println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
    }
}

fn print_power(part: usize) {
    let methods = [
        (Test::Auto, false, 1, "auto, in the first report"),
        (Test::Auto, true, 1, "auto, in the first report, with --confirm 1"),
        (Test::Auto, false, 5, "auto, in the fifth report"),
        (Test::TTest, false, 1, "t_test 0.99, in the first report"),
        (Test::TTest, false, 5, "t_test 0.99, in the fifth report"),
    ];
    for (test, confirm, later, title) in methods {
        println!("\nSlowdowns found, %, by benchmarks and size: {title}\n");
        let columns = BENCHMARKS
            .iter()
            .flat_map(|benchmarks| STEPS.iter().map(move |step| format!("{benchmarks}: {step} σ")));
        heading("noise, points", columns);
        for kind in [Kind::Gaussian, Kind::LogNormal, Kind::Spikes] {
            let name = KINDS.iter().find(|known| known.0 == kind).map_or("", |known| known.1);
            for history in [10, 20, 50, 100] {
                let cells = BENCHMARKS.iter().flat_map(|&benchmarks| {
                    STEPS.map(|sigmas| {
                        let step = (later, sigmas);
                        let trial = Trial { kind, benchmarks, history, step, confirm, test };
                        let reports = 60_000 / (benchmarks + 19);
                        let (found, _) = run(&trial, (reports * part / 100).max(1));
                        format!("{:.0}", found * 100.0)
                    })
                });
                println!("| {name}, {history} | {} |", cells.collect::<Vec<_>>().join(" | "));
            }
        }
    }
}
