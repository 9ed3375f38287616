//! The instructions of a sample's way from the ring buffer to the recording, and of reading a
//! profile, counted by Valgrind. `cargo xtask track` fails when they grow.

#[path = "../../../base/stats/benches/support/mode.rs"]
mod mode;

use std::{hint::black_box, process::ExitCode};

use wingbeat_profile::{
    diff::read_stacks,
    recorder::bench_api::BenchRecorder,
    wire::{Record, decode},
};
use wingbeat_profile_common::{RecordKind, Stop};

const DEPTH: u64 = 30;
const KERNEL_FRAMES: u64 = 4;
const STACKS: u64 = 100;
/// Above the largest PID that the kernel gives (2^22): `/proc` knows nothing of it.
const PID: u32 = 5_000_000;

fn main() -> ExitCode {
    mode::main(counted::start, || {
        decode_sample(&sample(1));
        record_samples(&samples());
        read_folded(&folded());
    })
}

/// A sample as the kernel half writes it, complete by its frame pointers. Stacks share their outer
/// half.
fn sample(stack: u64) -> Vec<u8> {
    let mut bytes = vec![RecordKind::Sample as u8, Stop::Zero as u8, 0, 0];
    bytes.extend((DEPTH as u16).to_le_bytes());
    bytes.extend((KERNEL_FRAMES as u16).to_le_bytes());
    bytes.extend(PID.to_le_bytes());
    bytes.extend(PID.to_le_bytes());
    let (time_ns, stop_sp, stop_bp, checks_and_leaf) = (stack, 0x7ffc_0000_1000, 0, [0; 4]);
    let user = (0..DEPTH).map(|level| {
        let inner = if level < DEPTH / 2 { stack * 131 } else { 0 };
        0x40_0000 + (inner + level) * 64
    });
    let kernel = (0..KERNEL_FRAMES).map(|level| 0xffff_ffff_8100_0000 + level * 64);
    let head = [time_ns, stop_sp, stop_bp].into_iter().chain(checks_and_leaf);
    bytes.extend(head.chain(user).chain(kernel).flat_map(u64::to_le_bytes));
    bytes
}

fn samples() -> Vec<Vec<u8>> {
    (0..STACKS).map(sample).collect()
}

/// Collapsed stacks as the exporter writes them.
fn folded() -> String {
    let line = |stack: u64| {
        let frame = |level| format!(";module_{}::function", stack % 7 + level);
        format!("bench{} {}\n", (0..DEPTH).map(frame).collect::<String>(), stack + 1)
    };
    (0..STACKS).map(line).collect()
}

fn decode_sample(bytes: &[u8]) {
    let Ok(Record::Sample(sample)) = decode(black_box(bytes)) else { panic!("it is a sample") };
    // What the recorder does with them: each word once.
    black_box(
        sample.stack.user.iter().chain(sample.stack.kernel.iter()).fold(0, u64::wrapping_add),
    );
}

/// Ten times each.
fn record_samples(samples: &[Vec<u8>]) {
    let mut recorder = BenchRecorder::default();
    for bytes in samples.iter().cycle().take(10 * samples.len()) {
        recorder.record(decode(black_box(bytes)).expect("a sample"));
    }
    black_box(recorder.counts());
}

fn read_folded(text: &str) {
    black_box(read_stacks("bench.folded", black_box(text.as_bytes())).expect("folded stacks"));
}

/// Each function as Gungraun wants it: what it counts takes its input by value.
mod counted {
    use gungraun::{library_benchmark, library_benchmark_group, main};

    use super::{folded, sample, samples};

    #[library_benchmark]
    #[bench::of_30_frames(sample(1))]
    fn decode_sample(bytes: Vec<u8>) {
        crate::decode_sample(&bytes);
    }

    #[library_benchmark]
    #[bench::of_100_stacks(samples())]
    fn record_samples(samples: Vec<Vec<u8>>) {
        crate::record_samples(&samples);
    }

    #[library_benchmark]
    #[bench::of_100_stacks(folded())]
    fn read_folded(text: String) {
        crate::read_folded(&text);
    }

    library_benchmark_group!(
        name = profile,
        benchmarks = [decode_sample, record_samples, read_folded]
    );
    main!(library_benchmark_groups = profile);

    /// Starts the runner, or what it wants to be run.
    pub(super) fn start() {
        main();
    }
}
