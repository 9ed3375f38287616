//! Finds the benchmark among the processes of a command.
//!
//! `sh -c 'cargo bench'` runs a shell, cargo, and a program that measures. The first two only wait, but would
//! weigh as much as the third in a wall-clock profile.

use super::{ProcessId, Profile, State, Thread};

/// A process waits for its children if they live for at least this share of its life …
const COVERED_MIN: f64 = 0.5;

/// … and it is on the CPU for at most this share. A process that works meanwhile is part of the benchmark.
const BUSY_MAX: f64 = 0.2;

impl Profile {
    /// Removes everything but the benchmark: processes that only wait for others, the part of a process before its
    /// `exec`, threads without work, and off-CPU time of all but the first thread of a process, since a benchmark
    /// measures the time of one thread that waits for its workers.
    ///
    /// Returns the names of the removed processes. If nothing would remain, nothing is removed.
    pub fn retain_benchmark(&mut self) -> Vec<String> {
        let drives: Vec<bool> = (0..self.processes.len()).map(|at| self.drives(at)).collect();
        if drives.iter().all(|drives| *drives) {
            return Vec::new();
        }
        let is_kept = |thread: Option<&Thread>| {
            thread.is_none_or(|thread| drives.get(thread.process as usize) != Some(&true))
        };
        let (threads, processes) = (self.threads.clone(), self.processes.clone());
        let of = |id: u32| threads.get(id as usize);
        self.samples.retain(|sample| is_kept(of(sample.thread)));
        self.retain_blocked(|blocked| {
            let thread = of(blocked.thread);
            let is_first = thread.is_none_or(|thread| {
                processes.get(thread.process as usize).is_none_or(|it| it.pid == thread.tid)
            });
            let has_time = blocked.state == State::Running;
            is_kept(thread) && blocked.state != State::Idle && (is_first || has_time)
        });
        let named = processes.into_iter().zip(&drives);
        named.filter(|(_, drives)| **drives).map(|(process, _)| process.name).collect()
    }

    /// Whether a process only waits for others, or called `exec`.
    fn drives(&self, at: usize) -> bool {
        let Some(process) = self.processes.get(at) else { return false };
        let (start_ns, end_ns) = self.life(at);
        let mut lives = Vec::new();
        for (other, child) in self.processes.iter().enumerate() {
            let (from_ns, to_ns) = self.life(other);
            let is_within = from_ns >= start_ns && from_ns <= end_ns;
            if other != at && child.pid == process.pid && process.end_ns == Some(from_ns) {
                return true;
            }
            if child.parent == Some(process.pid) && child.pid != process.pid && is_within {
                lives.push((from_ns, to_ns.min(end_ns)));
            }
        }
        let life_ns = end_ns.saturating_sub(start_ns).max(1) as f64;
        let covered = union_ns(lives) as f64 / life_ns;
        covered >= COVERED_MIN && self.on_cpu_ns(at) as f64 / life_ns <= BUSY_MAX
    }

    /// Start and end of a process, in nanoseconds since the start of recording.
    fn life(&self, at: usize) -> (u64, u64) {
        let end_ns = self.meta.duration_ns;
        self.processes
            .get(at)
            .map_or((0, end_ns), |process| (process.start_ns, process.end_ns.unwrap_or(end_ns)))
    }

    /// CPU time of all threads of a process: from the scheduler, or else from samples.
    fn on_cpu_ns(&self, at: usize) -> u64 {
        let is_of = |thread: &Thread| thread.process == at as ProcessId;
        let known = self.threads.iter().filter(|thread| is_of(thread));
        let known_ns: u64 = known.filter_map(|thread| thread.on_cpu_ns).sum();
        let sampled = self.samples.iter().filter(|sample| {
            self.threads
                .get(sample.thread as usize)
                .is_some_and(|thread| is_of(thread) && thread.on_cpu_ns.is_none())
        });
        known_ns + sampled.count() as u64 * self.meta.period
    }
}

/// Length of the union of the intervals.
fn union_ns(mut lives: Vec<(u64, u64)>) -> u64 {
    lives.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for (from, to) in lives {
        let from = from.max(until);
        sum += to.saturating_sub(from);
        until = until.max(to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::model::{Blocked, Durations, Meta, Mode, Process, Sample};

    /// PID, parent, name, start and end in milliseconds, CPU time in milliseconds.
    type Given = (u32, u32, &'static str, (u64, u64), u64);

    fn profile(processes: &[Given]) -> Profile {
        let threads = processes.iter().enumerate().map(|(at, given)| Thread {
            process: at as u32,
            tid: given.0,
            name: given.2.to_owned(),
            start_ns: given.3.0 * 1_000_000,
            end_ns: None,
            on_cpu_ns: Some(given.4 * 1_000_000),
        });
        let threads: Vec<_> = threads.collect();
        let each = 0..threads.len() as u32;
        Profile {
            processes: processes
                .iter()
                .map(|&(pid, parent, name, (start, end), _)| Process {
                    pid,
                    parent: Some(parent),
                    name: name.to_owned(),
                    start_ns: start * 1_000_000,
                    end_ns: Some(end * 1_000_000),
                })
                .collect(),
            threads,
            samples: each
                .clone()
                .map(|thread| Sample { time_ns: 0, thread, stack: 0, cpu: 0 })
                .collect(),
            blocked: each
                .map(|thread| Blocked {
                    thread,
                    stack: 0,
                    state: State::Sleeping,
                    count: 1,
                    total_ns: 1,
                    histogram: Durations::default(),
                })
                .collect(),
            ..Profile::new(Meta {
                mode: Mode::Wall,
                target: String::new(),
                start: SystemTime::UNIX_EPOCH,
                start_ns: 0,
                duration_ns: 10_000_000_000,
                frequency_hz: 99,
                period: 10_101_010,
                fault_bytes: 0,
                system: String::new(),
            })
        }
    }

    #[test]
    fn the_benchmark_is_what_does_not_only_wait() {
        let check = |processes: &[Given], expected: &[&str]| {
            let mut profile = profile(processes);
            let left_out = profile.retain_benchmark();
            let name = |thread: u32| profile.threads[thread as usize].name.as_str();
            let kept: Vec<_> = profile.samples.iter().map(|sample| name(sample.thread)).collect();
            assert_eq!(kept, expected, "{left_out:?}");
            assert_eq!(profile.blocked.len(), expected.len());
            assert_eq!(left_out.len() + kept.len(), processes.len());
        };
        let cargo = [
            (1, 0, "sh", (0, 10_000), 1),
            (2, 1, "cargo", (1, 9_990), 150),
            (3, 2, "cargo", (200, 201), 1),
            (3, 2, "bench", (201, 9_900), 60),
            // Criterion queries the version of gnuplot.
            (4, 3, "gnuplot", (210, 240), 20),
        ];
        check(&cargo, &["bench", "gnuplot"]);
        check(&[(1, 0, "bench", (0, 100), 90)], &["bench"]);
        // A process that spends its time starting others counts as working.
        let spawning = [(1, 0, "bench", (0, 1_000), 400), (2, 1, "true", (0, 900), 300)];
        check(&spawning, &["bench", "true"]);
        check(&[], &[]);
    }

    #[test]
    fn workers_count_while_they_run() {
        let mut profile = profile(&[(7, 0, "bench", (0, 1_000), 500)]);
        profile.threads.push(Thread {
            tid: 8,
            name: "worker".into(),
            ..profile.threads[0].clone()
        });
        let asleep = Blocked { thread: 1, ..profile.blocked[0].clone() };
        let running = Blocked { state: State::Running, ..asleep.clone() };
        profile.blocked.extend([asleep, running.clone()]);
        profile.samples.push(Sample { thread: 1, ..profile.samples[0] });
        profile.retain_benchmark();
        assert_eq!(profile.samples.len(), 2);
        assert_eq!(profile.blocked[1..], [running]);
    }

    #[test]
    fn lives_that_overlap_count_once() {
        assert_eq!(union_ns(vec![(5, 10), (0, 6), (7, 8), (20, 21)]), 11);
        assert_eq!(union_ns(Vec::new()), 0);
    }
}
