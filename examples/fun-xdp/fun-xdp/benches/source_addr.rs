//! Time of each version of the classifier in user space: 256 addresses per iteration, one for every last octet.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use fun_xdp::SourceAddr;

type Version = fn(u32) -> Option<SourceAddr>;

fn bench(criterion: &mut Criterion) {
    let versions: [(&str, Version); 4] = [
        ("SourceAddr::new_v1", SourceAddr::new_v1),
        ("SourceAddr::new_v2", SourceAddr::new_v2),
        ("SourceAddr::new_v3", SourceAddr::new_v3),
        ("SourceAddr::new_v4", SourceAddr::new_v4),
    ];
    for (name, version) in versions {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                for address in 0..=255 {
                    // Otherwise the compiler would optimize the unused results away.
                    black_box(version(black_box(address)));
                }
            });
        });
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
