//! Instruction counts, by Valgrind, of a sample's path from the ring buffer to the recording and of reading a
//! profile. `cargo xtask track` fails when they grow.

#[path = "../../stats/benches/support/mode.rs"]
mod mode;
#[path = "support/sample.rs"]
mod support;

use std::{hint::black_box, process::ExitCode};

use wingbeat_profiler::{
    diff::read_collapsed,
    recorder::BenchRecorder,
    wire::{Record, decode},
};

use self::support::{PID, sample_bytes};

const DEPTH: u64 = 30;
const STACKS: u64 = 100;

fn main() -> ExitCode {
    mode::main(counted::start, || {
        decode_sample(&sample(1));
        record_samples(&samples());
        read_folded(&folded());
    })
}

/// A sample. Stacks share their outer half.
fn sample(stack: u64) -> Vec<u8> {
    let user = (0..DEPTH).map(|level| {
        let inner = if level < DEPTH / 2 { stack * 131 } else { 0 };
        0x40_0000 + (inner + level) * 64
    });
    sample_bytes(PID, stack, &Vec::from_iter(user))
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
    // Like the recorder: reads each word once.
    black_box(sample.user.iter().chain(sample.kernel.iter()).fold(0, u64::wrapping_add));
}

/// Each sample ten times.
fn record_samples(samples: &[Vec<u8>]) {
    let mut recorder = BenchRecorder::default();
    for bytes in samples.iter().cycle().take(10 * samples.len()) {
        recorder.record(decode(black_box(bytes)).expect("a sample"));
    }
    black_box(recorder.counts());
}

fn read_folded(text: &str) {
    black_box(read_collapsed("bench.folded", black_box(text.as_bytes())).expect("folded stacks"));
}

/// Functions in the form that Gungraun requires: inputs by value.
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

    /// Starts the runner, or the benchmark that the runner asks for.
    pub(super) fn start() {
        main();
    }
}
