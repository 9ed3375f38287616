//! Which programs are timed in bursts, and why others are not: complete measurements of small objects.

use wingbeat_bpf_bench::{
    analyse::compare::Thresholds,
    input::Input,
    measure::{against, bench},
    plan::Plan,
    result::{BenchReport, Method},
};
use wingbeat_bpf_loader::{
    code::{Insn, op},
    spec::Spec,
};
use wingbeat_bpf_testing::assemble::{Assembler, assembled, load, store_immediate};

use wingbeat_bpf_testing::object::typed::Program;

use super::support::{can_load, giving, has_may_goto, is_at_least, watched};

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
        let time = Some(std::time::Duration::from_secs(seconds));
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
