//! Eight threads with deep stacks: more than a small machine has CPUs, so that they also get preempted.

use std::{process::ExitCode, thread};

use wingbeat_workloads::{Spent, main_with, units};

const THREADS: u64 = 8;

fn main() -> ExitCode {
    main_with(|arguments| {
        let share = arguments.units.div_ceil(THREADS);
        let checksum = thread::scope(|scope| {
            let threads: Vec<_> = (1..=THREADS)
                .map(|seed| scope.spawn(move || units(share, arguments.frames, seed)))
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).fold(0, u64::wrapping_add)
        });
        Ok(Spent { checksum, ..Spent::default() })
    })
}
