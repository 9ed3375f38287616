//! Simulated error rate and power of `wingbeat compare`: tables of docs/judging-appendix.md.
//!
//! `cargo run --release -p wingbeat-track --example compare_power [PERCENT]` makes runs with known noise, stops as
//! `compare` stops, and judges. The output is reproducible. With a percentage of the comparisons it is less precise.

use std::collections::BTreeMap;

use wingbeat_stats::{
    Sample, normal,
    paired::{PAIRS_MIN, Yardstick},
    random::Random,
    student,
};
use wingbeat_track::compare::{
    Order, SideName,
    judge::{Settings, is_look, yardstick},
};

/// Scatter of the runs' logarithms. The precision that ends a comparison is 1 %.
const SIGMAS: [f64; 4] = [0.002, 0.005, 0.01, 0.03];
const BENCHMARKS: [usize; 3] = [1, 10, 100];
/// Comparisons per figure, by number of benchmarks.
const COMPARISONS: [usize; 3] = [40_000, 8_000, 1_500];
/// Runs of half a second fill two minutes with 120 pairs.
const PAIRS_MAX: usize = 120;

/// Distribution of the runs, with standard deviation about 1.
#[derive(Clone, Copy)]
enum Noise {
    Gaussian,
    LogNormal,
    HeavyTails,
    SlowRuns,
    TwoModes,
    Drift,
    Coarse,
}

const NOISES: [(Noise, &str); 7] = [
    (Noise::Gaussian, "normal"),
    (Noise::LogNormal, "log-normal"),
    (Noise::HeavyTails, "Student's t, 3 degrees"),
    (Noise::SlowRuns, "1 run in 10 is 5 σ slower"),
    (Noise::TwoModes, "two modes, 4 σ apart"),
    (Noise::Drift, "AR(1) from run to run, ρ = 0.9"),
    (Noise::Coarse, "rounded to 1 σ"),
];

fn gaussian(random: &mut Random) -> f64 {
    normal::quantile(1.0 - random.unit() - f64::EPSILON / 4.0)
}

impl Noise {
    fn next(self, last: &mut f64, random: &mut Random) -> f64 {
        match self {
            Self::Gaussian => gaussian(random),
            Self::LogNormal => gaussian(random).exp() / 2.16,
            Self::HeavyTails => {
                let squares: f64 = (0..3).map(|_| gaussian(random).powi(2)).sum();
                gaussian(random) / (squares / 3.0).sqrt() / 3.0_f64.sqrt()
            }
            Self::SlowRuns => {
                let slow = if random.below(10) == 0 { 5.0 } else { 0.0 };
                gaussian(random) + slow
            }
            Self::TwoModes => gaussian(random) * 0.5 + if random.coin() { 4.0 } else { 0.0 },
            Self::Drift => {
                *last = 0.9 * *last + 0.19_f64.sqrt() * gaussian(random);
                *last
            }
            Self::Coarse => gaussian(random).round(),
        }
    }
}

struct Outcome {
    pairs: usize,
    is_any_worse: bool,
    is_any_changed: bool,
}

struct Simulator {
    settings: Settings,
    benchmarks: usize,
    yardstick: Yardstick,
    /// Student's quantiles, by number of pairs.
    critical: BTreeMap<usize, f64>,
}

impl Simulator {
    fn new(benchmarks: usize) -> Self {
        let settings = Settings::default();
        let yardstick = yardstick(&settings, benchmarks);
        Self { settings, benchmarks, yardstick, critical: BTreeMap::new() }
    }

    /// One comparison. The head's first benchmark is slower by that share.
    fn compare(
        &mut self,
        noise: Noise,
        sigma: f64,
        slower: f64,
        pairs_max: usize,
        seed: u64,
    ) -> Outcome {
        let mut random = Random::new(seed);
        let mut order = Order::new(seed ^ 0x5eed);
        let mut last: Vec<f64> = (0..self.benchmarks).map(|_| gaussian(&mut random)).collect();
        let mut ratios = vec![Vec::new(); self.benchmarks];
        let mut pairs = 0;
        while pairs < pairs_max {
            for pair in order.block().chunks_exact(2) {
                for (at, ratios) in ratios.iter_mut().enumerate() {
                    let change = if at == 0 { slower.ln_1p() } else { 0.0 };
                    let ratio: f64 = pair
                        .iter()
                        .map(|side| {
                            let value = sigma * noise.next(&mut last[at], &mut random);
                            if *side == SideName::Head { value + change } else { -value }
                        })
                        .sum();
                    ratios.push(ratio);
                }
                pairs += 1;
            }
            let precision = self.settings.precision;
            let mut samples =
                ratios.iter().map(|ratios| Sample::new(ratios.clone()).expect("finite"));
            let is_enough =
                is_look(pairs) && samples.all(|sample| self.yardstick.sees(&sample, precision));
            if is_enough {
                break;
            }
        }
        let mut outcome = Outcome { pairs, is_any_worse: false, is_any_changed: false };
        for ratios in ratios {
            let (is_lower, is_upper) = self.excludes_0(&Sample::new(ratios).expect("finite"));
            outcome.is_any_worse |= is_lower;
            outcome.is_any_changed |= is_lower || is_upper;
        }
        outcome
    }

    fn excludes_0(&mut self, sample: &Sample) -> (bool, bool) {
        let n = sample.len();
        let tail = (1.0 - self.yardstick.confidence()) / 2.0;
        let critical = self.critical.entry(n);
        let critical = critical.or_insert_with(|| -student::quantile(tail, n as f64 - 1.0));
        let error = sample.standard_error().expect("two values");
        // The interval is never narrower than Student's, which is faster to compute.
        if sample.mean().abs() <= *critical * error {
            return (false, false);
        }
        let interval = self.yardstick.interval(sample).expect("an interval");
        (interval.lower > 0.0, interval.upper < 0.0)
    }
}

fn main() {
    let share: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100.0);
    let counts = COMPARISONS.map(|count| ((count as f64 * share / 100.0) as usize).max(10));
    false_verdicts(counts);
    found(counts[0] / 40);
}

fn false_verdicts(counts: [usize; 3]) {
    println!(
        "False verdicts in 1,000 comparisons of a revision with itself, by scatter of the runs\n"
    );
    let columns = BENCHMARKS.map(|benchmarks| {
        SIGMAS.map(|sigma| format!("{benchmarks}: {} %", sigma * 100.0)).join(" | ")
    });
    println!("| noise, benchmarks: σ | {} |", columns.join(" | "));
    println!("| --- |{}", " --- |".repeat(BENCHMARKS.len() * SIGMAS.len()));
    for (noise, name) in NOISES {
        let mut cells = Vec::new();
        for (benchmarks, count) in BENCHMARKS.into_iter().zip(counts) {
            for sigma in SIGMAS {
                let mut simulator = Simulator::new(benchmarks);
                let wrong = (0..count)
                    .filter(|&seed| {
                        let seed = seed as u64;
                        simulator.compare(noise, sigma, 0.0, PAIRS_MAX, seed).is_any_changed
                    })
                    .count();
                cells.push(format!("{:.1}", 1000.0 * wrong as f64 / count as f64));
            }
        }
        println!("| {name} | {} |", cells.join(" | "));
    }
}

fn found(count: usize) {
    println!("\nSlowdowns found, %, and pairs that it took: one benchmark, normal noise\n");
    println!("| σ of a run | 1 % | 2 % | 3 % | 5 % |\n| --- | --- | --- | --- | --- |");
    for sigma in [0.005, 0.01, 0.02, 0.03, 0.05, 0.08] {
        let cells = [0.01, 0.02, 0.03, 0.05].map(|slower| {
            let mut simulator = Simulator::new(1);
            let outcomes: Vec<Outcome> = (0..count as u64)
                .map(|seed| simulator.compare(Noise::Gaussian, sigma, slower, PAIRS_MAX, seed))
                .collect();
            let found = outcomes.iter().filter(|outcome| outcome.is_any_worse).count();
            let pairs: usize = outcomes.iter().map(|outcome| outcome.pairs).sum();
            let (found, pairs) = (100.0 * found as f64 / count as f64, pairs as f64 / count as f64);
            format!("{found:.1}, {pairs:.0}")
        });
        println!("| {} % | {} |", sigma * 100.0, cells.join(" | "));
    }
    let least = Simulator::new(1).compare(Noise::Gaussian, 1e-4, 0.0, PAIRS_MAX, 1).pairs;
    println!(
        "\nNever fewer than {PAIRS_MIN} pairs; with runs that hardly scatter it took {least}."
    );
}
