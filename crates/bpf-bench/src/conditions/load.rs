//! Concurrent activity during a measurement: other processes, interrupts, other machines on the
//! same hardware. Derived from two readings of `/proc/stat`, which counts in ticks, mostly of 10
//! ms.

use std::path::Path;

use rustix::param::clock_ticks_per_second;
use serde::Serialize;

use super::Files;

/// Maximum number of CPU lines read.
const CPUS_MAX: usize = 8192;

/// Time since boot by category, in ticks: the columns of `/proc/stat`
/// (Documentation/filesystems/proc.rst). Guest time is part of `USER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Ticks([u64; 8]);

const USER: usize = 0;
const NICE: usize = 1;
const SYSTEM: usize = 2;
const IRQ: usize = 5;
const SOFTIRQ: usize = 6;
const STEAL: usize = 7;

impl Ticks {
    /// Parses the numbers after the name of a line.
    fn parse<'a>(mut fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut ticks = Self::default();
        for column in &mut ticks.0 {
            *column = fields.next()?.parse().ok()?;
        }
        Some(ticks)
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|column| join(self.0[column], other.0[column])))
    }

    /// Difference since `before`. Idle time may be corrected backwards.
    fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn sum(self, columns: &[usize]) -> u64 {
        columns.iter().fold(0, |sum, &column| sum.saturating_add(self.0[column]))
    }

    fn processes(self) -> u64 {
        self.sum(&[USER, NICE, SYSTEM])
    }
}

/// One reading. Taken on the measuring thread, whose own time does not count as load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReading {
    measured: Ticks,
    siblings: Ticks,
    all: Ticks,
    own: u64,
}

impl LoadReading {
    /// Reads the times below `root`, which is `/` outside of tests. `cpu` is the measuring CPU,
    /// `siblings` share its core. `None` if the system does not report them.
    pub fn read(root: &Path, cpu: u32, siblings: &[u32]) -> Option<Self> {
        let files = Files::new(root);
        let own = parse_own(&files.text("proc/thread-self/stat")?)?;
        Self::parse(&files.text("proc/stat")?, own, cpu, siblings)
    }

    fn parse(text: &str, own: u64, cpu: u32, siblings: &[u32]) -> Option<Self> {
        let mut reading = (None, Ticks::default(), None);
        // CPU lines come first.
        for line in text.lines().take(CPUS_MAX + 1) {
            let mut fields = line.split_whitespace();
            let Some(number) = fields.next().and_then(|name| name.strip_prefix("cpu")) else {
                break;
            };
            let ticks = Ticks::parse(fields)?;
            match number.parse::<u32>() {
                Err(_) => reading.2 = Some(ticks),
                Ok(number) if number == cpu => reading.0 = Some(ticks),
                Ok(number) if siblings.contains(&number) => {
                    reading.1 = reading.1.with(ticks, u64::saturating_add);
                }
                Ok(_) => {}
            }
        }
        let (measured, siblings, all) = reading;
        Some(Self { measured: measured?, siblings, all: all?, own })
    }
}

/// User and system time in `/proc/PID/stat`, fields 14 and 15 (proc(5)).
fn parse_own(text: &str) -> Option<u64> {
    let (_, tail) = text.rsplit_once(')')?;
    let mut fields = tail.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()?.saturating_add(next()?))
}

/// Time of one or several CPUs by category. The sum may be less than the period: the rest is the
/// measurement itself, or idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Shares {
    /// Processes in user mode, including guests.
    pub user_ms: u64,
    /// Processes in kernel mode.
    pub system_ms: u64,
    /// Processes other than the measuring thread.
    pub others_ms: u64,
    pub irq_ms: u64,
    /// Deferred interrupt work, such as network packets.
    pub softirq_ms: u64,
    /// Time that the hypervisor gave to other guests.
    pub steal_ms: u64,
    /// Length of the period times the number of CPUs.
    pub total_ms: u64,
}

/// Load between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Load {
    pub measured_cpu: Shares,
    pub sibling_cpus: Shares,
    pub all_cpus: Shares,
    /// Length of a tick: differences of one or two ticks are noise.
    pub tick_ms: u64,
}

impl Load {
    /// Load between two readings of the same CPU.
    pub fn between(before: &LoadReading, after: &LoadReading) -> Self {
        Self::with_ticks(before, after, clock_ticks_per_second())
    }

    fn with_ticks(before: &LoadReading, after: &LoadReading, ticks_per_s: u64) -> Self {
        let ms = |ticks: u64| ticks.saturating_mul(1000) / ticks_per_s.max(1);
        let own = after.own.saturating_sub(before.own);
        let shares = |after: Ticks, before: Ticks, own: u64| {
            let ticks = after.since(before);
            Shares {
                user_ms: ms(ticks.sum(&[USER, NICE])),
                system_ms: ms(ticks.0[SYSTEM]),
                others_ms: ms(ticks.processes().saturating_sub(own)),
                irq_ms: ms(ticks.0[IRQ]),
                softirq_ms: ms(ticks.0[SOFTIRQ]),
                steal_ms: ms(ticks.0[STEAL]),
                total_ms: ms(ticks.sum(&[0, 1, 2, 3, 4, 5, 6, 7])),
            }
        };
        Self {
            measured_cpu: shares(after.measured, before.measured, own),
            sibling_cpus: shares(after.siblings, before.siblings, 0),
            all_cpus: shares(after.all, before.all, own),
            tick_ms: ms(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  300 30 100 5000 10 3 6 9 0 0\n\
        cpu0 100 10 50 2500 5 1 2 3 0 0\n\
        cpu1 100 10 25 1250 5 1 2 3 0 0\n\
        cpu2 100 10 25 1250 0 1 2 3 0 0\n\
        intr 1 2 3\n";
    const AFTER: &str = "cpu  450 30 180 5200 10 4 9 14 0 0\n\
        cpu0 150 10 90 2490 5 2 5 8 0 0\n\
        cpu1 150 10 45 1400 5 1 2 3 0 0\n\
        cpu2 150 10 45 1310 0 1 2 3 0 0\n\
        intr 1 2 3\n";

    fn reading(text: &str, own: u64) -> LoadReading {
        LoadReading::parse(text, own, 0, &[2]).expect("a reading")
    }

    #[test]
    fn tells_what_ran_between_two_readings() {
        let load = Load::with_ticks(&reading(BEFORE, 7), &reading(AFTER, 67), 100);
        let measured_cpu = Shares {
            user_ms: 500,
            system_ms: 400,
            others_ms: 300,
            irq_ms: 10,
            softirq_ms: 30,
            steal_ms: 50,
            total_ms: 990,
        };
        assert_eq!(load.measured_cpu, measured_cpu);
        let siblings = load.sibling_cpus;
        assert_eq!((siblings.others_ms, siblings.total_ms), (700, 1300));
        let all = load.all_cpus;
        assert_eq!((all.user_ms, all.system_ms, all.others_ms), (1500, 800, 1700));
        assert_eq!((all.steal_ms, load.tick_ms), (50, 10));
        // The readings are swapped.
        let backwards = Load::with_ticks(&reading(AFTER, 67), &reading(BEFORE, 7), 0);
        assert_eq!(backwards.measured_cpu.others_ms, 0);
    }

    #[test]
    fn reads_no_more_than_there_is() {
        let none = |text: &str| LoadReading::parse(text, 0, 0, &[]).is_none();
        assert!(none(""));
        assert!(none("cpu  1 2 3 4 5 6 7 8\n"));
        assert!(none("cpu0 1 2 3 4 5 6 7 8\n"));
        assert!(none("cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 x 4 5 6 7 8\n"));
        assert!(!none("cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n"));
        assert_eq!(parse_own("7 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 14 15 16\n"), Some(29));
        assert_eq!(parse_own("7 (a R 1 2 3"), None);
    }

    #[test]
    fn reads_this_machine() {
        let cpus = Files::new(Path::new("/")).cpus("sys/devices/system/cpu/online");
        let cpu = cpus.and_then(|cpus| cpus.first().copied()).expect("a CPU");
        let read = || LoadReading::read(Path::new("/"), cpu, &[]).expect("a reading");
        let (before, after) = (read(), read());
        // Idle times may decrease (Documentation/filesystems/proc.rst), process times may not.
        assert!(after.all.processes() >= before.all.processes());
        assert!(after.own >= before.own);
        assert!(Load::between(&before, &after).tick_ms > 0);
        assert_eq!(LoadReading::read(Path::new("/"), u32::MAX, &[]), None);
    }
}
