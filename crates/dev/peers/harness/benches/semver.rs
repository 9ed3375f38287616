//! Versions and requirements parsed, and versions sorted.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use semver::{Version, VersionReq};

const VERSIONS: [&str; 8] = [
    "1.0.2021-beta+exp.sha.5114f85",
    "0.1.0",
    "12.34.56",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta.22",
    "2.10.3+build.20260101",
    "1.0.0-rc.1.long.identifier",
    "3.0.0",
];

const REQUIREMENTS: [&str; 4] = [">=1.2.3, <2.0.0", "^1.0", "~0.3.1-alpha.2, <0.4", "=1.2.3"];

fn bench(criterion: &mut Criterion) {
    criterion.bench_function("versions", |bencher| {
        bencher.iter(|| {
            for text in VERSIONS {
                black_box(black_box(text).parse::<Version>().expect("a version"));
            }
        });
    });
    criterion.bench_function("requirements", |bencher| {
        bencher.iter(|| {
            for text in REQUIREMENTS {
                black_box(black_box(text).parse::<VersionReq>().expect("a requirement"));
            }
        });
    });
    let versions = VERSIONS.map(|text| text.parse::<Version>().expect("a version"));
    criterion.bench_function("sort", |bencher| {
        bencher.iter(|| {
            let mut sorted: Vec<&Version> = black_box(&versions).iter().collect();
            sorted.sort();
            sorted
        });
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
