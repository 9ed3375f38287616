//! Stateful programs: each case begins with the requested maps, within the requested time; counts
//! that vary between runs are not reported as exact.

use std::{
    fs,
    path::Path,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use wingbeat_bpf_bench::{
    analyse::compare::Thresholds,
    input::{Input, MapSource},
    measure::{against, bench, count_program},
    plan::Plan,
    report::{bmf, csv},
    result::{BenchReport, Case, Comparison, MeasureComparison, PairedVerdict, RunCounts},
};
use wingbeat_bpf_loader::spec::Spec;

use super::{
    compiled::{compile, has_clang},
    support::{self, can_load, is_at_least, watched},
};

const SOURCE: &str = include_str!("stateful.c");

/// Maximum time overrun, for any maps.
const OVER_MAX: Duration = Duration::from_secs(1);

fn is_possible() -> Option<()> {
    has_clang().and_then(|()| can_load())
}

fn spec(flags: &[&str]) -> Spec {
    Spec::parse("stateful.o", &compile(SOURCE, flags)).expect("an object")
}

fn plan(seconds: u64) -> Plan {
    let time = Some(Duration::from_secs(seconds));
    Plan { time, ..support::plan(&[vec![0; 64]]) }
}

fn measured(spec: &Spec, plan: &Plan) -> BenchReport {
    let begun = Instant::now();
    let report = watched(|watcher| bench(spec, plan, watcher)).expect("a report");
    let over = begun.elapsed().saturating_sub(plan.time.expect("a time"));
    assert!(over < OVER_MAX, "{over:?}");
    report
}

fn counts(case: &Case) -> &RunCounts {
    case.counts.measured().unwrap_or_else(|| panic!("{:?}", case.counts))
}

/// Every input sees the same state as the first one.
#[test]
fn what_the_kernel_manages_is_not_there_on_the_next_input() {
    let Some(()) = is_possible() else { return };
    let check = |flags: &[&str]| {
        let spec = spec(flags);
        let plan = support::plan(&[vec![0; 64], vec![0; 64], vec![0; 64]]);
        let counted = match count_program(&spec, "program", &plan, &AtomicBool::new(false)) {
            Err(error) if error.to_string().contains("no valid kptr") => {
                return eprintln!("left out: this clang writes no tags of pointers ({flags:?})");
            }
            other => other.expect("counted"),
        };
        let values: Vec<u32> = counted.outcomes.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [0, 0, 0], "{flags:?}");
    };
    // So many entries that the map would not be reset if the program only read it, as the verifier sees it.
    let check_sizes = |kind| {
        for entries in ["-DENTRIES=2", "-DENTRIES=60000"] {
            check(&[kind, entries]);
        }
    };
    check_sizes("-DTIMER");
    match is_at_least(6, 4) {
        true => check(&["-DKPTR"]),
        false => eprintln!("left out: pointers in maps to what a program allocates came with 6.4"),
    }
    match is_at_least(6, 6) {
        true => ["-DLIST", "-DTREE"].into_iter().for_each(check_sizes),
        false => eprintln!("left out: nodes of lists and trees have had their owner since 6.6"),
    }
    let report = measured(&spec(&["-DTIMER", "-DENTRIES=2"]), &plan(3));
    let case = &report.cases[0];
    assert_eq!((case.outcome.return_value, &counts(case).variation), (0, &None));
}

#[test]
fn large_maps_that_fill_take_no_more_than_the_time() {
    let Some(()) = is_possible() else { return };
    let check = |kind: &str, entries: &str, seconds, batches_min| {
        let flags = ["-DINSERTING", &format!("-DKIND={kind}"), &format!("-DENTRIES={entries}")];
        let report = measured(&spec(&flags), &plan(seconds));
        let case = &report.cases[0];
        let latency = case.latency.measured().expect("a time");
        assert!(latency.batches >= batches_min && latency.net_ns.is_some(), "{kind}: {latency:?}");
        assert!(counts(case).instructions > 5, "{case:?}");
    };
    check("HASH", "2000000", 5, 6);
    check("LRU_HASH", "1000000", 5, 6);
    check("PERCPU_HASH", "500000", 5, 1);
}

/// One map is only read, and not restored; the other is written, and restored.
#[test]
fn maps_that_are_read_and_written() {
    let Some(()) = is_possible() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.json");
    let entries: Vec<String> =
        (0..20_000).map(|key| format!(r#"{{"key": {key}, "value": 7}}"#)).collect();
    fs::write(&path, format!("[{}]", entries.join(","))).expect("written");
    let spec = spec(&["-DREADING", "-DENTRIES=100000"]);
    let maps = vec![MapSource { map: "rules".to_owned(), path }];
    let mut plan = Plan { maps, ..support::plan(&[vec![0; 64], vec![1; 64], vec![2; 64]]) };
    let counted = count_program(&spec, "program", &plan, &AtomicBool::new(false)).expect("counted");
    let values: Vec<u32> = counted.outcomes.iter().map(|(_, value)| *value).collect();
    assert_eq!(values, [0, 0, 0]);
    plan.time = Some(Duration::from_secs(5));
    let report = measured(&spec, &plan);
    for case in &report.cases {
        let latency = case.latency.measured().expect("a time");
        assert!(latency.batches > 5, "{latency:?}");
        assert_eq!((case.outcome.return_value, &counts(case).variation), (0, &None));
    }
}

#[test]
fn random_numbers_vary_and_are_not_exact() {
    let Some(()) = is_possible() else { return };
    let spec = spec(&["-DRANDOM", "-DMORE=0"]);
    let annotated = count_program(&spec, "program", &plan(2), &AtomicBool::new(false));
    let warnings = annotated.expect("counted").warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    let text = warning.to_string();
    assert_eq!(warning.code, "counts-vary");
    assert!(text.contains(" runs; it calls bpf_get_prandom_u32"), "{text}");
    let report = measured(&spec, &plan(2));
    let found = counts(&report.cases[0]);
    let variation = found.variation.as_ref().expect("they vary");
    assert!(variation.lowest < 20 && variation.highest > 300, "{found:?}");
    assert_eq!(found.unpredictable_calls, ["bpf_get_prandom_u32"]);
    assert_eq!(found.steady_instructions, None);
    let codes: Vec<_> = report.warnings.iter().map(|warning| warning.code).collect();
    assert!(
        codes.contains(&"counts-vary") && !codes.contains(&"runs-feed-each-other"),
        "{codes:?}"
    );
    assert!(!bmf(&report).expect("written").contains("\"instructions\""));
    let range = format!(",{}-{},", variation.lowest, variation.highest);
    assert!(csv(&report).expect("written").contains(&range), "{range}");
}

#[test]
fn clocks_that_decide_nothing_leave_counts_exact() {
    let Some(()) = is_possible() else { return };
    let report = measured(&spec(&["-DSTAMPING", "-DMORE=0"]), &plan(2));
    let found = counts(&report.cases[0]);
    assert_eq!((&found.variation, found.steady_instructions), (&None, None), "{found:?}");
    assert_eq!(found.unpredictable_calls, ["bpf_ktime_get_ns"]);
    assert!(bmf(&report).expect("written").contains("\"instructions\""));
}

/// The first run does the work; in a batch, one run per millisecond.
#[test]
fn work_that_depends_on_a_clock_is_counted_as_batches_see_it() {
    let Some(()) = is_possible() else { return };
    let report = measured(&spec(&["-DCLOCK"]), &plan(2));
    let found = counts(&report.cases[0]);
    let steady = found.steady_instructions.expect("others than the first");
    assert!(found.instructions > 300 && steady < 100, "{found:?}");
}

/// Objects of this repository: existing files, and one generated by the tests.
fn own_objects() -> Vec<Spec> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let paths = [
        "crates/profiler/kernel-half/profile-ebpf.x86_64.o",
        "target/ebpf/bpfel-unknown-none/release/fun-xdp-log",
        "target/ebpf/bpfel-unknown-none/release/profiler-ebpf",
    ];
    let found = paths.iter().filter_map(|path| {
        let bytes = fs::read(root.join(path)).ok()?;
        Some(Spec::parse(path, &bytes).expect("an object"))
    });
    let own = Spec::parse("fun-xdp", fun_xdp::OBJECT).expect("an object");
    std::iter::once(own).chain(found).collect()
}

#[test]
#[ignore = "it takes up to half an hour"]
fn no_object_is_worse_than_itself_in_twenty_comparisons() {
    let Some(()) = is_possible() else { return };
    let plan = Plan { inputs: vec![Input::default_packet()], ..plan(20) };
    let mut worse = Vec::new();
    for spec in own_objects() {
        for round in 1..=20 {
            let thresholds = Thresholds::default();
            let found = watched(|watcher| against(&spec, &spec, &plan, thresholds, watcher));
            let found = found.expect("they are compared");
            assert_eq!(found.report.failures, [], "{}", spec.file());
            assert!(!found.cases.is_empty(), "{}", spec.file());
            let measures = found.cases.iter().flat_map(|case| &case.measures);
            let before = worse.len();
            worse.extend(measures.filter(|it| it.is_beyond_threshold).cloned());
            println!("{}, {round}: {} worse", spec.file(), worse.len() - before);
        }
    }
    assert_eq!(worse, []);
}

fn compared(old: &[&str], new: &[&str]) -> Comparison {
    let (old, new) = (spec(old), spec(new));
    let thresholds = Thresholds::default();
    let found = watched(|watcher| against(&new, &old, &plan(6), thresholds, watcher));
    found.expect("they are compared")
}

fn instructions(found: &Comparison) -> &MeasureComparison {
    let measures = &found.cases[0].measures;
    measures.iter().find(|it| it.measure == "instructions").expect("instructions")
}

#[test]
fn counts_that_vary_are_compared_by_many_runs() {
    let Some(()) = is_possible() else { return };
    let check = |old: &[&str], new: &[&str], verdict, is_varying| {
        let found = compared(old, new);
        let found = instructions(&found);
        let is_beyond = verdict == PairedVerdict::Worse;
        let expected = (verdict, is_beyond, is_varying);
        let is_varying = found.runs.is_some_and(|runs| runs >= 100);
        assert_eq!((found.verdict, found.is_beyond_threshold, is_varying), expected, "{found:?}");
    };
    for _ in 0..3 {
        check(
            &["-DRANDOM", "-DMORE=0"],
            &["-DRANDOM", "-DMORE=0"],
            PairedVerdict::NoChangeSeen,
            true,
        );
    }
    check(&["-DSAMPLING=50"], &["-DSAMPLING=50"], PairedVerdict::NoChangeSeen, true);
    check(&["-DRANDOM", "-DMORE=0"], &["-DRANDOM", "-DMORE=50"], PairedVerdict::Worse, true);
    // Without a decision by the clock, one more instruction is exactly one.
    check(&["-DSTAMPING", "-DMORE=0"], &["-DSTAMPING", "-DMORE=0"], PairedVerdict::Same, false);
    check(&["-DSTAMPING", "-DMORE=0"], &["-DSTAMPING", "-DMORE=1"], PairedVerdict::Worse, false);
}

/// One side is measured seconds before the other.
#[test]
fn a_clock_is_the_same_for_both_sides() {
    let Some(()) = is_possible() else { return };
    for _ in 0..2 {
        let found = compared(&["-DSECONDS"], &["-DSECONDS"]);
        let found = instructions(&found);
        assert!(!found.is_beyond_threshold, "{found:?}");
    }
}
