//! What the first run came to: its answer by name, and what it did to its packet.

use wingbeat_bpf::ProgramType;
use wingbeat_stats::sample::Sample;

use super::RawCase;
use crate::result::{OwnOutput, RunOutcome};

/// Bytes of a changed packet that are kept.
const OUTPUT_BYTES_MAX: usize = 256;

/// The outcome of a case, and whether it is the expected one.
pub(super) fn of(case: &RawCase, expect: Option<u32>) -> RunOutcome {
    let gives_data = case.r#type.test_run().is_some_and(|rules| rules.gives_data);
    let first = &case.first;
    let has_changed_packet = has_changed_packet(case.r#type, &case.input_data, &first.data);
    let hex =
        || first.data.iter().take(OUTPUT_BYTES_MAX).map(|byte| format!("{byte:02x}")).collect();
    RunOutcome {
        return_value: first.return_value,
        other_return_values: case.other_return_values.clone(),
        return_name: return_name(case.r#type, first.return_value).map(str::to_owned),
        unmet_expectation: expect.filter(|expected| *expected != first.return_value),
        output_bytes: gives_data.then_some(first.data.len()),
        later_return_value: later_return_value(case),
        has_changed_packet,
        output_hex: has_changed_packet.then(hex),
    }
}

/// What the timed runs returned in the end, if all samples agree on it and it is not what the first run
/// returned; without samples, what a run after thousands did. What changes from run to run is no later
/// value.
fn later_return_value(case: &RawCase) -> Option<u32> {
    let settled = case.settled.filter(|settled| !settled.varies)?;
    let last = *case.run.returned.last().or(settled.return_value.as_ref())?;
    let agree = case.run.returned.iter().all(|it| *it == last);
    (agree && last != case.first.return_value).then_some(last)
}

/// What runs come to that get what the ones before left of their packet; `None` if that is the same.
/// `net_of` tells what is net of a median.
pub(super) fn own_output(case: &RawCase, net_of: &dyn Fn(f64) -> Option<f64>) -> Option<OwnOutput> {
    let found = case.own_output?;
    let times = Sample::new(case.run.own_output_ns.clone()).ok();
    let median_ns = times.map(|times| times.median());
    let name = |value| return_name(case.r#type, value).map(str::to_owned);
    Some(OwnOutput {
        instructions: found.instructions,
        return_value: found.return_value,
        return_name: found.return_value.and_then(name),
        median_ns,
        net_ns: median_ns.and_then(net_of),
    })
}

/// Whether a run left another packet than it got; false for types that give none back.
///
/// Programs that see a packet from its network header on get zeros in place of Ethernet's
/// (`bpf_prog_test_run_skb` in net/bpf/test_run.c, Linux 6.18), which is not their doing.
pub(crate) fn has_changed_packet(r#type: ProgramType, input: &[u8], output: &[u8]) -> bool {
    const ETHERNET: usize = 14;
    let sees_ethernet =
        matches!(r#type, ProgramType::XDP | ProgramType::SCHED_CLS | ProgramType::SCHED_ACT);
    let from = if sees_ethernet { 0 } else { ETHERNET };
    let gives_data = r#type.test_run().is_some_and(|rules| rules.gives_data);
    gives_data && (input.len() != output.len() || input.get(from..) != output.get(from..))
}

/// Names of return values (include/uapi/linux/bpf.h and pkt_cls.h, Linux 6.18).
fn return_name(r#type: ProgramType, value: u32) -> Option<&'static str> {
    const XDP: [&str; 5] = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"];
    const TC: [&str; 10] = [
        "TC_ACT_OK",
        "TC_ACT_RECLASSIFY",
        "TC_ACT_SHOT",
        "TC_ACT_PIPE",
        "TC_ACT_STOLEN",
        "TC_ACT_QUEUED",
        "TC_ACT_REPEAT",
        "TC_ACT_REDIRECT",
        "TC_ACT_TRAP",
        "",
    ];
    let index = usize::try_from(value).ok();
    let name = match r#type {
        ProgramType::XDP => index.and_then(|index| XDP.get(index)),
        ProgramType::SCHED_CLS | ProgramType::SCHED_ACT if value == u32::MAX => {
            Some(&"TC_ACT_UNSPEC")
        }
        ProgramType::SCHED_CLS | ProgramType::SCHED_ACT => index.and_then(|index| TC.get(index)),
        ProgramType::SK_LOOKUP => index.and_then(|index| ["SK_DROP", "SK_PASS"].get(index)),
        ProgramType::NETFILTER => index.and_then(|index| ["NF_DROP", "NF_ACCEPT"].get(index)),
        _ => None,
    };
    name.copied().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_changed_by_programs_only() {
        let before: Vec<u8> = (0..40).collect();
        let with = |at: usize| {
            let mut after = before.clone();
            after[at] = 0xff;
            after
        };
        let check = |kind: ProgramType, after: &[u8], expected| {
            assert_eq!(has_changed_packet(kind, &before, after), expected, "{kind}");
        };
        check(ProgramType::XDP, &before, false);
        check(ProgramType::XDP, &with(0), true);
        check(ProgramType::SCHED_CLS, &with(13), true);
        check(ProgramType::XDP, &before[1..], true);
        // Ethernet's header is the kernel's doing here.
        check(ProgramType::SOCKET_FILTER, &with(13), false);
        check(ProgramType::SOCKET_FILTER, &with(14), true);
        check(ProgramType::CGROUP_SKB, &before[..39], true);
        // Nothing comes back.
        check(ProgramType::SK_LOOKUP, &[], false);
        check(ProgramType::NETFILTER, &[], false);
    }
}
