//! Warnings about the reliability of the figures.

use wingbeat_bpf_loader::{ProgramType, loader::Remarks};

use super::{
    Raw, RawCase,
    plausible::{self, FIGURES_DISAGREE},
};
use crate::{
    Warning, conditions,
    counts::TailCalls,
    result::{Baseline, Case, Latency},
};

/// Maximum instructions of a run that is called short: XDP_ABORTED, or input rejected at once.
const SHORT_INSTRUCTIONS: u64 = 12;

/// All warnings of a measurement. Cases are identified by name.
pub(super) fn warnings(raw: &Raw, baselines: &[Baseline], cases: &[Case]) -> Vec<Warning> {
    let mut warnings = remarks(&raw.remarks);
    // Nothing was run, so nothing was disturbed.
    if cases.is_empty() {
        return warnings;
    }
    let disturbances =
        conditions::warnings(&raw.before, &raw.after, raw.load.as_ref(), &raw.measured.observed);
    warnings.extend(disturbances);
    let packets = raw
        .measured
        .cases
        .iter()
        .map(|case| (&*case.name, case.input_data.len(), case.seen_bytes_max));
    let contexts =
        raw.measured.cases.iter().map(|case| (&*case.name, case.made_up_context.as_deref()));
    let found = [
        disagreeing(raw, baselines, cases),
        feeding(cases),
        varying(cases),
        aborted(cases),
        cut_off(packets),
        made_up(contexts),
        without_target(cases),
        extensions(&raw.extensions_alone),
    ];
    warnings.extend(found.into_iter().flatten());
    warnings
}

/// Figures that contradict each other.
fn disagreeing(raw: &Raw, baselines: &[Baseline], cases: &[Case]) -> Option<Warning> {
    let baseline_ns = |case: &RawCase| {
        let baseline = baselines.iter().find(|baseline| baseline.r#type == case.r#type.name())?;
        Some(baseline.latency.measured()?.kernel_ns)
    };
    let those: Vec<String> = cases
        .iter()
        .zip(&raw.measured.cases)
        .flat_map(|(case, raw)| plausible::contradictions(case, raw.reached, baseline_ns(raw)))
        .collect();
    warning(
        FIGURES_DISAGREE,
        "figures contradict each other",
        &those,
        "they are not of the same path through the program, or one of them is wrong",
        "look at what the program leaves in maps and packets for its later runs; if it leaves nothing, \
         report this as a defect of wingbeat",
    )
}

/// Warnings about how the programs of an object were loaded.
pub(crate) fn remarks(remarks: &Remarks) -> Vec<Warning> {
    let unlicensed = warning(
        "no-license",
        "the object declares no licence, and these programs call what the kernel gives to GPL programs \
         only",
        &remarks.as_gpl,
        "they were loaded as GPL, as Aya does; libbpf, bpftool, tc, veristat and cilium/ebpf refuse them",
        "declare it: char LICENSE[] SEC(\"license\") = \"GPL\"; or in Rust, a static in section license",
    );
    let untyped = remarks.types_refused.as_ref().map(|reason| {
        Warning::new(
            "types-refused",
            format!("the kernel refuses the object's type information (BTF): {reason}"),
            "programs are loaded without it, as libbpf does: the verifier names no source lines, and \
             maps and functions that need types are refused",
            "build it with clang -g, or look at what the compiler wrote with `bpftool btf dump file`",
        )
    });
    unlicensed.into_iter().chain(untyped).collect()
}

/// Programs whose later runs differ from the first.
fn feeding(cases: &[Case]) -> Option<Warning> {
    let those: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let counts = case.counts.measured();
            let steady = counts.and_then(|it| Some((it.instructions, it.steady_instructions?)));
            let is_own_output = case.latency.measured().is_some_and(Latency::is_on_own_output);
            match (steady, is_own_output) {
                (_, true) => Some(format!("{} (on its own output)", case.name)),
                (Some((first, steady)), _) => Some(format!("{} ({first} → {steady})", case.name)),
                (None, false) => None,
            }
        })
        .collect();
    warning(
        "runs-feed-each-other",
        "a timed run executes a different number of instructions than the first, because of what earlier runs \
         left in maps or packets, or because less time has passed since the last run",
        &those,
        "exact counts are those of the first run, times are those of the later ones",
        "make maps large enough (a full queue or hash takes the error path), or empty them from \
         another program while it is measured; give more --time for packets to be put back; see \
         docs/bench.md",
    )
}

/// Programs whose instruction count varies between runs.
fn varying(cases: &[Case]) -> Option<Warning> {
    let those: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let counts = case.counts.measured()?;
            let variation = counts.variation.as_ref()?;
            Some(format!("{} ({})", case.name, variation.text(&counts.unpredictable_calls)))
        })
        .collect();
    counts_vary(
        &those,
        "nothing is exact about them: they are left out of Bencher Metric Format, and --against compares \
         many runs of each",
    )
}

/// The instruction counts of `those` vary between runs, with `effect`.
pub(crate) fn counts_vary(those: &[String], effect: &str) -> Option<Warning> {
    warning(
        "counts-vary",
        "on the same input and maps, runs execute different numbers of instructions",
        those,
        effect,
        "for an exact figure, build the program with a constant in place of what varies",
    )
}

/// Programs that ended early and therefore look fast.
fn aborted(cases: &[Case]) -> Option<Warning> {
    let is_short = |case: &&Case| {
        let is_aborted = case.outcome.return_name.as_deref() == Some("XDP_ABORTED");
        let counts = case.counts.measured();
        let is_short = counts.is_some_and(|counts| {
            counts.instructions <= SHORT_INSTRUCTIONS
                && counts.instructions * 4 < case.size.object_instructions as u64
        });
        is_aborted || is_short
    };
    let short: Vec<&Case> = cases.iter().filter(is_short).collect();
    let those: Vec<String> = short.iter().map(|case| case.name.clone()).collect();
    let is_filter = |case: &&Case| case.r#type == ProgramType::SOCKET_FILTER.name();
    let header = match short.iter().any(is_filter) {
        true => {
            "; a socket filter sees no Ethernet header here: put 14 bytes in front if it expects one"
        }
        false => "",
    };
    warning(
        "ended-early",
        "the program ended after its first checks",
        &those,
        "it looks fast because it does not do its work on this input",
        &format!(
            "pass a packet that it is meant for with --input, what its maps must have with --map, and the \
             value it must return with --expect{header}"
        ),
    )
}

/// Programs that see only the beginning of their packet. Each case is its name, the packet length
/// and the maximum visible length.
fn cut_off<'a>(cases: impl Iterator<Item = (&'a str, usize, Option<usize>)>) -> Option<Warning> {
    let mut those = Vec::new();
    let mut seen_bytes = 0;
    for (name, bytes, seen_bytes_max) in cases {
        if let Some(most) = seen_bytes_max.filter(|&most| bytes > most) {
            those.push(format!("{name} ({bytes} bytes)"));
            seen_bytes = most;
        }
    }
    warning(
        "packet-cut-off",
        &format!(
            "the kernel shows XDP programs without frags about the first {seen_bytes} bytes of a packet \
             when it runs them on demand"
        ),
        &those,
        "what the program would do with the rest of the packet is not in the figures",
        "use packets of at most that length, as a network card delivers them, or build it for \
         xdp.frags",
    )
}

/// Programs that ran with synthesized arguments. Each case is its name and a description of these.
fn made_up<'a>(cases: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Option<Warning> {
    let those: Vec<_> =
        cases.filter_map(|(name, context)| Some(format!("{name} by {}", context?))).collect();
    warning(
        "synthetic-context",
        "the arguments of a raw tracepoint come from its event, so that those it was run with here are \
         made up (this task is the measuring thread)",
        &those,
        "the program may take another path than with an event's own arguments; the figures are of \
         the path that it took",
        "pass real arguments with --ctx, 8 bytes each, or attach it and measure it on its events \
         with `wingbeat live`",
    )
}

/// Extensions that ran as standalone programs.
fn extensions(those: &[String]) -> Option<Warning> {
    warning(
        "extension-alone",
        "the program that it extends (freplace) is not there, so it is measured by itself, as a program \
         of the type of its argument",
        those,
        "the figures are those of its own code; the verifier may judge it differently together with its target",
        "name the program that it extends with --target, to have the verifier's figures of the two \
         together",
    )
}

/// Tail calls without a target in the first run. Without counts, lists the slots that they may jump to.
fn without_target(cases: &[Case]) -> Option<Warning> {
    let mut calls: Vec<String> = Vec::new();
    let mut is_each_named = true;
    for TailCalls { failed, missing, .. } in cases.iter().map(|case| &case.tail_calls) {
        for call in failed {
            let wanted = missing
                .iter()
                .find(|it| Some(&it.table) == call.table.as_ref() && Some(it.slot) == call.slot);
            is_each_named &= wanted.is_some();
            calls.push(match wanted {
                Some(wanted) => format!("{call}, for {}: {}", wanted.program, wanted.reason),
                None => call.to_string(),
            });
        }
    }
    for case in cases.iter().filter(|case| case.counts.measured().is_none()) {
        calls.extend(case.tail_calls.missing.iter().map(ToString::to_string));
    }
    calls.sort_unstable();
    calls.dedup();
    // Do not suggest to name a program that was already named.
    let name =
        if is_each_named { "mend that, or name another program" } else { "name the program" };
    warning(
        "tail-call-missing",
        "tail calls lead to slots without a program",
        &calls,
        "the program continues after such a call, and the figures show that path",
        &format!(
            "{name} in a file for --map TABLE=FILE: [{{\"key\": SLOT, \"value\": {{\"program\": \
             \"NAME\"}}}}]"
        ),
    )
}

/// A warning about `those`; `None` if empty.
fn warning(
    code: &'static str,
    cause: &str,
    those: &[String],
    effect: &str,
    next_step: &str,
) -> Option<Warning> {
    (!those.is_empty())
        .then(|| Warning::new(code, format!("{cause}: {}", listed(those)), effect, next_step))
}

/// The first few names, and how many more there are.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_that_are_made_up() {
        let check = |cases: &[(&str, Option<&str>)], expected: Option<&str>| {
            let found = made_up(cases.iter().copied());
            let list = found.as_ref().and_then(|warning| {
                assert_eq!(warning.code, "synthetic-context");
                warning.cause.split(": ").nth(1)
            });
            assert_eq!(list, expected, "{cases:?}");
        };
        check(&[("p", None)], None);
        check(
            &[("p", None), ("on_switch", Some("sched_switch(1, this task)"))],
            Some("on_switch by sched_switch(1, this task)"),
        );
    }

    #[test]
    fn how_programs_were_loaded() {
        assert_eq!(remarks(&Remarks::default()), []);
        let found = remarks(&Remarks {
            as_gpl: vec!["nat".to_owned()],
            types_refused: Some("it does not support them (ENOTSUPP)".to_owned()),
        });
        let found = found.iter().map(|it| (it.code, it.cause.split_once(": ").map(|it| it.1)));
        let reason = "it does not support them (ENOTSUPP)";
        let expected = [("no-license", Some("nat")), ("types-refused", Some(reason))];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn extensions_by_themselves() {
        assert_eq!(extensions(&[]), None);
        let found = extensions(&["own as xdp".to_owned()]).expect("one");
        assert_eq!(found.code, "extension-alone");
        assert!(found.cause.ends_with(": own as xdp"), "{found:?}");
    }

    #[test]
    fn packets_that_are_not_seen_whole() {
        let check = |cases: &[(&str, usize, Option<usize>)], expected: Option<&str>| {
            let found = cut_off(cases.iter().copied());
            if let Some(warning) = &found {
                assert_eq!(warning.code, "packet-cut-off");
            }
            let list = found.as_ref().and_then(|warning| warning.cause.split(": ").nth(1));
            assert_eq!(list, expected, "{cases:?}");
        };
        check(&[], None);
        check(&[("p", 3520, Some(3520)), ("frags", 9000, None)], None);
        check(&[("p", 3521, Some(3520))], Some("p (3521 bytes)"));
        let long = ["p/a", "p/b", "p/c", "p/d"].map(|name| (name, 9000, Some(3520)));
        let listed = "p/a (9000 bytes), p/b (9000 bytes), p/c (9000 bytes) and 1 more";
        check(&long, Some(listed));
    }
}
