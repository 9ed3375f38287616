//! Cost of writing a profile, by format, as samples and distinct stacks grow together.

use std::hint::black_box;
use std::io;
use std::time::UNIX_EPOCH;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_profiler::export::top::Top;
use wingbeat_profiler::export::{Format, write};
use wingbeat_profiler::model::{
    Binary, BinaryKind, Completeness, Frame, Function, Line, Meta, Mode, Process, Profile, Sample,
    Stack, Thread,
};

/// Samples and distinct stacks. Tests, which are not optimized, only check that it runs.
const SIZES: &[(u64, u32)] = match cfg!(debug_assertions) {
    true => &[(1_000, 100)],
    false => &[(1_000, 100), (10_000, 2_000), (100_000, 20_000)],
};
const FUNCTIONS: u32 = 2_000;
const STACK_DEPTH: u32 = 30;
const THREADS: u32 = 8;
const PERIOD_NS: u64 = 1_001_001;

fn exporters(criterion: &mut Criterion) {
    let formats = [
        ("flamegraph", Format::FlameGraph),
        ("folded", Format::Folded),
        ("pprof", Format::Pprof),
        ("firefox", Format::Firefox { gzip: false }),
        ("firefox_gzip", Format::Firefox { gzip: true }),
    ];
    for (name, format) in formats {
        by_size(criterion, name, 10, |profile| _ = write(profile, format, &mut io::sink()));
    }
    by_size(criterion, "top", 100, |profile| _ = black_box(Top::of(profile, 10)));
}

fn by_size(criterion: &mut Criterion, name: &str, runs: usize, work: impl Fn(&Profile)) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(runs);
    for (samples, stacks) in SIZES.iter().copied() {
        let profile = profile(samples, stacks);
        group.throughput(Throughput::Elements(samples));
        let id = BenchmarkId::from_parameter(format!("{samples}_samples_{stacks}_stacks"));
        group.bench_with_input(id, &profile, |bencher, profile| {
            bencher.iter(|| work(black_box(profile)));
        });
    }
    group.finish();
}

/// A profile with deep stacks that share their outer half.
fn profile(samples: u64, stacks: u32) -> Profile {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    Profile {
        functions: (0..FUNCTIONS).map(function).collect(),
        binaries: vec![binary()],
        frames: (0..2 * FUNCTIONS).map(frame).collect(),
        stacks: (0..stacks).map(|_| stack(&mut random)).collect(),
        processes: vec![Process {
            pid: 1,
            parent: None,
            name: "bench".into(),
            start_ns: 0,
            end_ns: None,
        }],
        threads: (0..THREADS)
            .map(|tid| Thread {
                process: 0,
                tid: tid + 1,
                name: format!("worker-{tid}"),
                start_ns: 0,
                end_ns: None,
                on_cpu_ns: None,
            })
            .collect(),
        samples: (0..samples)
            .map(|position| Sample {
                time_ns: position * PERIOD_NS,
                thread: random.below(THREADS),
                stack: random.below(stacks),
                cpu: 0,
            })
            .collect(),
        ..Profile::new(Meta {
            mode: Mode::OnCpu,
            target: "bench".into(),
            start: UNIX_EPOCH,
            start_ns: 0,
            duration_ns: samples * PERIOD_NS,
            frequency_hz: 999,
            period: PERIOD_NS,
            fault_bytes: 0,
            system: "Linux".into(),
        })
    }
}

fn function(id: u32) -> Function {
    let name = format!("<wingbeat::module_{}::Type{id}<T> as core::iter::Iterator>::next", id % 40);
    Function { name, is_symbol: true }
}

fn binary() -> Binary {
    Binary {
        kind: BinaryKind::User,
        path: "/usr/bin/bench".into(),
        build_id: vec![0xab; 20],
        text: (0x1000, 0x100_0000),
        text_offset: 0x1000,
    }
}

/// Every fourth frame has an inlined function.
fn frame(id: u32) -> Frame {
    let line = |function: u32| Line {
        function: function % FUNCTIONS,
        file: Some(format!("src/module_{}.rs", function % 40)),
        line: Some(id),
    };
    let lines = if id.is_multiple_of(4) { vec![line(id + 1), line(id)] } else { vec![line(id)] };
    Frame { binary: Some(0), address: 0x1000 + u64::from(id) * 16, lines }
}

fn stack(random: &mut Random) -> Stack {
    let shared = STACK_DEPTH / 2;
    let branch = random.below(16);
    let inner = (0..STACK_DEPTH - shared).map(|_| random.below(2 * FUNCTIONS));
    let frames = inner.chain((0..shared).map(|depth| depth * 16 + branch)).collect();
    Stack { frames, completeness: Completeness::Complete }
}

/// xorshift64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(limit)) as u32
    }
}

criterion_group!(benches, exporters);
criterion_main!(benches);
