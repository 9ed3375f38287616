//! Cost of a sample from the ring buffer to the recording: decoding, interning and the total, as samples, distinct
//! stacks, depth and processes grow.

#[path = "support/sample.rs"]
mod support;

use std::{fs, hint::black_box, os::unix::fs::MetadataExt as _};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_profiler::{
    model::Completeness,
    recorder::{
        BenchRecorder,
        event::{Event, EventKind, MappedFile},
        raw_stacks::RawStacks,
    },
    wire::{Record, decode},
};

use self::support::{PID, sample_bytes};

const DEPTHS: [usize; 3] = [10, 30, 100];
const DEPTH: usize = 30;
const DISTINCT_STACKS: [u64; 3] = [10, 1_000, 50_000];
const STACKS: u64 = 1_000;
const SAMPLES: [u64; 3] = [1_000, 10_000, 100_000];
const PROCESSES: [u32; 3] = [100, 1_000, 10_000];
const THREADS: u64 = 8;

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for depth in DEPTHS {
        let bytes = sample(1, &frames(1, depth, 0x40_0000));
        group.throughput(Throughput::Elements(1));
        group.bench_with_input(BenchmarkId::new("frames", depth), &bytes, |bencher, bytes| {
            bencher.iter(|| {
                let record = decode(black_box(bytes));
                let Ok(Record::Sample(sample)) = record else { return 0 };
                // Like the recorder: reads each word once.
                sample.user.iter().chain(sample.kernel.iter()).fold(0, u64::wrapping_add)
            });
        });
    }
    group.finish();
}

fn interning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("intern");
    group.sample_size(10);
    let samples = SAMPLES[2];
    group.throughput(Throughput::Elements(samples));
    let by_stacks = DISTINCT_STACKS.map(|stacks| (stacks, DEPTH));
    let by_depth = [(STACKS, DEPTHS[0]), (STACKS, DEPTHS[2])];
    for (stacks, depth) in by_stacks.into_iter().chain(by_depth) {
        let frames: Vec<Vec<u64>> =
            (0..stacks).map(|stack| frames(stack, depth, 0x40_0000)).collect();
        let id = BenchmarkId::from_parameter(format!("{stacks}_stacks_{depth}_frames"));
        group.bench_with_input(id, &frames, |bencher, frames| {
            bencher.iter(|| {
                let mut interned = RawStacks::default();
                for frames in frames.iter().cycle().take(samples as usize) {
                    let user = frames.iter().copied();
                    interned.intern(0, Completeness::Complete, user, [].into_iter());
                }
                interned.len()
            });
        });
    }
    group.finish();
}

/// All work per sample while recording: decoding, unwind rules, stacks and threads.
fn recording(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    group.sample_size(10);
    let program = program();
    let by_samples = SAMPLES.map(|samples| (samples, STACKS));
    let by_stacks = [(SAMPLES[2], DISTINCT_STACKS[0]), (SAMPLES[2], DISTINCT_STACKS[2])];
    for (samples, stacks) in by_samples.into_iter().chain(by_stacks) {
        let records: Vec<Vec<u8>> =
            (0..stacks).map(|stack| sample(stack, &frames(stack, DEPTH, program.start))).collect();
        group.throughput(Throughput::Elements(samples));
        let id = BenchmarkId::from_parameter(format!("{samples}_samples_{stacks}_stacks"));
        group.bench_with_input(id, &records, |bencher, records| {
            bencher.iter(|| {
                let mut recorder = BenchRecorder::default();
                recorder.event(map(PID, &program));
                for bytes in records.iter().cycle().take(samples as usize) {
                    if let Ok(record) = decode(bytes) {
                        recorder.record(record);
                    }
                }
                recorder.counts()
            });
        });
    }
    group.finish();
}

/// Short-lived processes that start, map files, are sampled once and exit: the work is in the events, not in the
/// samples.
fn swarm(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("swarm");
    group.sample_size(10);
    let program = program();
    for processes in PROCESSES {
        group.throughput(Throughput::Elements(u64::from(processes)));
        let id = BenchmarkId::from_parameter(format!("{processes}_processes"));
        group.bench_with_input(id, &processes, |bencher, &processes| {
            bencher.iter(|| {
                let mut recorder = BenchRecorder::default();
                for pid in (1..=processes).map(|number| PID + number) {
                    short_life(&mut recorder, pid, &program);
                }
                recorder.counts()
            });
        });
    }
    group.finish();
}

/// `fork`, `exec`, a program and eight libraries, one sample, `exit`.
fn short_life(recorder: &mut BenchRecorder, pid: u32, program: &MappedFile) {
    let event = |kind| Event { time_ns: 0, kind };
    recorder.event(event(EventKind::Fork { pid, tid: pid, parent: PID, creator: PID }));
    let name = "true".to_owned();
    recorder.event(event(EventKind::Name { pid, tid: pid, name, exec: true }));
    for library in 0..9 {
        let bias = library << 32;
        let (start, end) = (program.start + bias, program.end + bias);
        recorder.event(map(pid, &MappedFile { start, end, ..program.clone() }));
    }
    let mut bytes = sample(0, &frames(0, DEPTH, program.start));
    bytes[8..12].copy_from_slice(&pid.to_le_bytes());
    bytes[12..16].copy_from_slice(&pid.to_le_bytes());
    if let Ok(record) = decode(&bytes) {
        recorder.record(record);
    }
    recorder.event(event(EventKind::Exit { pid, tid: pid }));
}

fn map(pid: u32, file: &MappedFile) -> Event {
    Event { time_ns: 0, kind: EventKind::Map { pid, file: file.clone() } }
}

/// This program's code, which has unwind tables, mapped at its addresses in another process.
fn program() -> MappedFile {
    let path = "/proc/self/exe";
    MappedFile {
        start: 0x5555_0000_0000,
        end: 0x5555_4000_0000,
        offset: 0,
        device: (0, 99),
        inode: fs::metadata(path).map_or(0, |data| data.ino()),
        path: path.to_owned(),
    }
}

/// Addresses of a stack, innermost first: all stacks share the outer half and differ in the inner.
fn frames(stack: u64, depth: usize, base: u64) -> Vec<u64> {
    let shared = depth / 2;
    let inner = (0..depth - shared).map(|level| {
        let mixed = (stack * 131 + level as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        base + mixed % 0x10_0000
    });
    inner.chain((0..shared).map(|level| base + level as u64 * 64)).collect()
}

/// A sample of one of several threads.
fn sample(stack: u64, user: &[u64]) -> Vec<u8> {
    sample_bytes(PID + (stack % THREADS) as u32, stack, user)
}

criterion_group!(benches, decoding, interning, recording, swarm);
criterion_main!(benches);
