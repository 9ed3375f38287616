//! Which programs are timed in bursts, and why others are not; the requested time is kept. Complete measurements of
//! small objects.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use wingbeat_bpf_bench::{
    analyse::compare::Thresholds,
    input::Input,
    measure::{Watcher, against, bench},
    plan::Plan,
    result::{BenchReport, Method},
};
use wingbeat_bpf_loader::{
    code::{Insn, op},
    spec::Spec,
};
use wingbeat_bpf_testing::{
    assemble::{Assembler, assembled, load, store_immediate},
    object::typed::Program,
};

use super::{
    support::{ask_for_quiet, can_load, giving, has_may_goto, is_at_least, watched},
    tail_calls::object,
};

/// A frame without Ethernet header, for types that begin with IP.
const NETFILTER: &str = "netfilter";

fn plan(section: &str) -> Plan {
    let frame = Input::default_packet();
    let data = if section == NETFILTER { frame.data[14..].to_vec() } else { frame.data.clone() };
    Plan {
        inputs: vec![Input { data, ..frame }],
        // Two words, for types with user-defined contexts.
        context: if section.starts_with("raw_tp") { vec![0; 16] } else { Vec::new() },
        samples: Some(2),
        allow_statistics: true,
        ..Plan::default()
    }
}

/// An object with one program of these instructions.
fn spec(section: &str, insns: &[Insn]) -> Spec {
    let program = Program { name: "program", section, insns, lines: &[], statics: &[] };
    Spec::parse("program.o", &program.object()).expect("an object")
}

fn measured(section: &str, insns: &[Insn]) -> BenchReport {
    let spec = spec(section, insns);
    watched(|watcher| bench(&spec, &plan(section), watcher)).expect("it is measured")
}

/// Reason for missing bursts on a kernel without `may_goto`.
const NO_MAY_GOTO: &str = "needs the instruction may_goto (Linux 6.9)";

#[test]
fn types_that_take_turns_with_the_baseline() {
    let Some(()) = can_load() else { return };
    let has_turns = has_may_goto();
    let check = |section: &str| {
        let report = measured(section, &giving(1));
        assert_eq!(report.failures, [], "{section}");
        let latency = report.cases[0].latency.measured();
        let latency = latency.unwrap_or_else(|| panic!("{section}: {:?}", report.cases[0].latency));
        assert_eq!(latency.batches, 2, "{section}");
        // Only a return: no CPU does that in zero time, or needs a microsecond.
        assert!(latency.floor_ns > 0.1, "{section}: {latency:?}");
        assert!(latency.floor_ns <= latency.median_ns, "{section}: {latency:?}");
        assert!(!report.cases[0].outcome.has_changed_packet, "{section}");
        let baseline = report.baselines[0].latency.measured().expect("a baseline");
        if has_turns {
            assert!(latency.floor_ns < 1_000.0, "{section}: {latency:?}");
            assert_eq!((latency.method, &latency.reason), (Method::Bursts, &None), "{section}");
            assert!(latency.net_ns.is_some(), "{section}: {latency:?}");
            assert_eq!((baseline.method, baseline.batches), (Method::Bursts, 2), "{section}");
        } else {
            assert_eq!((latency.method, baseline.method), (Method::Batches, Method::Batches));
            let reason = latency.reason.as_deref().expect("a reason");
            assert!(reason.contains(NO_MAY_GOTO), "{section}: {reason}");
        }
    };
    check("xdp");
    check("tc");
    check("action");
    check("socket");
    check("cgroup_skb/ingress");
    check("lwt_xmit");
    check("flow_dissector");
    check("sk_lookup");
    match is_at_least(6, 4) {
        true => check(NETFILTER),
        false => eprintln!("left out: programs of netfilter came with Linux 6.4"),
    }
    check("syscall");
    check("raw_tp/sched_switch");
}

#[test]
fn a_packet_load_of_classic_bpf_takes_turns_too() {
    let Some(()) = can_load() else { return };
    let load = Insn::new(op::LD | op::ABS | op::B, 0, 0, 0, 9);
    let report = measured("socket", &assembled(|it| it.copy(6, 1).emit(load).exit()).insns);
    let latency = report.cases[0].latency.measured().expect("a time");
    let expected = if has_may_goto() { Method::Bursts } else { Method::Batches };
    assert_eq!(latency.method, expected, "{:?}", latency.reason);
}

/// Writes the first byte of its packet.
fn writing() -> Vec<Insn> {
    let mut it = Assembler::new();
    let end = it.label();
    it.mov(0, 1).emit(load(op::W, 2, 1, 0)).emit(load(op::W, 3, 1, 4)).copy(4, 2).add(4, 14);
    it.jump(Insn::new(op::JMP | op::JGT | op::X, 4, 3, 0, 0), end);
    it.emit(store_immediate(op::B, 2, 0, 0x55)).bind(end).exit();
    it.finish().insns
}

#[test]
fn comparisons_that_take_turns_within_a_run() {
    let Some(()) = can_load() else { return };
    let has_turns = has_may_goto();
    let check = |section: &str, new: &[Insn], without_turns: Method| {
        let (new, old) = (spec(section, new), spec(section, &giving(1)));
        // Everything is many times slower in an emulated guest.
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let seconds = if cpus.contains("QEMU TCG CPU") { 15 } else { 2 };
        let time = Some(Duration::from_secs(seconds));
        let plan = Plan { time, ..plan(section) };
        let found = watched(|watcher| against(&new, &old, &plan, Thresholds::default(), watcher));
        let found = found.expect("they are compared");
        let case = &found.cases[0];
        let expected = (!has_turns).then_some(NO_MAY_GOTO);
        let method = if has_turns { Method::Bursts } else { without_turns };
        assert_eq!(case.method, Some(method), "{section}");
        let is_told = match (&case.reason, expected) {
            (Some(reason), Some(expected)) => reason.contains(expected),
            (reason, expected) => reason.is_none() && expected.is_none(),
        };
        assert!(is_told, "{section}: {:?}", case.reason);
        assert!(case.measures[0].before > 0.0 && case.measures[0].after > 0.0, "{case:?}");
    };
    check("xdp", &giving(1), Method::Batches);
    check("socket", &giving(1), Method::Batches);
    check("sk_lookup", &giving(1), Method::Batches);
    // One of them changes the packet, which is restored.
    check("xdp", &writing(), Method::Calls);
}

// The requested time is kept, even if a run, a batch or a load takes longer.

/// Held by the test that uses the CPU.
static TURN: Mutex<()> = Mutex::new(());

fn plan_for(time: Duration) -> Plan {
    Plan {
        programs: vec!["looping".to_owned()],
        time: Some(time),
        allow_statistics: true,
        ..Plan::default()
    }
}

/// An object with a program that runs for `quarters` quarters of a second, at most eight: the
/// kernel terminates a loop after one (since Linux 6.15; before that after eight million
/// iterations), and then a tail call continues with the next.
fn looping(quarters: i32) -> Spec {
    let names = ["looping", "b", "c", "d", "e", "f", "g", "h"];
    let program = |(number, &name): (i32, &&'static str)| {
        let mut it = Assembler::new();
        it.copy(6, 1);
        // Exits an endless loop.
        it.emit(Insn::new(op::JCOND, 0, 0, 1, 0)).emit(Insn::new(op::JA, 0, 0, -2, 0));
        it.copy(1, 6).load_double(2, 0, 0, 0).mov(3, number + 1);
        it.call(op::HELPER_TAIL_CALL).mov(0, 1).exit();
        let slot = (number > 0).then_some(number.cast_unsigned());
        ("socket", name, slot, it.finish().insns)
    };
    let programs: Vec<_> = (0..quarters).zip(&names).map(program).collect();
    object(&programs)
}

/// Measures, and returns the report and the duration. Requests a stop after `stop_after`.
fn measured_for(
    spec: &Spec,
    time: Duration,
    stop_after: Option<Duration>,
) -> (BenchReport, Duration) {
    ask_for_quiet();
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let report = thread::scope(|scope| {
        if let Some(after) = stop_after {
            let stop = &stop;
            scope.spawn(move || {
                thread::sleep(after);
                stop.store(true, Ordering::Relaxed);
            });
        }
        bench(spec, &plan_for(time), &Watcher { show: &|_| {}, stop: &stop })
    });
    (report.expect("a report"), begun.elapsed())
}

fn can_time_loops() -> Option<()> {
    let is_timed = is_at_least(6, 15);
    if !is_timed {
        eprintln!("skipped: the kernel ends loops by time since Linux 6.15");
    }
    can_load().filter(|()| is_timed)
}

#[test]
fn runs_of_a_quarter_of_a_second_are_timed_one_by_one() {
    let Some(()) = can_time_loops() else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (report, took) = measured_for(&looping(1), Duration::from_secs(4), None);
    assert!(took < Duration::from_millis(4_800), "{took:?}");
    let latency = report.cases[0].latency.measured().expect("a time");
    assert_eq!((latency.method, latency.runs_per_batch), (Method::Batches, 1));
    assert!((200e6..400e6).contains(&latency.median_ns), "{latency:?}");
    let reason = latency.reason.as_deref().expect("a reason");
    assert!(reason.contains("too long for bursts"), "{reason}");
}

#[test]
fn a_run_of_seconds_is_left_behind() {
    let Some(()) = can_time_loops() else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let spec = looping(8);
    let check = |time, stop_after| {
        let (report, took) = measured_for(&spec, time, stop_after);
        assert!(took < Duration::from_millis(1_800), "{took:?}");
        assert!(report.cases.is_empty());
        let failure = &report.failures[0];
        assert!(failure.reason.contains("the time ran out before the run"), "{failure:?}");
        // Verifier figures are still available.
        assert_eq!(report.verified[0].name, "looping");
        // It occupies its CPU until it ends.
        thread::sleep(Duration::from_millis(2_500));
    };
    check(Duration::from_secs(1), None);
    check(Duration::from_secs(60), Some(Duration::from_millis(700)));
}
