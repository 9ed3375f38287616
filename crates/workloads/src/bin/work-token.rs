//! Two threads that pass a one-byte token to each other through two pipes, at the highest switch rate of the machine.
//! This maximizes the cost of a tool's work per context switch.
//!
//! `work-token AMOUNT [--one-cpu]`, where AMOUNT is a number of rounds, or a time as `2s`. A round is there and back.
//! With `--one-cpu` both threads are pinned to the first allowed CPU, and each step is one switch between them;
//! without, a CPU may idle in between.

use std::{
    fs,
    io::{self, ErrorKind, PipeReader, PipeWriter, Read as _, Write as _},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wingbeat_workloads::{main_of, report};

/// Rounds between two clock reads, which would otherwise be part of the measurement.
const ROUNDS_PER_LOOK: u64 = 256;

/// Number of rounds, or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amount {
    Rounds(u64),
    Time(Duration),
}

/// Context switches of a thread, as counted by `getrusage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Switches {
    /// It blocked (`ru_nvcsw`).
    voluntary: u64,
    /// It was preempted (`ru_nivcsw`).
    involuntary: u64,
}

fn main() -> ExitCode {
    main_of(("ROUNDS or a time as 2s, and perhaps --one-cpu", "whole numbers"), parse, run)
}

fn run((amount, one_cpu): (Amount, bool)) -> io::Result<()> {
    if one_cpu {
        // Inherited by threads.
        keep_to_one_cpu()?;
    }
    let (there_in, there_out) = io::pipe()?;
    let (back_in, back_out) = io::pipe()?;
    let other = thread::Builder::new().name("pong".to_owned()).spawn(move || {
        pong(there_in, back_out)?;
        switches()
    })?;
    let begin = Instant::now();
    let rounds = ping(amount, back_in, there_out)?;
    let wall_time = begin.elapsed();
    let theirs = other.join().map_err(|_| io::Error::other("the other thread panicked"))??;
    let ours = switches()?;
    print(rounds, wall_time, ours.and(theirs))
}

/// `AMOUNT [--one-cpu]`.
fn parse(words: &[String]) -> Option<(Amount, bool)> {
    let (flags, amounts): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    let one_cpu = match flags.as_slice() {
        [] => false,
        ["--one-cpu"] => true,
        _ => return None,
    };
    let [amount] = amounts.as_slice() else { return None };
    let amount = match amount.strip_suffix('s') {
        Some(seconds) => Amount::Time(Duration::from_secs(seconds.parse().ok()?)),
        None => Amount::Rounds(amount.parse().ok()?),
    };
    Some((amount, one_cpu))
}

/// Sends the token and waits for it; returns the number of rounds.
#[inline(never)]
fn ping(amount: Amount, mut from: PipeReader, mut to: PipeWriter) -> io::Result<u64> {
    let begin = Instant::now();
    let goes_on = |rounds: u64| match amount {
        Amount::Rounds(most) => rounds < most,
        Amount::Time(time) => !rounds.is_multiple_of(ROUNDS_PER_LOOK) || begin.elapsed() < time,
    };
    let mut token = [0; 1];
    let mut rounds = 0;
    while goes_on(rounds) {
        to.write_all(&token)?;
        from.read_exact(&mut token)?;
        rounds += 1;
    }
    Ok(rounds)
}

/// Echoes until EOF.
#[inline(never)]
fn pong(mut from: PipeReader, mut to: PipeWriter) -> io::Result<()> {
    let mut token = [0; 1];
    loop {
        match from.read_exact(&mut token) {
            Ok(()) => to.write_all(&token)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn keep_to_one_cpu() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
    let first = first.ok_or_else(|| io::Error::other("no CPU is allowed to this process"))?;
    let mut one = CpuSet::new();
    one.set(first);
    Ok(sched_setaffinity(None, &one)?)
}

impl Switches {
    fn and(self, other: Self) -> Self {
        Self {
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
        }
    }

    /// Parses a thread's `/proc/…/status`.
    fn parse(status: &str) -> Option<Self> {
        let number = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line[name.len()..].trim().parse().ok()
        };
        Some(Self {
            voluntary: number("voluntary_ctxt_switches:")?,
            involuntary: number("nonvoluntary_ctxt_switches:")?,
        })
    }
}

/// Switches of the calling thread: the counters of `getrusage`, without unsafe code.
fn switches() -> io::Result<Switches> {
    let status = fs::read_to_string("/proc/thread-self/status")?;
    Switches::parse(&status)
        .ok_or_else(|| io::Error::other("/proc/thread-self/status tells no context switches"))
}

fn print(rounds: u64, wall_time: Duration, switches: Switches) -> io::Result<()> {
    let Switches { voluntary, involuntary } = switches;
    let per_second = |count: u64| u128::from(count) * 1_000_000_000 / wall_time.as_nanos().max(1);
    println!(
        "{} rounds per second, {} switches per second ({rounds} rounds, {voluntary} voluntary and \
         {involuntary} involuntary switches in {wall_time:.3?})",
        per_second(rounds),
        per_second(voluntary + involuntary),
    );
    let switches = format!("\"switches\":{}", voluntary + involuntary);
    report(rounds, wall_time, Duration::ZERO, &switches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let check = |text: &str, expected| {
            let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(parse(&words), expected, "{text}");
        };
        check("100", Some((Amount::Rounds(100), false)));
        check("2s --one-cpu", Some((Amount::Time(Duration::from_secs(2)), true)));
        check("--one-cpu 2s", Some((Amount::Time(Duration::from_secs(2)), true)));
        check("", None);
        check("--one-cpu", None);
        check("1 2", None);
        check("2m", None);
        check("2s --two-cpus", None);
    }

    #[test]
    fn switches_are_read() {
        let status = "Name:\tpong\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(Switches::parse(status), Some(Switches { voluntary: 12, involuntary: 3 }));
        assert_eq!(Switches::parse("Name:\tpong\n"), None);
    }

    #[test]
    fn each_step_is_a_switch() {
        let (there_in, there_out) = io::pipe().expect("a pipe");
        let (back_in, back_out) = io::pipe().expect("a pipe");
        let other = thread::spawn(move || {
            pong(there_in, back_out).expect("pipes work");
            switches().expect("Linux tells them")
        });
        let rounds = ping(Amount::Rounds(100), back_in, there_out).expect("pipes work");
        let theirs = other.join().expect("no panic");
        assert_eq!(rounds, 100);
        // If the kernel runs the woken thread immediately, the waker is preempted and need not block afterwards.
        assert!(theirs.voluntary + theirs.involuntary >= 90, "{theirs:?}");
    }
}
