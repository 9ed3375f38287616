//! Outcome of the first run: its named return value and how it changed its packet.

use std::str::FromStr;

use wingbeat_bpf_loader::ProgramType;
use wingbeat_stats::sample::Sample;

use super::RawCase;
use crate::result::{OwnOutput, PacketSource, RunOutcome};

/// Maximum bytes of a changed packet that are kept.
const OUTPUT_BYTES_MAX: usize = 256;

/// Outcome of a case, and whether it matches the expectation.
pub(super) fn of(case: &RawCase, expect: Option<Expectation>) -> RunOutcome {
    let gives_data = case.r#type.test_run().is_some_and(|rules| rules.gives_data);
    let first = &case.first;
    let has_changed_packet = has_changed_packet(case.r#type, &case.input_data, &first.data);
    let hex =
        || first.data.iter().take(OUTPUT_BYTES_MAX).map(|byte| format!("{byte:02x}")).collect();
    let return_name = return_name(case.r#type, first.return_value);
    let unmet = expect.filter(|expected| !expected.is_met(first.return_value, return_name));
    RunOutcome {
        return_value: first.return_value,
        other_return_values: case.other_return_values.clone(),
        return_name: return_name.map(str::to_owned),
        unmet_expectation: unmet.map(|unmet| unmet.value),
        unmet_name: unmet.and_then(|unmet| unmet.name).map(str::to_owned),
        output_bytes: gives_data.then_some(first.data.len()),
        later_return_value: later_return_value(case),
        has_changed_packet,
        output_hex: has_changed_packet.then(hex),
    }
}

/// Final return value of the timed runs, if all samples agree and it differs from that of the first
/// run. Without samples, the value after thousands of runs. Values that vary between runs do not
/// count.
fn later_return_value(case: &RawCase) -> Option<u32> {
    // Return values on a program's own output are reported separately.
    let settled = case.settled.filter(|settled| !settled.varies)?;
    if case.run.packet == PacketSource::OwnOutput {
        return None;
    }
    let last = *case.run.returned.last().or(settled.return_value.as_ref())?;
    let agree = case.run.returned.iter().all(|it| *it == last);
    (agree && last != case.first.return_value).then_some(last)
}

/// Results of runs that get the output packet of previous runs; `None` if they do not differ.
/// `net_of` subtracts the baseline from a median.
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

/// Whether a run returned a different packet than it got; false for types that return none.
///
/// For programs that see a packet from its network header on, the kernel replaces the Ethernet
/// header with zeros (`bpf_prog_test_run_skb` in net/bpf/test_run.c, Linux 6.18).
pub(crate) fn has_changed_packet(r#type: ProgramType, input: &[u8], output: &[u8]) -> bool {
    const ETHERNET: usize = 14;
    let sees_ethernet =
        matches!(r#type, ProgramType::XDP | ProgramType::SCHED_CLS | ProgramType::SCHED_ACT);
    let from = if sees_ethernet { 0 } else { ETHERNET };
    let gives_data = r#type.test_run().is_some_and(|rules| rules.gives_data);
    gives_data && (input.len() != output.len() || input.get(from..) != output.get(from..))
}

/// Program types and the names of their return values.
type Names = (&'static [ProgramType], &'static [(u32, &'static str)]);

/// Types with named return values (include/uapi/linux/bpf.h, pkt_cls.h and netfilter.h, Linux 6.18).
const NAMES: [Names; 4] = [
    (
        &[ProgramType::XDP],
        &[(0, "XDP_ABORTED"), (1, "XDP_DROP"), (2, "XDP_PASS"), (3, "XDP_TX"), (4, "XDP_REDIRECT")],
    ),
    (
        &[ProgramType::SCHED_CLS, ProgramType::SCHED_ACT],
        &[
            (u32::MAX, "TC_ACT_UNSPEC"),
            (0, "TC_ACT_OK"),
            (1, "TC_ACT_RECLASSIFY"),
            (2, "TC_ACT_SHOT"),
            (3, "TC_ACT_PIPE"),
            (4, "TC_ACT_STOLEN"),
            (5, "TC_ACT_QUEUED"),
            (6, "TC_ACT_REPEAT"),
            (7, "TC_ACT_REDIRECT"),
            (8, "TC_ACT_TRAP"),
        ],
    ),
    (&[ProgramType::SK_LOOKUP], &[(0, "SK_DROP"), (1, "SK_PASS")]),
    (&[ProgramType::NETFILTER], &[(0, "NF_DROP"), (1, "NF_ACCEPT")]),
];

fn return_name(r#type: ProgramType, value: u32) -> Option<&'static str> {
    let (_, names) = NAMES.iter().find(|(types, _)| types.contains(&r#type))?;
    names.iter().find(|(known, _)| *known == value).map(|(_, name)| *name)
}

/// Expected return value of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    pub value: u32,
    /// The name used to specify it. Only types with that name meet the expectation.
    pub name: Option<&'static str>,
}

/// The text is neither a number nor the name of a return value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of 32 bits (2, -1, 0xdc) or the name of a value (XDP_PASS, TC_ACT_OK)")]
pub struct NotAnExpectation;

impl FromStr for Expectation {
    type Err = NotAnExpectation;

    fn from_str(text: &str) -> Result<Self, NotAnExpectation> {
        let mut names = NAMES.iter().flat_map(|(_, names)| *names);
        if let Some(&(value, name)) = names.find(|(_, name)| *name == text) {
            return Ok(Self { value, name: Some(name) });
        }
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            // `from_str_radix` would accept a sign.
            Some(digits) if digits.starts_with(['+', '-']) => None,
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok().or_else(|| text.parse().map(i32::cast_unsigned).ok()),
        };
        number.map(|value| Self { value, name: None }).ok_or(NotAnExpectation)
    }
}

impl Expectation {
    fn is_met(self, value: u32, name: Option<&str>) -> bool {
        value == self.value && self.name.is_none_or(|wanted| name == Some(wanted))
    }
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
        // The kernel replaces the Ethernet header here.
        check(ProgramType::SOCKET_FILTER, &with(13), false);
        check(ProgramType::SOCKET_FILTER, &with(14), true);
        check(ProgramType::CGROUP_SKB, &before[..39], true);
        // These types return no packet.
        check(ProgramType::SK_LOOKUP, &[], false);
        check(ProgramType::NETFILTER, &[], false);
    }

    #[test]
    fn expectations_are_numbers_or_names() {
        let check = |text: &str, expected: Option<(u32, Option<&'static str>)>| {
            let found = text.parse::<Expectation>().ok();
            assert_eq!(found.map(|it| (it.value, it.name)), expected, "{text}");
        };
        check("2", Some((2, None)));
        check("-1", Some((u32::MAX, None)));
        check("4294967295", Some((u32::MAX, None)));
        check("0xdc", Some((0xdc, None)));
        check("XDP_PASS", Some((2, Some("XDP_PASS"))));
        check("TC_ACT_UNSPEC", Some((u32::MAX, Some("TC_ACT_UNSPEC"))));
        for text in ["4294967296", "0x", "0x-1", "0x100000000", "xdp_pass", "PASS", ""] {
            check(text, None);
        }
    }

    #[test]
    fn a_name_is_that_of_a_type() {
        let check = |text: &str, kind: ProgramType, value, expected| {
            let wanted: Expectation = text.parse().expect("an expectation");
            assert_eq!(wanted.is_met(value, return_name(kind, value)), expected, "{text} {kind}");
        };
        check("XDP_PASS", ProgramType::XDP, 2, true);
        check("XDP_PASS", ProgramType::XDP, 1, false);
        check("XDP_PASS", ProgramType::SCHED_CLS, 2, false);
        check("2", ProgramType::SCHED_CLS, 2, true);
        check("NF_ACCEPT", ProgramType::SK_LOOKUP, 1, false);
    }
}
