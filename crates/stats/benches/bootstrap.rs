//! Cost of resampling: 10,000 resamples of 100 values should take a few milliseconds.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use wingbeat_stats::{Sample, bootstrap::Bootstrap, power, random::Random, rank, sample, student};

fn values(n: usize) -> Sample {
    seeded(n, 1)
}

fn seeded(n: usize, seed: u64) -> Sample {
    let mut random = Random::new(seed);
    Sample::new((0..n).map(|_| random.unit()).collect()).expect("finite values")
}

fn bootstraps(criterion: &mut Criterion) {
    let (bootstrap, hundred, thirty) = (Bootstrap::default(), values(100), values(30));
    let mut group = criterion.benchmark_group("10,000 resamples");
    group.bench_function("percentile, mean of 100", |bencher| {
        bencher.iter(|| bootstrap.percentile(black_box(&hundred), sample::mean_of));
    });
    group.bench_function("for verdicts, mean of 30", |bencher| {
        bencher.iter(|| bootstrap.mean(black_box(&thirty)));
    });
    group.finish();
}

fn others(criterion: &mut Criterion) {
    let (fifty, fifty_more) = (values(50), seeded(50, 2));
    criterion.bench_function("Mann–Whitney, exact, 50 and 50", |bencher| {
        bencher.iter(|| rank::mann_whitney(black_box(&fifty), black_box(&fifty_more)));
    });
    criterion.bench_function("smallest effect of verdicts, 30 values", |bencher| {
        bencher.iter(|| Bootstrap::default().smallest_effect(1.0, black_box(30), 0.9));
    });
    criterion.bench_function("smallest effect of the t-test", |bencher| {
        bencher.iter(|| power::smallest_effect(1.0, black_box(9.0), 0.01, 0.9));
    });
    criterion.bench_function("quantile of Student's t", |bencher| {
        bencher.iter(|| student::quantile(black_box(0.995), 9.0));
    });
}

criterion_group!(benches, bootstraps, others);
criterion_main!(benches);
