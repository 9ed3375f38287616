//! Counters of programs at one time, and the runs and time of each program between two readings.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use wingbeat_bpf_loader::program::ProgramInfo;

/// Reading of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Time of the reading, nanoseconds since boot.
    pub at_ns: u64,
    pub info: ProgramInfo,
}

/// Counters of programs at one time, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Start of the reading, nanoseconds since boot. Reading many programs takes milliseconds, so
    /// each also has its own time.
    pub at_ns: u64,
    pub entries: BTreeMap<u32, Entry>,
}

impl Reading {
    /// Begins an empty reading now.
    pub fn begin() -> Self {
        Self { at_ns: now_ns(), entries: BTreeMap::new() }
    }

    /// Adds a program that was just read.
    pub fn add(&mut self, info: ProgramInfo) {
        self.entries.insert(info.id, Entry { at_ns: now_ns(), info });
    }
}

/// `CLOCK_BOOTTIME`, the clock of the kernel's program load times (`bpf_prog_load`, kernel/bpf/syscall.c, Linux 6.18).
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// Runs and time of one program over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub interval_ns: u64,
    pub runs: u64,
    /// Total time of the runs, summed over all CPUs.
    pub run_time_ns: u64,
    /// Runs skipped by the kernel because the program was already running on that CPU.
    pub recursion_misses: u64,
}

impl Rates {
    pub fn runs_per_s(&self) -> f64 {
        per(self.runs, 1e9, self.interval_ns)
    }

    /// Mean time of a run; `None` without runs.
    pub fn time_per_run_ns(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.run_time_ns as f64 / self.runs as f64)
    }

    /// Share of one CPU in percent, as in top(1): may exceed 100 with several CPUs.
    pub fn cpu_percent(&self) -> f64 {
        per(self.run_time_ns, 100.0, self.interval_ns)
    }
}

fn per(count: u64, unit: f64, interval_ns: u64) -> f64 {
    if interval_ns == 0 { 0.0 } else { count as f64 * unit / interval_ns as f64 }
}

/// A program of the later reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Program info at the later reading.
    pub info: ProgramInfo,
    /// Activity since the earlier reading; `None` if unknown, because the program was already
    /// loaded but missed by that reading.
    pub rates: Option<Rates>,
}

/// Changes between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Time between the two readings.
    pub interval_ns: u64,
    /// Programs of the later reading, by ascending id.
    pub programs: Vec<Counted>,
    /// Ids of programs that are new in the later reading.
    pub appeared: Vec<u32>,
    /// Programs that only the earlier reading had, as of then. Their later activity is unknown.
    pub vanished: Vec<ProgramInfo>,
}

impl Change {
    /// Compares two readings. Identifies programs by id, tag and load time: the kernel wraps around
    /// ids when all are used up.
    pub fn between(before: &Reading, after: &Reading) -> Self {
        let mut change =
            Self { interval_ns: after.at_ns.saturating_sub(before.at_ns), ..Self::default() };
        for (id, entry) in &after.entries {
            let earlier = before.entries.get(id).filter(|earlier| goes_on(earlier, entry));
            let rates = match earlier {
                Some(earlier) => rates(earlier, entry),
                None => {
                    change.appeared.push(*id);
                    rates_since_loaded(before.at_ns, entry)
                }
            };
            change.programs.push(Counted { info: entry.info.clone(), rates });
        }
        let went_on = |(id, earlier): &(&u32, &Entry)| {
            after.entries.get(id).is_some_and(|entry| goes_on(earlier, entry))
        };
        let vanished = before.entries.iter().filter(|pair| !went_on(pair));
        change.vanished = vanished.map(|(_, entry)| entry.info.clone()).collect();
        change
    }
}

/// Whether `after` is a later reading of the same program. Counters never decrease; if they do, it is another program.
fn goes_on(before: &Entry, after: &Entry) -> bool {
    let (old, new) = (&before.info, &after.info);
    old.tag == new.tag
        && old.loaded_at_ns == new.loaded_at_ns
        && old.run_count <= new.run_count
        && old.run_time_ns <= new.run_time_ns
        && old.recursion_misses <= new.recursion_misses
}

fn rates(before: &Entry, after: &Entry) -> Option<Rates> {
    Some(Rates {
        interval_ns: after.at_ns.checked_sub(before.at_ns).filter(|&interval| interval > 0)?,
        runs: after.info.run_count.checked_sub(before.info.run_count)?,
        run_time_ns: after.info.run_time_ns.checked_sub(before.info.run_time_ns)?,
        recursion_misses: after.info.recursion_misses.checked_sub(before.info.recursion_misses)?,
    })
}

/// All activity of a program, if it was loaded after the earlier reading began.
fn rates_since_loaded(before_ns: u64, after: &Entry) -> Option<Rates> {
    let info = &after.info;
    (info.loaded_at_ns >= before_ns && after.at_ns > before_ns).then(|| Rates {
        interval_ns: after.at_ns - before_ns,
        runs: info.run_count,
        run_time_ns: info.run_time_ns,
        recursion_misses: info.recursion_misses,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Program info with counters: id, tag, load time, runs, time.
    fn info(id: u32, tag: u8, loaded_at_ns: u64, run_count: u64, run_time_ns: u64) -> ProgramInfo {
        ProgramInfo {
            id,
            tag: [tag; 8],
            loaded_at_ns,
            run_time_ns,
            run_count,
            ..ProgramInfo::default()
        }
    }

    fn reading(at_ns: u64, infos: &[ProgramInfo]) -> Reading {
        let entries = infos.iter().map(|info| (info.id, Entry { at_ns, info: info.clone() }));
        Reading { at_ns, entries: entries.collect() }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_a_program_did() {
        let check = |before: ProgramInfo, after: ProgramInfo, goes_on, expected| {
            let change =
                Change::between(&reading(SECOND, &[before]), &reading(3 * SECOND, &[after]));
            let found = change.programs[0].rates.map(|rates| (rates.runs, rates.run_time_ns));
            assert_eq!(found, expected, "{change:?}");
            let (appeared, vanished) = (change.appeared.is_empty(), change.vanished.is_empty());
            assert_eq!((appeared, vanished), (goes_on, goes_on), "{change:?}");
        };
        // It ran; it did not run.
        check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 30, 3_000), true, Some((20, 2_000)));
        check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 10, 1_000), true, Some((0, 0)));
        // The id was reused by a program loaded in between: all of its activity counts.
        check(info(7, 1, 5, 10, 1_000), info(7, 2, 2 * SECOND, 4, 400), false, Some((4, 400)));
        // The same code, loaded again.
        check(
            info(7, 1, 5, 10, 1_000),
            info(7, 1, 2 * SECOND, 12, 1_200),
            false,
            Some((12, 1_200)),
        );
        // A different program, older than the first reading, which missed it.
        check(info(7, 1, 5, 10, 1_000), info(7, 2, 6, 40, 4_000), false, None);
        // Counters of the same program never decrease.
        check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 9, 1_100), false, None);
        check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 11, 900), false, None);
    }

    #[test]
    fn programs_come_and_go() {
        let before =
            reading(SECOND, &[info(1, 1, 5, 0, 0), info(2, 2, 5, 3, 30), info(9, 3, 5, 0, 0)]);
        let after = reading(
            2 * SECOND,
            &[info(1, 1, 5, 0, 0), info(3, 4, SECOND + 1, 6, 60), info(9, 8, SECOND + 2, 0, 0)],
        );
        let change = Change::between(&before, &after);
        assert_eq!(change.interval_ns, SECOND);
        assert_eq!(change.appeared, [3, 9]);
        let vanished: Vec<_> = change.vanished.iter().map(|info| (info.id, info.tag[0])).collect();
        assert_eq!(vanished, [(2, 2), (9, 3)]);
        let ids: Vec<_> = change.programs.iter().map(|counted| counted.info.id).collect();
        assert_eq!(ids, [1, 3, 9]);
    }

    #[test]
    fn derived_figures() {
        let rates = Rates {
            interval_ns: 2 * SECOND,
            runs: 4_000,
            run_time_ns: 100_000,
            recursion_misses: 0,
        };
        assert!((rates.runs_per_s() - 2_000.0).abs() < 1e-9);
        assert_eq!(rates.time_per_run_ns(), Some(25.0));
        assert!((rates.cpu_percent() - 0.005).abs() < 1e-12);
        // Two CPUs busy all the time.
        let busy = Rates { run_time_ns: 4 * SECOND, ..rates };
        assert!((busy.cpu_percent() - 200.0).abs() < 1e-9);
        let idle = Rates { runs: 0, run_time_ns: 0, ..rates };
        assert_eq!(idle.time_per_run_ns(), None);
        let nothing = Rates { interval_ns: 0, ..rates };
        assert!(nothing.runs_per_s() == 0.0 && nothing.cpu_percent() == 0.0);
    }

    #[test]
    fn the_clock_that_stands_still_gives_no_rates() {
        let program = info(7, 1, 5, 10, 1_000);
        let one = reading(SECOND, std::slice::from_ref(&program));
        assert_eq!(Change::between(&one, &one).programs[0].rates, None);
        // The clock must not go backwards either.
        let change = Change::between(&one, &reading(1, &[program]));
        assert_eq!((change.interval_ns, change.programs[0].rates), (0, None));
    }

    fn any_reading() -> impl Strategy<Value = Reading> {
        let number = prop_oneof![0..20_u64, any::<u64>()];
        let program = (0..6_u32, 0..3_u8, number.clone(), number.clone(), number.clone())
            .prop_map(|(id, tag, loaded, runs, time)| info(id, tag, loaded, runs, time));
        (number, proptest::collection::vec(program, 0..6))
            .prop_map(|(at_ns, programs)| reading(at_ns, &programs))
    }

    proptest! {
        /// For arbitrary readings: no overflow, each program of the later reading is listed once, each
        /// of the earlier one continues or has vanished, and no rate exceeds its counter.
        #[test]
        fn every_program_is_accounted_for(before in any_reading(), after in any_reading()) {
            let change = Change::between(&before, &after);
            prop_assert_eq!(change.programs.len(), after.entries.len());
            let goes_on = change.programs.len() - change.appeared.len();
            prop_assert_eq!(goes_on + change.vanished.len(), before.entries.len());
            for counted in &change.programs {
                if let Some(rates) = counted.rates {
                    prop_assert!(rates.runs <= counted.info.run_count);
                    prop_assert!(rates.run_time_ns <= counted.info.run_time_ns);
                    prop_assert!(rates.interval_ns > 0);
                    prop_assert!(rates.runs_per_s().is_finite() && rates.cpu_percent().is_finite());
                }
            }
        }
    }
}
