//! All pairs below a limit.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    criterion.bench_function("pairs", |bencher| {
        bencher.iter(|| {
            let mut out = Vec::new();
            amicable::print_pairs(black_box(1500), &mut out).expect("memory can be written to");
            out
        });
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
