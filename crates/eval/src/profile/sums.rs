//! Time off the CPU from perf's events: from each switch away to the next switch back. Text in, sums
//! out.
//!
//! A thread is back at the `sched_switch` that names it as the next one, or at perf's own record of
//! its coming in, which is a few microseconds later. The latter is needed: there are times when no
//! `sched_switch` comes from the idle thread of a CPU, and perf knows nothing of a loss. Seen on Linux
//! 6.18: of 98 switches to the idle thread of one CPU none of the 98 back was there.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufRead,
};

use anyhow::Context as _;

/// Nanoseconds off the CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) threads: BTreeMap<u32, u64>,
    /// By the innermost function of the target itself, over all threads. What a thread waits before
    /// it runs for the first time has none, and is not here.
    pub(super) functions: BTreeMap<String, u64>,
}

/// An event that is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A thread made way for another one.
    Switch { time_ns: u64, from: u32, to: u32 },
    /// A thread is back, whoever made way.
    Back { time_ns: u64, tid: u32 },
    /// A thread was born, and may run.
    Birth { time_ns: u64, tid: u32 },
}

/// A thread that is off the CPU.
#[derive(Debug, Default)]
struct Out {
    since_ns: u64,
    function: Option<String>,
}

impl Sums {
    /// A thread that was off the CPU is back.
    fn add(&mut self, tid: u32, out: Option<Out>, time_ns: u64) {
        let Some(Out { since_ns, function }) = out else { return };
        let duration_ns = time_ns.saturating_sub(since_ns);
        *self.threads.entry(tid).or_default() += duration_ns;
        if let Some(function) = function {
            *self.functions.entry(function).or_default() += duration_ns;
        }
    }
}

/// Adds up what `perf script --ns -F comm,tid,time,event,trace,ip,sym --show-switch-events` printed of
/// some threads.
///
/// A function is the target's own if its name begins with `own`.
pub(super) fn of_script(
    mut text: impl BufRead,
    threads: &BTreeSet<u32>,
    own: &str,
) -> anyhow::Result<Sums> {
    let mut sums = Sums::default();
    let mut out: BTreeMap<u32, Out> = BTreeMap::new();
    // The thread whose stack follows.
    let mut stack_of = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        // Names of programs need not be UTF-8.
        if text.read_until(b'\n', &mut line).context("cannot read what perf printed")? == 0 {
            return Ok(sums);
        }
        let line = String::from_utf8_lossy(&line);
        if line.starts_with('\t') {
            let waits = stack_of.and_then(|tid| out.get_mut(&tid));
            if let Some(waits) = waits.filter(|waits| waits.function.is_none()) {
                waits.function = function(&line).filter(|name| name.starts_with(own));
            }
            continue;
        }
        match event(&line) {
            Some(Event::Switch { time_ns, from, to }) => {
                sums.add(to, out.remove(&to), time_ns);
                stack_of = threads.contains(&from).then_some(from);
                if stack_of.is_some() {
                    out.insert(from, Out { since_ns: time_ns, function: None });
                }
            }
            Some(Event::Back { time_ns, tid }) => {
                sums.add(tid, out.remove(&tid), time_ns);
                stack_of = None;
            }
            Some(Event::Birth { time_ns, tid }) => {
                // The stack is its parent's.
                stack_of = None;
                if threads.contains(&tid) {
                    out.insert(tid, Out { since_ns: time_ns, function: None });
                }
            }
            None => stack_of = None,
        }
    }
}

/// The event of a line such as
/// `a b 1234 5.000000001: sched:sched_switch: prev_comm=a b prev_pid=1 … ==> next_comm=c next_pid=2 …`.
fn event(line: &str) -> Option<Event> {
    if let Some((head, fields)) = line.split_once(" sched:sched_switch: ") {
        // A name may hold anything, even what looks like a field: the last one is the field.
        let (from, to) = fields.rsplit_once(" ==> ")?;
        let (from, to) = (field(from, "prev_pid=")?, field(to, "next_pid=")?);
        return Some(Event::Switch { time_ns: time_ns(head)?, from, to });
    }
    if let Some((head, _)) = line.split_once(" PERF_RECORD_SWITCH_CPU_WIDE IN ") {
        let tid = head.split_whitespace().rev().nth(1)?.parse().ok()?;
        return Some(Event::Back { time_ns: time_ns(head)?, tid });
    }
    let (head, fields) = line.split_once(" sched:sched_wakeup_new: ")?;
    Some(Event::Birth { time_ns: time_ns(head)?, tid: field(fields, "pid=")? })
}

fn field(fields: &str, name: &str) -> Option<u32> {
    let (_, rest) = fields.rsplit_once(name)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The last word, seconds with nine places and a colon, as nanoseconds.
fn time_ns(head: &str) -> Option<u64> {
    let word = head.split_whitespace().next_back()?;
    let (seconds, nanos) = word.strip_suffix(':')?.split_once('.')?;
    if nanos.len() != 9 {
        return None;
    }
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
}

/// The name in a line such as `\t   1839e work_sleepy::doze`, without the hash that older names end with.
fn function(line: &str) -> Option<String> {
    let (_, name) = line.trim().split_once(' ')?;
    let hash = name
        .rsplit_once("::h")
        .filter(|(_, hash)| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    Some(hash.map_or(name, |(name, _)| name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread 1 waits in `own::a` for 5 ns, is then preempted in `own::b` for 7 ns; thread 2 is born,
    /// waits 2 ns for its CPU, and leaves for good. Who makes way for thread 1 at last is not known.
    const SCRIPT: &str = "\
a ==> b 1 10.000000001: sched:sched_switch: prev_comm=a ==> b prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=x next_pid=9 next_prio=120
\tffffffff821f8298 __schedule
\t           cf503 sleep
\t           18001 own::a::h0123456789abcdef
\t           18002 own::main

x 9 10.000000003: sched:sched_wakeup_new: comm=b pid=2 prio=120 target_cpu=001
\t           18001 own::not_its_own

x 9 10.000000005:     sched:sched_switch: prev_comm=x prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
\t           18003 own::of_another_one

b 2 10.000000006: sched:sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=X ==> next_comm=a ==> b next_pid=1 next_prio=120
\t           18003 own::end

a ==> b 1 10.000000010: sched:sched_switch: prev_comm=a ==> b prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=x next_pid=9 next_prio=120
\t           18004 own::b

a ==> b 1 10.000000017: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0
";

    #[test]
    fn from_leaving_to_coming_back() {
        let sums = of_script(SCRIPT.as_bytes(), &[1, 2].into(), "own::").expect("text");
        assert_eq!(sums.threads, [(1, 5 + 7), (2, 2)].into());
        let expected = [("own::a".to_owned(), 5), ("own::b".to_owned(), 7)];
        assert_eq!(sums.functions, expected.into());
        let other = of_script(SCRIPT.as_bytes(), &[3].into(), "own::").expect("text");
        assert_eq!(other, Sums::default());
    }

    #[test]
    fn events_of_lines() {
        let check = |line: &str, expected| assert_eq!(event(line), expected, "{line}");
        let switch = "a 7 1.000000002: sched:sched_switch: prev_comm=a next_pid=4 prev_pid=7 \
                      prev_prio=1 prev_state=S ==> next_comm=b next_pid=8 next_prio=1";
        check(switch, Some(Event::Switch { time_ns: 1_000_000_002, from: 7, to: 8 }));
        check(&switch.replace("1.000000002", "1.000002"), None);
        let back = "a 7 1.000000003: PERF_RECORD_SWITCH_CPU_WIDE IN    prev pid/tid:  0/0";
        check(back, Some(Event::Back { time_ns: 1_000_000_003, tid: 7 }));
        check(&back.replace(" IN ", " OUT "), None);
        check("a 7 1.000000002: sched:sched_wakeup: comm=b pid=8 prio=1", None);
        check("", None);
    }

    #[test]
    fn names_of_lines() {
        let check = |line, expected: Option<&str>| {
            assert_eq!(function(line).as_deref(), expected, "{line}");
        };
        check("\t  18001 own::a::h0123456789abcdef\n", Some("own::a"));
        check("\t  18001 own::a::hold\n", Some("own::a::hold"));
        check("\t  18001 [unknown]\n", Some("[unknown]"));
        check("\t  18001\n", None);
    }
}
