//! Benchmarks that multiply their work by the number in the file `work` of the current directory.
//! `cargo xtask peers run aa` compares equal work repeatedly, and double the work.

use std::{fs, hint::black_box};

use criterion::{Criterion, criterion_group, criterion_main};
use wingbeat_stats::random::Random;

/// Values that fit into the L1 cache, and values that do not fit into L2.
const FEW: usize = 2_000;
const MANY: usize = 1 << 19;

fn work() -> u32 {
    fs::read_to_string("work").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

fn benches(criterion: &mut Criterion) {
    let work = work();
    let mut random = Random::new(1);
    let mut random_values = |count: usize| (0..count).map(|_| random.unit()).collect::<Vec<f64>>();
    let (few, many) = (random_values(FEW), random_values(MANY));
    criterion.bench_function("arithmetic", |bencher| {
        bencher.iter(|| {
            (0..work).map(|_| black_box(&few).iter().map(|x| x.sin()).sum::<f64>()).sum::<f64>()
        });
    });
    criterion.bench_function("memory", |bencher| {
        bencher.iter(|| {
            let walk = |_| {
                let many = black_box(&many);
                let mut at = 0;
                for step in 0..FEW {
                    at = (many[at] * MANY as f64) as usize ^ step;
                    at %= MANY;
                }
                at
            };
            (0..work).map(walk).sum::<usize>()
        });
    });
    criterion.bench_function("allocations", |bencher| {
        bencher.iter(|| {
            for _ in 0..work {
                for length in 1..=FEW / 10 {
                    black_box(vec![0_u8; 8 * length]);
                }
            }
        });
    });
}

criterion_group!(all, benches);
criterion_main!(all);
