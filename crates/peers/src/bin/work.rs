//! A target for profilers with a fixed amount of work: `work deep|threads|forks UNITS [FRAMES_MIN FRAMES_MAX]`.
//!
//! Each unit descends along one of some paths through three mutually recursive functions, and computes at the bottom for
//! some tens of microseconds: hundreds of distinct stacks, as in real programs. `threads` are eight, more than a small
//! machine has CPUs, so that they also get preempted; `forks` are short-lived processes, which are gone when a profiler
//! symbolizes at the end.

use std::{env, hint::black_box, io, process::Command, thread};

const USAGE: &str = "expected deep, threads or forks, and UNITS [FRAMES_MIN FRAMES_MAX]";
/// Distinct paths from the top to the bottom of a stack.
const PATHS: u64 = 16;
/// Rounds of the generator at the bottom of a stack: about 20 µs on a machine of 2020.
const LEAF_ROUNDS: u32 = 10_000;
const THREADS: u64 = 8;
/// About 20 ms.
const UNITS_PER_PROCESS: u64 = 1000;
/// Frames of this program's work in a stack: with those below, stacks of 26 to 50 frames.
const FRAMES: (u32, u32) = (19, 43);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Job {
    /// Over all threads or processes.
    units: u64,
    frames: (u32, u32),
}

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let (mode, job) = parse(&words).ok_or_else(|| io::Error::other(USAGE))?;
    run(mode, job)
}

fn parse(words: &[String]) -> Option<(&str, Job)> {
    let (mode, numbers) = words.split_first()?;
    let numbers: Option<Vec<u32>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let job = match numbers.as_deref() {
        Some(&[units]) => Job { units: units.into(), frames: FRAMES },
        Some(&[units, min, max]) if min <= max => Job { units: units.into(), frames: (min, max) },
        _ => return None,
    };
    ["deep", "threads", "forks"].contains(&mode.as_str()).then_some((mode, job))
}

fn run(mode: &str, job: Job) -> io::Result<()> {
    match mode {
        "threads" => {
            let units = job.units.div_ceil(THREADS);
            thread::scope(|scope| {
                for seed in 1..=THREADS {
                    scope.spawn(move || black_box(work(Job { units, ..job }, seed)));
                }
            });
        }
        "forks" => {
            for begun in (0..job.units).step_by(UNITS_PER_PROCESS as usize) {
                let units = UNITS_PER_PROCESS.min(job.units - begun);
                let numbers = [units, job.frames.0.into(), job.frames.1.into()];
                let mut child = Command::new(env::current_exe()?);
                let status = child.arg("deep").args(numbers.map(|it| it.to_string())).status()?;
                if !status.success() {
                    return Err(io::Error::other(format!("a child failed: {status}")));
                }
            }
        }
        _ => _ = black_box(work(job, 1)),
    }
    Ok(())
}

/// Does units of work. `seed` changes the order of the stacks, not the cost.
#[inline(never)]
fn work(Job { units, frames: (min, max) }: Job, seed: u64) -> u64 {
    let depths = u64::from(max.saturating_sub(min)) + 1;
    let mut random = seed | 1;
    let mut sum = 0_u64;
    for _ in 0..units {
        random = step(random);
        // Other bits than the path's, or each path would always have the same depth.
        let depth = min + ((random >> 32) % depths) as u32;
        sum = sum.wrapping_add(descend(random % PATHS, depth.saturating_sub(1)));
    }
    sum
}

macro_rules! level {
    ($name:ident, $number:literal) => {
        #[inline(never)]
        fn $name(path: u64, levels: u32) -> u64 {
            black_box(descend(path, levels)).wrapping_add($number)
        }
    };
}

level!(oak, 1);
level!(ash, 2);
level!(elm, 3);

/// One level down. Inlined, so that symbolization has to resolve inlined frames.
#[inline(always)]
fn descend(path: u64, levels: u32) -> u64 {
    let Some(below) = levels.checked_sub(1) else { return leaf(path) };
    // Fibonacci hashing: neighbouring paths must differ in more than their start.
    let hash = (path + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (levels % 32);
    match hash % 3 {
        0 => oak(path, below),
        1 => ash(path, below),
        _ => elm(path, below),
    }
}

#[inline(never)]
fn leaf(path: u64) -> u64 {
    (0..LEAF_ROUNDS).fold(path + 1, |value, _| step(black_box(value)))
}

/// Marsaglia's xorshift; its state must not be zero and never becomes zero.
#[inline(always)]
fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_work() {
        let check = |text: &str, expected: Option<(u64, (u32, u32))>| {
            let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            let found = parse(&words).map(|(_, job)| (job.units, job.frames));
            assert_eq!(found, expected, "{text}");
        };
        check("deep 100", Some((100, FRAMES)));
        check("forks 100 3 5", Some((100, (3, 5))));
        check("deep 100 5 3", None);
        check("deep 100 5", None);
        check("wide 100", None);
        let of = |units| work(Job { units, frames: FRAMES }, 1);
        assert_eq!((of(20) == of(20), of(20) == of(21)), (true, false));
    }
}
