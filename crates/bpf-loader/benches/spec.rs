//! Benchmarks parsing an object and linking it for the running kernel: per object, and by its
//! number of programs, in which the time must be linear.

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_bpf_loader::{KernelTypes, spec::Spec};
use wingbeat_bpf_testing::object::{Object, btf, insns, sample::Sample};

const PROGRAMS: [usize; 3] = [10, 100, 1_000];
/// Maps shared by the programs of a generated object.
const MAPS: usize = 8;
/// Map references in each program of a generated object.
const REFERENCES: usize = 20;

/// Objects from compilers, including one with CO-RE field relocations.
fn objects(criterion: &mut Criterion) {
    let sample = Sample::new().bytes();
    let objects = [
        ("fun-xdp", fun_xdp::OBJECT),
        ("fun-xdp-log", fun_xdp::OBJECT_WITH_LOG),
        ("sample", sample.as_slice()),
    ];
    let mut group = criterion.benchmark_group("object");
    for (name, bytes) in objects {
        both(&mut group, name, bytes);
    }
    group.finish();
}

/// Objects with many programs, each with map references.
fn by_programs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("programs");
    for programs in PROGRAMS {
        let bytes = made(programs);
        group.throughput(Throughput::Elements(programs as u64));
        both(&mut group, programs, &bytes);
    }
    group.finish();
}

fn both(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    name: impl std::fmt::Display,
    bytes: &[u8],
) {
    group.measurement_time(Duration::from_secs(2));
    group.bench_function(BenchmarkId::new("parse", &name), |bencher| {
        bencher.iter(|| Spec::parse("bench.o", black_box(bytes)).expect("a sound object"));
    });
    let spec = Spec::parse("bench.o", bytes).expect("a sound object");
    let target = spec
        .needs_target_types()
        .then(|| KernelTypes::from_kernel().expect("a kernel that tells its types"));
    group.bench_function(BenchmarkId::new("link", &name), |bencher| {
        bencher.iter(|| black_box(&spec).link(target.as_ref()).expect("it is linked"));
    });
}

/// Time to read the kernel's types, once per object with field relocations.
fn kernel_types(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernel-types");
    group.sample_size(10);
    if KernelTypes::from_kernel().is_ok() {
        group.bench_function("read", |bencher| bencher.iter(KernelTypes::from_kernel));
    }
    group.finish();
}

/// An object without types: programs with repeated loads of map addresses.
fn made(programs: usize) -> Vec<u8> {
    let mut object = Object::new();
    let maps = object.data("maps", &btf::bytes(&[1, 4, 8, 16, 0, 0, 1]).repeat(MAPS));
    let maps: Vec<_> = (0..MAPS)
        .map(|at| object.variable(maps, &format!("map{at}"), 28 * at as u64, 28))
        .collect();
    for program in 0..programs {
        let section = object.code(&format!("xdp/{program}"));
        let mut insns = Vec::new();
        for _ in 0..REFERENCES {
            insns.extend(insns::address(1, 0));
        }
        insns.push(insns::EXIT);
        object.function(section, &format!("program{program}"), &insns);
        for reference in 0..REFERENCES {
            let map = maps[(program + reference) % MAPS];
            // Each takes two instructions.
            object.refer(section, 2 * reference as u64, map);
        }
    }
    object.note("license", b"GPL\0");
    object.write()
}

criterion_group!(benches, objects, by_programs, kernel_types);
criterion_main!(benches);
