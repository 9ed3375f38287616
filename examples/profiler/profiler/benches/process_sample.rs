//! Cost of one sample in user space, without the kernel and with logging disabled.
//!
//! With the feature `oops` the same benchmark shows the regression: a sleep of up to a second.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use profiler::process_sample;
use profiler_common::SAMPLE_BYTES;

/// Frames of a medium stack.
const FRAMES: u64 = 26;

fn sample_bytes() -> Vec<u8> {
    let mut bytes = 123_456_789_u64.to_ne_bytes().to_vec();
    bytes.extend(1000_u32.to_ne_bytes());
    bytes.extend(1001_u32.to_ne_bytes());
    bytes.extend((FRAMES * 8).to_ne_bytes());
    bytes.extend((0..FRAMES).flat_map(|depth| (0x5555_0000_0000 + depth * 64).to_ne_bytes()));
    bytes.resize(SAMPLE_BYTES, 0);
    bytes
}

/// Half a second per call: Criterion's default of 100 measurements would take a minute.
fn config() -> Criterion {
    if cfg!(feature = "oops") {
        Criterion::default()
            .sample_size(15)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(15))
    } else {
        Criterion::default()
    }
}

fn bench(criterion: &mut Criterion) {
    let bytes = sample_bytes();
    criterion.bench_function("process_sample", |bencher| {
        bencher.iter(|| process_sample(black_box(&bytes)));
    });
}

criterion_group! {
    name = benches;
    config = config();
    targets = bench
}
criterion_main!(benches);
