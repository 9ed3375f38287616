//! Cost of change-point detection, which must be linear in the length.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_stats::{
    changes::{Settings, find},
    random::Random,
};

/// Points of a series. Tests are unoptimized and only check that it runs.
const LENGTHS: &[usize] = match cfg!(debug_assertions) {
    true => &[1_000],
    false => &[1_000, 10_000, 100_000, 1_000_000],
};

/// Points between two steps.
const APART: usize = 300;

/// Normal noise, optionally with occasional steps of two standard deviations.
fn series(points: usize, has_steps: bool) -> Vec<f64> {
    let mut random = Random::new(points as u64);
    let value = |at: usize| {
        let is_up = has_steps && (at / APART) % 2 == 1;
        random.normal() + if is_up { 102.0 } else { 100.0 }
    };
    (0..points).map(value).collect()
}

fn lengths(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("changes");
    group.sample_size(10);
    for points in LENGTHS.iter().copied() {
        group.throughput(Throughput::Elements(points as u64));
        for (name, has_steps) in [("noise", false), ("steps", true)] {
            let series = series(points, has_steps);
            group.bench_with_input(BenchmarkId::new(name, points), &series, |bencher, series| {
                bencher.iter(|| find(black_box(series), &Settings::default()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, lengths);
criterion_main!(benches);
