//! Simulated coverage of intervals: the table of docs/judging-appendix.md.
//!
//! `cargo run --release -p wingbeat-stats --example coverage [RUNS]` draws samples from known distributions, computes
//! 99 % intervals of the mean from each, and counts. 10,000 runs take about five minutes and are accurate to 0.1 points
//! at 99 %. The output is reproducible.

use wingbeat_stats::{
    Interval, Sample, bootstrap::Bootstrap, power, random::Random, sample::mean_of, student,
};

const SIZES: [usize; 6] = [6, 8, 10, 15, 30, 60];
const CONFIDENCE: f64 = 0.99;
const RESAMPLES: usize = 1_999;

/// A distribution with mean 0.
struct Distribution {
    name: &'static str,
    draw: fn(&mut Random) -> f64,
}

const DISTRIBUTIONS: [Distribution; 7] = [
    Distribution { name: "normal", draw: Random::normal },
    Distribution { name: "normal, rounded to 1 s", draw: |r| r.normal().round() },
    Distribution { name: "normal, 1 in 10 ten times as wide", draw: contaminated },
    Distribution { name: "Student's t, 3 degrees", draw: heavy_tailed },
    Distribution { name: "difference of two that are slow 1 in 10", draw: slow_difference },
    Distribution { name: "exponential", draw: |r| exponential(r) - 1.0 },
    Distribution { name: "log-normal", draw: |r| r.normal().exp() - 0.5_f64.exp() },
];

fn exponential(random: &mut Random) -> f64 {
    -(1.0 - random.unit()).ln()
}

fn contaminated(random: &mut Random) -> f64 {
    let scale = if random.unit() < 0.1 { 10.0 } else { 1.0 };
    scale * random.normal()
}

fn heavy_tailed(random: &mut Random) -> f64 {
    let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
    random.normal() / (squares / 3.0).sqrt()
}

fn slow_difference(random: &mut Random) -> f64 {
    let mut one = || {
        let slow = if random.unit() < 0.1 { 5.0 * exponential(random) } else { 0.0 };
        0.3 * random.normal() + slow
    };
    one() - one()
}

/// The intervals of one run.
struct Run {
    student: Interval,
    percentile: Interval,
    studentized: Interval,
    cautious: Interval,
}

fn run(values: Vec<f64>, seed: u64) -> Option<Run> {
    let sample = Sample::new(values).ok()?;
    let bootstrap = Bootstrap { resamples: RESAMPLES, confidence: CONFIDENCE, seed };
    Some(Run {
        student: student::interval_of_mean(&sample, CONFIDENCE)?,
        percentile: bootstrap.percentile(&sample, mean_of)?,
        studentized: bootstrap.studentized(&sample)?,
        cautious: bootstrap.mean(&sample)?,
    })
}

/// Percent of runs.
fn share(runs: &[Run], holds: impl Fn(&Run) -> bool) -> f64 {
    100.0 * runs.iter().filter(|run| holds(run)).count() as f64 / runs.len() as f64
}

/// A figure about an interval, for each distribution and size.
struct Measure {
    name: &'static str,
    of: fn(&[Run]) -> f64,
    decimals: usize,
}

const MEASURES: [Measure; 5] = [
    Measure { name: "for verdicts, % held", of: |r| held(r, |run| run.cautious), decimals: 1 },
    Measure { name: "width ÷ Student's", of: relative_width, decimals: 2 },
    Measure { name: "bootstrap-t, % held", of: |r| held(r, |run| run.studentized), decimals: 1 },
    Measure { name: "Student's t, % held", of: |r| held(r, |run| run.student), decimals: 1 },
    Measure { name: "percentiles, % held", of: |r| held(r, |run| run.percentile), decimals: 1 },
];

fn held(runs: &[Run], interval: fn(&Run) -> Interval) -> f64 {
    share(runs, |run| interval(run).contains(0.0))
}

/// The median over samples whose values are not all equal.
fn relative_width(runs: &[Run]) -> f64 {
    let wide = runs.iter().filter(|run| run.student.width() > 0.0);
    let ratios = wide.map(|run| run.cautious.width() / run.student.width()).collect();
    Sample::new(ratios).map_or(f64::NAN, |sample| sample.median())
}

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000_u64);
    let sizes = SIZES.map(|n| format!(" {n} |")).concat();
    let rule = "| --- ".repeat(SIZES.len() + 1);
    let mut tables = MEASURES.map(|measure| format!("| {} |{sizes}\n{rule}|\n", measure.name));
    let mut powers = Vec::new();
    for (kind, distribution) in DISTRIBUTIONS.iter().enumerate() {
        for table in &mut tables {
            *table += &format!("| {} |", distribution.name);
        }
        for n in SIZES {
            let mut random = Random::new((kind * 1000 + n) as u64);
            let mut values = || (0..n).map(|_| (distribution.draw)(&mut random)).collect();
            let runs: Vec<Run> = (0..count).filter_map(|seed| run(values(), seed)).collect();
            for (table, measure) in tables.iter_mut().zip(&MEASURES) {
                *table += &format!(" {:.*} |", measure.decimals, (measure.of)(&runs));
            }
            if kind == 0 {
                powers.extend(seen(&runs, n));
            }
        }
        for table in &mut tables {
            table.push('\n');
        }
    }
    for table in tables {
        println!("{table}");
    }
    println!("| n | smallest effect of the t-test | % seen | smallest effect as tried | % seen |");
    println!("| --- | --- | --- | --- | --- |");
    for line in powers {
        println!("{line}");
    }
}

/// How often the interval for verdicts detects the effects that 90 % should detect, for normal values with standard
/// error 1 ÷ √n. Shifting all values shifts the interval, so the runs need not be repeated.
fn seen(runs: &[Run], n: usize) -> Option<String> {
    let bootstrap = Bootstrap { resamples: RESAMPLES, confidence: CONFIDENCE, seed: 1 };
    let by_t = power::smallest_effect(1.0, (n - 1) as f64, 1.0 - CONFIDENCE, 0.9)?;
    let tried = bootstrap.smallest_effect(1.0, n, 0.9)?;
    let share = |effect: f64| {
        let effect = effect / (n as f64).sqrt();
        share(runs, |run| run.cautious.lower + effect > 0.0)
    };
    Some(format!("| {n} | {by_t:.2} | {:.1} | {tried:.2} | {:.1} |", share(by_t), share(tried)))
}
