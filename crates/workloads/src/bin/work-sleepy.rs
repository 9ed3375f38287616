//! Three threads that hardly run: each locks a mutex, holds it for 7 ms, unlocks it, and sleeps for 20 ms. All its time
//! is in three functions, and it measures the time spent in each.
//!
//! `work-sleepy TIME`, as `work-sleepy 3s`.

use std::{
    io,
    process::ExitCode,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use wingbeat_workloads::{main_of, report};

const HELD: Duration = Duration::from_millis(7);
const REST: Duration = Duration::from_millis(20);
const THREADS: [&str; 3] = ["sleepy-one", "sleepy-two", "sleepy-three"];

/// Times measured by a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    tid: i32,
    rounds: u64,
    waiting: Duration,
    holding: Duration,
    resting: Duration,
}

fn main() -> ExitCode {
    main_of(("a time as 3s", "whole seconds"), parse, run)
}

fn run(time: Duration) -> io::Result<()> {
    let mutex = Mutex::new(());
    let begin = Instant::now();
    let spent = thread::scope(|scope| -> io::Result<Vec<Spent>> {
        let mut threads = Vec::new();
        for name in THREADS {
            let thread = thread::Builder::new().name(name.to_owned());
            threads.push(thread.spawn_scoped(scope, || doze(&mutex, time))?);
        }
        let ends = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ends.map(|end| end.map_err(|_| io::Error::other("a thread panicked"))).collect()
    })?;
    print(&spent, begin.elapsed())
}

fn parse(words: &[String]) -> Option<Duration> {
    let [time] = words else { return None };
    Some(Duration::from_secs(time.strip_suffix('s')?.parse().ok()?))
}

/// One thread: full rounds until the time is over.
fn doze(mutex: &Mutex<()>, time: Duration) -> Spent {
    let mut spent =
        Spent { tid: rustix::thread::gettid().as_raw_nonzero().get(), ..Spent::default() };
    let begin = Instant::now();
    while begin.elapsed() < time {
        let start = Instant::now();
        let guard = wait_for_mutex(mutex);
        let locked = Instant::now();
        let held = hold();
        drop(guard);
        let free = Instant::now();
        let rested = rest();
        spent.waiting += locked - start;
        spent.holding += held - locked;
        spent.resting += rested - free;
        spent.rounds += 1;
    }
    spent
}

// Neither inlined nor a tail call to `sleep`, so that each has a frame while it waits.

#[inline(never)]
fn wait_for_mutex(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline(never)]
fn hold() -> Instant {
    thread::sleep(HELD);
    Instant::now()
}

#[inline(never)]
fn rest() -> Instant {
    thread::sleep(REST);
    Instant::now()
}

fn print(spent: &[Spent], wall_time: Duration) -> io::Result<()> {
    for (name, spent) in THREADS.iter().zip(spent) {
        let Spent { tid, rounds, waiting, holding, resting } = spent;
        println!(
            "{name} ({tid}): {rounds} rounds; waited for the mutex {waiting:.3?}, held it \
             {holding:.3?}, rested {resting:.3?}"
        );
    }
    let threads: Vec<String> = spent.iter().zip(THREADS).map(|(s, name)| s.json(name)).collect();
    let rounds = spent.iter().map(|spent| spent.rounds).sum();
    report(rounds, wall_time, Duration::ZERO, &format!("\"threads\":[{}]", threads.join(",")))
}

impl Spent {
    fn json(&self, name: &str) -> String {
        format!(
            "{{\"name\":\"{name}\",\"tid\":{},\"wait_for_mutex_ns\":{},\"hold_ns\":{},\"rest_ns\":{}}}",
            self.tid,
            self.waiting.as_nanos(),
            self.holding.as_nanos(),
            self.resting.as_nanos()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let check = |text: &str, expected: Option<u64>| {
            let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(parse(&words), expected.map(Duration::from_secs), "{text}");
        };
        check("3s", Some(3));
        check("3", None);
        check("", None);
        check("3s 4s", None);
        check("s", None);
    }

    #[test]
    fn a_round_takes_as_long_as_its_parts() {
        let mutex = Mutex::new(());
        let spent = doze(&mutex, Duration::from_millis(1));
        assert_eq!(spent.rounds, 1);
        assert!(spent.holding >= HELD && spent.resting >= REST, "{spent:?}");
        assert!(spent.waiting < HELD, "nobody else takes it: {spent:?}");
    }
}
