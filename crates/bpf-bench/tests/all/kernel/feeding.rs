//! Programs that affect their next run: times must be those of the requested packet, or a reason must be reported.

use std::time::Duration;

use wingbeat_bpf_bench::{
    analyse::compare::Thresholds,
    measure::{against, bench},
    plan::Plan,
    result::{BenchReport, Case, Method, PacketSource, PairedVerdict},
};
use wingbeat_bpf_loader::spec::Spec;

use super::{
    compiled::{compile, has_clang},
    support::{can_load, has_may_goto, watched},
};

const SOURCE: &str = include_str!("feeding.c");

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const TC_ACT_OK: u32 = 0;
const TC_ACT_SHOT: u32 = 2;

fn object() -> Option<Spec> {
    has_clang().and_then(|()| can_load())?;
    Some(Spec::parse("feeding.o", &compile(SOURCE, &[])).expect("an object"))
}

fn plan(program: &str) -> Plan {
    Plan {
        programs: vec![program.to_owned()],
        samples: Some(4),
        // It ends much earlier, unless the machine stalls.
        time: Some(Duration::from_secs(20)),
        allow_statistics: true,
        ..Plan::default()
    }
}

fn measured(spec: &Spec, program: &str) -> BenchReport {
    let report = watched(|watcher| bench(spec, &plan(program), watcher)).expect("it is measured");
    assert_eq!(report.failures, [], "{program}");
    report
}

fn codes(report: &BenchReport) -> Vec<&str> {
    let ours = ["figures-disagree", "runs-feed-each-other"];
    report.warnings.iter().map(|it| it.code).filter(|code| ours.contains(code)).collect()
}

/// Executed instructions of the first run, and of later ones on the program's own output.
fn instructions(case: &Case) -> (u64, Option<u64>) {
    let counts = case.counts.measured().unwrap_or_else(|| panic!("{:?}", case.counts.reason()));
    assert_eq!(counts.steady_instructions, None, "{}", case.name);
    (counts.instructions, case.own_output.as_ref().and_then(|own| own.instructions))
}

#[test]
fn times_are_of_the_packet_that_was_asked_for() {
    let Some(spec) = object() else { return };
    let check = |program: &str, method, fresh: u32, own: u32| {
        let report = measured(&spec, program);
        let case = &report.cases[0];
        let latency = case.latency.measured().expect("a time");
        // A busy machine does not load both in time.
        let is_late =
            latency.reason.as_ref().is_some_and(|it| it.contains("several times as long"));
        let method = if is_late { Method::Calls } else { method };
        let how = (latency.method, latency.packet);
        assert_eq!(how, (method, PacketSource::Restored), "{:?}", latency.reason);
        let outcome = &case.outcome;
        // The last timed call returned the same as the first run.
        assert_eq!((outcome.return_value, outcome.later_return_value), (fresh, None), "{program}");
        let own_output = case.own_output.as_ref().expect(program);
        assert_eq!(own_output.return_value, Some(own), "{program}");
        let (first, later) = instructions(case);
        assert!(later.is_some_and(|later| later < first / 10), "{program}: {first}, {later:?}");
        let (net_ns, own_ns) = (latency.net_ns.expect("net"), own_output.net_ns.expect("net"));
        assert!(net_ns > 100.0 && net_ns > 2.0 * own_ns, "{program}: {net_ns}, {own_ns}");
        assert_eq!(codes(&report), [""; 0], "{program}: {:?}", report.warnings);
    };
    let bursts = if has_may_goto() { Method::Bursts } else { Method::Calls };
    check("rewrites", bursts, XDP_TX, XDP_DROP);
    check("decapsulates", bursts, XDP_TX, XDP_PASS);
    check("encapsulates", bursts, XDP_TX, XDP_DROP);
    check("marks", bursts, XDP_PASS, XDP_DROP);
    check("truncates", bursts, XDP_TX, XDP_DROP);
    check("tc_rewrites", bursts, TC_ACT_OK, TC_ACT_SHOT);
    check("tc_marks", bursts, TC_ACT_OK, TC_ACT_SHOT);
    check("tc_counts", bursts, TC_ACT_OK, TC_ACT_SHOT);
    // No code between calls can undo it.
    check("cgroup_marks", Method::Calls, 1, 0);
    check("tc_tags", Method::Calls, TC_ACT_OK, TC_ACT_SHOT);
    check("tc_truncates", Method::Calls, TC_ACT_OK, TC_ACT_SHOT);
}

#[test]
fn times_are_of_the_context_that_was_asked_for() {
    let Some(spec) = object() else { return };
    let plan = Plan { context: vec![0; 16], ..plan("answers") };
    let report = watched(|watcher| bench(&spec, &plan, watcher)).expect("it is measured");
    let case = &report.cases[0];
    let latency = case.latency.measured().expect("a time");
    assert_eq!((latency.method, latency.packet), (Method::Calls, PacketSource::Restored));
    let net_ns = latency.net_ns.expect("net");
    assert!(net_ns > 100.0, "{net_ns}");
    assert_eq!((case.outcome.return_value, codes(&report)), (0, vec![]));
}

#[test]
fn times_are_of_the_keys_that_the_kernel_empties() {
    let Some(spec) = object() else { return };
    let report = measured(&spec, "dissects");
    let latency = report.cases[0].latency.measured().expect("a time");
    assert_eq!((latency.method, latency.packet), (Method::Batches, PacketSource::Unchanged));
    let net_ns = latency.net_ns.expect("net");
    assert!(net_ns > 100.0, "{net_ns}");
    assert_eq!(codes(&report), [""; 0]);
}

#[test]
fn a_program_that_leaves_its_packet_alone_is_timed_as_it_is() {
    let Some(spec) = object() else { return };
    let report = measured(&spec, "leaves");
    let case = &report.cases[0];
    let latency = case.latency.measured().expect("a time");
    assert_eq!((latency.packet, &case.own_output), (PacketSource::Unchanged, &None));
    assert_eq!(codes(&report), [""; 0]);
}

#[test]
fn what_maps_feed_is_said() {
    let Some(spec) = object() else { return };
    let report = measured(&spec, "limits");
    let case = &report.cases[0];
    let counts = case.counts.measured().expect("counts");
    assert!(counts.steady_instructions.is_some_and(|later| later < counts.instructions / 10));
    assert_eq!(case.own_output, None);
    assert_eq!((case.outcome.return_value, case.outcome.later_return_value), (2, Some(1)));
    assert_eq!(codes(&report), ["figures-disagree", "runs-feed-each-other"]);
}

#[test]
fn a_limit_that_is_reached_within_a_sample_is_said() {
    let Some(spec) = object() else { return };
    let report = measured(&spec, "tires");
    let counts = report.cases[0].counts.measured().expect("counts");
    assert!(
        counts.steady_instructions.is_some_and(|mean| mean < counts.instructions),
        "{counts:?}"
    );
    assert_eq!(codes(&report), ["runs-feed-each-other"]);
}

/// A rate limit: only the time between runs differs.
#[test]
fn an_unchanged_packet_is_not_called_changed() {
    let Some(spec) = object() else { return };
    let report = measured(&spec, "drops");
    let case = &report.cases[0];
    let packet = case.latency.measured().expect("a time").packet;
    assert_eq!((packet, &case.own_output), (PacketSource::Unchanged, &None));
}

#[test]
fn a_comparison_is_of_the_packet_that_was_asked_for() {
    let Some(spec) = object() else { return };
    // Half of the work: on its own output each returns at once.
    let less = SOURCE.replace("turn < 300", "turn < 150");
    let less = Spec::parse("less.o", &compile(&less, &[])).expect("an object");
    let check = |program: &str, expected: &[PairedVerdict]| {
        let plan = Plan { samples: None, time: Some(Duration::from_secs(6)), ..plan(program) };
        let found = watched(|watcher| {
            against(&less, &spec, &plan, Thresholds::default(), watcher).expect("compared")
        });
        let time = &found.cases[0].measures[0];
        assert!(expected.contains(&time.verdict), "{program}: {time:?}");
        if expected[0] == PairedVerdict::Better {
            let change = time.change.expect("a change");
            assert!((-0.65..-0.3).contains(&change), "{program}: {time:?}");
        }
    };
    // A busy machine only has time for too few pairs.
    let better = [PairedVerdict::Better, PairedVerdict::TooFewPairs];
    check("rewrites", &better);
    check("decapsulates", &better);
    check("tc_truncates", &better);
    // All but fifty runs of both return at once, and those are not reported.
    check("limits", &[PairedVerdict::NotJudged, PairedVerdict::TooFewPairs]);
}
