//! Building tables: milliseconds per megabyte of call frame information, and the first stretch alone.
//!
//! The files are this program, and those in `WINGBEAT_UNWIND_FILES` (separated by colons).

use std::{fs, hint::black_box, path::PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_unwind::{Image, Rules, Table};

fn files() -> Vec<PathBuf> {
    let own = std::env::current_exe().into_iter();
    let named = std::env::var_os("WINGBEAT_UNWIND_FILES");
    own.chain(named.iter().flat_map(std::env::split_paths)).collect()
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unwind");
    for path in files() {
        let bytes = fs::read(&path).expect("file");
        let image = Image::parse(&*bytes).expect("ELF");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        group.sample_size(10).throughput(Throughput::Bytes(image.bytes() as u64));
        group.bench_function(format!("open/{name}"), |bencher| {
            bencher.iter(|| Image::parse(black_box(&*bytes)).map(|image| image.entries()));
        });
        group.bench_function(format!("whole/{name}"), |bencher| {
            bencher.iter(|| Table::whole(black_box(&image), &mut Rules::new()).bytes());
        });
        let middle = image.text().start.midpoint(image.text().end);
        group.bench_function(format!("stretch/{name}"), |bencher| {
            bencher.iter(|| {
                let mut table = Table::new(black_box(&image));
                table.add_around(middle, &image, &mut Rules::new());
                table.rule_at(middle)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, build);
criterion_main!(benches);
