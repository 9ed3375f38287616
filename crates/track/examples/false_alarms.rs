//! How often `decide` is wrong, and how often it finds what is there, by simulation: the tables of
//! docs/how-numbers-are-judged.md.
//!
//! `cargo run --release -p wingbeat-track --example false_alarms [PERCENT [false-alarms|short|power]]`
//! makes reports with known noise and judges them. The same numbers come out every time; with a share of
//! the runs, rougher ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use time::OffsetDateTime;
use wingbeat_stats::{normal, random::Random};
use wingbeat_track::{
    decide::{Outcome, Point, ReportInput, Series, Settings, decide},
    model::{BenchmarkName, Environment, Measure, Metric, ThresholdModel, threshold::Test},
};

/// Points of history.
const HISTORIES: [usize; 4] = [5, 10, 20, 100];
const BENCHMARKS: [usize; 3] = [1, 10, 100];

/// Standard deviation of all noise, as a share of the level.
const SIGMA: f64 = 0.03;

/// A kind of noise with standard deviation 1, spikes left out.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Gaussian,
    Uniform,
    /// The standard deviation of the logarithm: how lopsided it is.
    LogNormal(f64),
    HeavyTails,
    Spikes,
    Autoregressive,
    Bimodal,
    Quantised,
    Constant,
    /// All of those before by turns.
    Mixed,
}

const KINDS: [(Kind, &str); 12] = [
    (Kind::Gaussian, "Gaussian"),
    (Kind::Uniform, "uniform"),
    (Kind::LogNormal(0.1), "log-normal 0.1"),
    (Kind::LogNormal(0.3), "log-normal 0.3"),
    (Kind::LogNormal(0.6), "log-normal 0.6"),
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
    /// The kind of one of the benchmarks.
    fn of(self, benchmark: usize) -> Self {
        if self == Self::Mixed { KINDS[benchmark % (KINDS.len() - 1)].0 } else { self }
    }

    fn noise(self, count: usize, random: &mut Random) -> Vec<f64> {
        let mut last = gaussian(random);
        let mut one = || match self {
            Self::Gaussian | Self::Quantised => gaussian(random),
            Self::Uniform => (random.unit() - 0.5) * 12.0_f64.sqrt(),
            Self::LogNormal(s) => {
                let mean = (s * s / 2.0).exp();
                let deviation = mean * ((s * s).exp() - 1.0).sqrt();
                ((s * gaussian(random)).exp() - mean) / deviation
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
        (0..count).map(|_| one()).collect()
    }

    /// A value as it is written down.
    fn value(self, sigmas: f64) -> f64 {
        match self {
            Self::Quantised => 100.0 * (1.0 + SIGMA * sigmas.round()),
            _ => 100.0 * (1.0 + SIGMA * sigmas),
        }
    }
}

/// One report: what it is made of, and how it is judged.
#[derive(Clone, Copy)]
struct Trial {
    kind: Kind,
    benchmarks: usize,
    history: usize,
    /// By how many standard deviations the first benchmark became slower, and in how many reports it has
    /// been by now, this one included.
    slowdown: Option<f64>,
    later: usize,
    /// Whether what looks bad is measured again, once (`--confirm 1`).
    confirm: bool,
    test: Test,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            kind: Kind::Gaussian,
            benchmarks: 1,
            history: 10,
            slowdown: None,
            later: 1,
            confirm: false,
            test: Test::Auto,
        }
    }
}

impl Trial {
    /// The values of one benchmark: history, the report's, and what measuring again gives.
    fn values(&self, benchmark: usize, random: &mut Random) -> Vec<f64> {
        let kind = self.kind.of(benchmark);
        let noise = kind.noise(self.history + self.later + 1, random);
        let values = noise.iter().enumerate().map(|(place, &sigmas)| {
            let is_slow = benchmark == 0 && place >= self.history;
            kind.value(sigmas + self.slowdown.filter(|_| is_slow).unwrap_or(0.0))
        });
        values.collect()
    }

    /// Judges one report. Is the slow benchmark worse, and is any verdict about the others a change?
    fn judge(&self, random: &mut Random) -> (bool, bool) {
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
        let is_t_test = self.test == Test::TTest;
        let model = ThresholdModel {
            upper_boundary: is_t_test.then_some(0.99),
            max_sample_size: is_t_test.then_some(64),
            ..ThresholdModel::new(self.test)
        };
        let name = |i| BenchmarkName::new(format!("b{i}")).expect("a name");
        let names: Vec<BenchmarkName> = (0..self.benchmarks).map(name).collect();
        let made: Vec<(Vec<Point<'_>>, Metric, f64)> = (0..self.benchmarks)
            .map(|benchmark| {
                let values = self.values(benchmark, random);
                let mut points: Vec<Point<'_>> = values.into_iter().map(point).collect();
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
        if self.confirm {
            let is_bad = |outcome| outcome == Outcome::Better || outcome == Outcome::Worse;
            for (place, verdict) in decision.verdicts.iter().enumerate() {
                if is_bad(verdict.outcome) {
                    report.series[place].repeats = std::slice::from_ref(&made[place].2);
                }
            }
            decision = decide(&report, &Settings::default());
        }
        let (mut is_found, mut is_wrong) = (false, false);
        for (place, verdict) in decision.verdicts.iter().enumerate() {
            if place == 0 && self.slowdown.is_some() {
                is_found = verdict.outcome == Outcome::Worse;
            } else {
                is_wrong |= matches!(verdict.outcome, Outcome::Worse | Outcome::Better);
            }
        }
        (is_found, is_wrong)
    }

    /// Shares of so many reports: found, and with a false verdict.
    fn run(&self, reports: usize) -> (f64, f64) {
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
                        let (is_found, is_wrong) = self.judge(&mut Random::new(seed as u64));
                        found.fetch_add(usize::from(is_found), Ordering::Relaxed);
                        wrong.fetch_add(usize::from(is_wrong), Ordering::Relaxed);
                    }
                });
            }
        });
        let share = |count: AtomicUsize| count.into_inner() as f64 / reports as f64;
        (share(found), share(wrong))
    }
}

fn heading(first: &str, columns: impl Iterator<Item = String> + Clone) {
    let rule: Vec<&str> = columns.clone().map(|_| "---").collect();
    println!("| {first} | {} |", columns.collect::<Vec<_>>().join(" | "));
    println!("| --- | {} |", rule.join(" | "));
}

fn row(name: &str, cells: impl Iterator<Item = String>) {
    println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn percent(share: f64) -> String {
    format!("{:.*}", if share < 0.0995 { 2 } else { 0 }, share * 100.0)
}

fn main() {
    let part: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let which = std::env::args().nth(2).unwrap_or_default();
    let is_asked = |name: &str| which.is_empty() || which == name;
    let reports = |whole: usize| (whole * part / 100).max(1);
    if is_asked("false-alarms") {
        for (title, test, confirm) in [
            ("auto", Test::Auto, false),
            ("auto, with --confirm 1", Test::Auto, true),
            ("t_test 0.99", Test::TTest, false),
        ] {
            println!("\nReports with a false verdict, %, by benchmarks and points: {title}\n");
            print_false_alarms(&Trial { test, confirm, ..Trial::default() }, &reports);
        }
    }
    if is_asked("short") {
        println!("\nSlowdowns of one of five benchmarks found in the first report, %\n");
        print_short(reports(10_000));
    }
    if is_asked("power") {
        for (title, test, later) in [
            ("auto, in the first report", Test::Auto, 1),
            ("auto, in the fifth report", Test::Auto, 5),
            ("t_test 0.99, in the first report", Test::TTest, 1),
        ] {
            println!("\nSlowdowns found, %, by benchmarks and size: {title}\n");
            print_power(&Trial { test, later, ..Trial::default() }, &reports);
        }
    }
}

fn print_false_alarms(method: &Trial, reports: &dyn Fn(usize) -> usize) {
    // Beside the table of `auto` a few columns are enough.
    let is_auto = method.test == Test::Auto && !method.confirm;
    let histories = || HISTORIES.into_iter().filter(move |points| is_auto || points % 90 == 10);
    let columns = BENCHMARKS
        .iter()
        .flat_map(|benchmarks| histories().map(move |points| format!("{benchmarks}: {points}")));
    heading("noise", columns);
    for (kind, name) in KINDS {
        let cells = BENCHMARKS.iter().flat_map(|&benchmarks| {
            histories().map(move |history| {
                // As many kinds have to be there.
                if kind == Kind::Mixed && benchmarks < 10 {
                    return "–".to_owned();
                }
                let whole = [20_000, 8_000, 3_000][benchmarks.ilog10() as usize];
                percent(Trial { kind, benchmarks, history, ..*method }.run(reports(whole)).1)
            })
        });
        row(name, cells);
    }
}

/// Few points and five benchmarks: what a young project has.
fn print_short(reports: usize) {
    const STEPS: [f64; 4] = [5.0, 6.0, 8.0, 12.0];
    heading("noise, points", STEPS.iter().map(|step| format!("{step} σ")));
    let kinds = [Kind::Gaussian, Kind::LogNormal(0.3)];
    for (kind, name) in KINDS.iter().filter(|(kind, _)| kinds.contains(kind)) {
        for history in [5, 12, 30] {
            let trial = Trial { kind: *kind, benchmarks: 5, history, ..Trial::default() };
            let found = |&step| Trial { slowdown: Some(step), ..trial }.run(reports).0;
            let cells = STEPS.iter().map(|step| format!("{:.0}", found(step) * 100.0));
            row(&format!("{name}, {history}"), cells);
        }
    }
}

fn print_power(method: &Trial, reports: &dyn Fn(usize) -> usize) {
    const STEPS: [f64; 3] = [3.0, 5.0, 10.0];
    let columns = BENCHMARKS
        .iter()
        .flat_map(|benchmarks| STEPS.iter().map(move |step| format!("{benchmarks}: {step} σ")));
    heading("noise, points", columns);
    let kinds = [Kind::Gaussian, Kind::LogNormal(0.3), Kind::LogNormal(0.6), Kind::Spikes];
    for (kind, name) in KINDS.iter().filter(|(kind, _)| kinds.contains(kind)) {
        for history in [10, 20, 100] {
            let cells = BENCHMARKS.iter().flat_map(|&benchmarks| {
                STEPS.map(|sigmas| {
                    let slowdown = Some(sigmas);
                    let trial = Trial { kind: *kind, benchmarks, history, slowdown, ..*method };
                    let (found, _) = trial.run(reports(60_000 / (benchmarks + 19)));
                    format!("{:.0}", found * 100.0)
                })
            });
            row(&format!("{name}, {history}"), cells);
        }
    }
}
