//! `wingbeat live --distribution` and `--counters`: single runs, on kernels that can attach programs to programs. On
//! others, the error messages.

use std::{
    os::fd::AsFd,
    process::Child,
    sync::{MutexGuard, OnceLock},
    thread,
    time::Duration,
};

use aya::{Ebpf, programs::RawTracePoint};
use rustix::{
    process::Signal,
    thread::{CpuSet, sched_setaffinity},
};
use serde_json::Value;
use wingbeat_bpf_loader::{
    ProgramType,
    loader::{self, Loaded, Loader, RunInput},
    probe::{Denial, denied},
    program,
    spec::Spec,
};

use crate::{
    live::{
        network::{Network, sender},
        support::{
            Dropper, Ran, live, long_on_demand, looping, program, program_in, run, started,
            statistics, turn, wait_for, wingbeat,
        },
    },
    ran::stopped,
};

/// The smallest packet that a classifier accepts.
const PACKET: [u8; 14] = [0; 14];

/// Why fentry is unavailable; none if it works. Fails if the kernel should have it.
fn why_not() -> Option<&'static str> {
    static FOUND: OnceLock<Option<Denial>> = OnceLock::new();
    let denial = FOUND.get_or_init(|| denied("fentry")).as_ref()?;
    assert!(denial.is_expected, "this kernel should have fentry: {}", denial.reason);
    Some(&denial.reason)
}

/// The test lock, if this kernel can attach programs to programs; prints a message otherwise.
fn turn_with_fentry() -> Option<MutexGuard<'static, ()>> {
    let turn = turn()?;
    match why_not() {
        None => Some(turn),
        Some(reason) => {
            eprintln!("skipped: no fentry here: {reason}");
            None
        }
    }
}

/// Loads a program of a generated object.
fn load(name: &str, bytes: &[u8]) -> Loaded {
    let spec = Spec::parse("made.o", bytes).expect("an object");
    let linked = spec.link_program(name, None).expect("its program");
    let loader = Loader::new(&spec).expect("a loader");
    loader.load(&linked.program, &linked.code, &[]).expect("the verifier takes it")
}

/// A classifier that loops this many times.
fn classifier(name: &str, turns: i32) -> Loaded {
    load(name, &program(name, "classifier", &looping(turns)).object())
}

/// Runs a classifier repeatedly.
fn run_classifier(program: impl AsFd, runs: u32) {
    let input = RunInput { data: &PACKET, context: &[] };
    let mut left = runs;
    while left > 0 {
        let done = loader::run(program.as_fd(), ProgramType::SCHED_CLS, input, left.min(1_000));
        left -= done.expect("it runs").runs;
    }
}

/// `live --distribution` of a program as JSON, already recording when this returns.
fn recording(target: u32) -> Child {
    let id = target.to_string();
    let child = started(live(&["--distribution", "--format", "json", &id, "-d", "60s"]));
    wait_for("the tracers", || tracers() >= 2 && program::open(target).is_ok());
    // The entry program is attached after both are loaded.
    thread::sleep(Duration::from_millis(500));
    child
}

/// Number of loaded tracers. Those of the empty program come and go first, within milliseconds.
fn tracers() -> usize {
    let infos = program::ids().expect("ids").into_iter().filter_map(|id| program::open(id).ok());
    let names = infos.filter_map(|program| Some(program::ProgramInfo::of(&program).ok()?.name));
    let (mut tracers, mut baselines) = (0, 0);
    for name in names {
        tracers += usize::from(name == "wingbeat_fentry" || name == "wingbeat_fexit");
        baselines += usize::from(name == "wingbeat_empty");
    }
    if baselines > 0 { 0 } else { tracers }
}

/// Ends it by a signal.
fn ended(child: Child) -> Ran {
    stopped(child, Signal::INT).ended_with(0)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Checks the invariants of a distribution.
fn check_order(single: &Value) {
    let figures = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
    let known: Vec<f64> = figures.iter().filter_map(|name| single[name].as_f64()).collect();
    assert!(known.is_sorted(), "{single}");
    let bins = single["bins"].as_array().expect("bins");
    let runs: u64 = bins.iter().map(|bin| number(&bin["runs"])).sum();
    assert_eq!(runs, number(&single["runs"]), "{single}");
}

#[test]
fn kernels_that_refuse_are_told_apart_from_programs() {
    let Some(_turn) = turn() else { return };
    if why_not().is_none() {
        eprintln!("skipped: fentry works here");
        return;
    }
    let dropper = Dropper::load("refused");
    for flag in ["--distribution", "--counters"] {
        let found = run(live(&[flag, &dropper.id.to_string(), "-d", "100ms"])).ended_with(1);
        assert!(found.stdout.is_empty(), "{}", found.stdout);
        for part in [
            "cannot time single runs in place",
            "a test with an empty program failed",
            "the kernel refuses to ",
            "`wingbeat bench OBJECT` times single runs without them",
        ] {
            assert!(found.stderr.contains(part), "{part}: {}", found.stderr);
        }
    }
}

#[test]
fn every_run_is_timed() {
    let Some(_turn) = turn_with_fentry() else { return };
    let before = statistics();
    let _network = Network::enter();
    let dropper = Dropper::attached("drop_every_one");
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("result.json");
    let mut command = live(&["drop_every_one", "--distribution", "--format", "json", "-o"]);
    command.arg(&file).arg("--").args(sender(300));
    run(command).ended_with(0);
    assert_eq!(statistics(), before, "statistics are not touched");

    let text = std::fs::read_to_string(&file).expect("the result");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let program = program_in(&report, dropper.id);
    assert_eq!((&program["runs"], &program["outcome"]), (&300.into(), &"ran".into()), "{program}");
    let single = &program["single_runs"];
    assert_eq!(single["runs"], 300, "{single}");
    check_order(single);
    // p99.9 of 300 runs would be the maximum.
    assert!(single["p99_ns"].is_number() && single["p999_ns"].is_null(), "{single}");
    assert_eq!(program["run_time_ns"].as_f64(), Some((real(&single["mean_ns"]) * 300.0).round()));
    let empty = &report["empty"]["single_runs"];
    check_order(empty);
    assert!(number(&empty["runs"]) >= 10_000 && real(&empty["p50_ns"]) > 0.0, "{empty}");
    assert!(real(&report["empty"]["added_ns"]) > 0.0, "{report}");
}

#[test]
fn counters_in_two_forms() {
    let Some(_turn) = turn_with_fentry() else { return };
    let _network = Network::enter();
    let dropper = Dropper::attached("counted");
    let measured = |format: &str| {
        let mut command = live(&["counted", "--counters", "--format", format, "--"]);
        command.args(sender(200));
        run(command).ended_with(0)
    };
    let report = measured("json").json();
    let program = program_in(&report, dropper.id);
    let counters = program["counters"].as_array().expect("counters");
    let names: Vec<_> = counters.iter().filter_map(|one| one["event"].as_str()).collect();
    let is_soft = report["warnings"].as_array().expect("warnings").iter().any(|warning| {
        warning["code"] == "no-counters"
            && warning["effect"].as_str().is_some_and(|text| text.contains("the kernel's own"))
    });
    let expected: &[&str] = match is_soft {
        true => &["cpu-clock", "task-clock", "context-switches", "page-faults"],
        false => &["cycles", "instructions", "cache-misses"],
    };
    assert!(names.iter().all(|name| expected.contains(name)) && !names.is_empty(), "{names:?}");
    let first = &counters[0];
    assert_eq!(first["runs"], 200, "{first}");
    let (total, per_run) = (real(&first["total"]), real(&first["per_run"]));
    assert!(per_run > 1.0 && (total / 200.0 - per_run).abs() < 1e-6 * per_run, "{first}");

    let human = measured("human").stdout;
    for part in ["(empty)", "p99.9", "net p50", names[0], "per run", "each run takes about "] {
        assert!(human.contains(part), "{part}: {human}");
    }
}

/// Two CPUs run one program continuously: nothing is mixed up or lost.
#[test]
fn two_cpus_at_once() {
    const RUNS: u32 = 20_000;
    let Some(_turn) = turn_with_fentry() else { return };
    let program = classifier("both_cpus", 20);
    let id = program.info.id;
    let child = recording(id);
    thread::scope(|scope| {
        for cpu in 0..2 {
            let program = &program;
            scope.spawn(move || {
                let mut set = CpuSet::new();
                set.set(cpu);
                // A machine with one CPU runs both there.
                let _ = sched_setaffinity(None, &set);
                run_classifier(program, RUNS);
            });
        }
    });
    let found = ended(child);
    let report = found.json();
    assert_eq!(report["ended_by"], "signal");
    let single = &program_in(&report, id)["single_runs"];
    check_order(single);
    let lost = number(&single["untimed"]["recursion"]) + number(&single["untimed"]["displaced"]);
    assert!(number(&single["runs"]) + lost >= u64::from(2 * RUNS), "{single}");
    assert!(number(&single["runs"]) <= u64::from(2 * RUNS), "{single}");
    assert!(lost <= u64::from(RUNS) / 1_000, "{single}");
}

/// Two threads run one program on the same CPU. On preemptible kernels, one may preempt the other's runs and end later:
/// times must not be mixed up.
#[test]
fn threads_that_take_turns() {
    const RUNS: u32 = 15_000;
    let Some(_turn) = turn_with_fentry() else { return };
    let name = "taking_turns";
    // Programs of this type can be preempted.
    let program = load(name, &program(name, "syscall", &looping(20_000)).object());
    let id = program.info.id;
    let child = recording(id);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut set = CpuSet::new();
                set.set(0);
                sched_setaffinity(None, &set).expect("CPU 0");
                let runs = loader::run(&program, ProgramType::SYSCALL, RunInput::default(), RUNS);
                assert_eq!(runs.expect("it runs").runs, RUNS);
            });
        }
    });
    let found = ended(child);
    let single = program_in(&found.json(), id)["single_runs"].clone();
    check_order(&single);
    let untimed = &single["untimed"];
    eprintln!(
        "{} runs from {} to {} ns, {untimed}",
        single["runs"], single["min_ns"], single["max_ns"]
    );
    let lost = number(&untimed["recursion"]) + number(&untimed["displaced"]);
    let runs = number(&single["runs"]);
    assert!(runs <= u64::from(2 * RUNS) && runs + lost >= u64::from(2 * RUNS), "{single}");
    // A thread preempted inside a tracer blocks it until it resumes.
    assert!(lost <= u64::from(RUNS) / 2, "{single}");
    // A run that ended another one's would be far too short.
    assert!(real(&single["min_ns"]) > 0.3 * real(&single["p50_ns"]), "{single}");
}

/// A program that interrupts itself: long runs requested by a thread, and short ones triggered by timers in between.
/// The short ones must not end the long ones.
#[test]
fn runs_within_runs() {
    const TURNS: i32 = 20_000;
    const LONG_RUNS: u32 = 1_500;
    let Some(_turn) = turn_with_fentry() else { return };
    let name = "nested";
    let insns = long_on_demand(TURNS);
    let bytes = program(name, "raw_tp/hrtimer_expire_entry", &insns).object();
    let mut ebpf = Ebpf::load(&bytes).expect("it loads");
    let program: &mut RawTracePoint =
        ebpf.program_mut(name).expect("it is there").try_into().expect("a raw tracepoint");
    program.load().expect("the verifier takes it");
    let id = program.info().expect("info").id();
    // Its owner attaches it below.
    let held = program::open(id).expect("it is loaded");
    let context = [0; 8];
    let input = RunInput { data: &[], context: &context };
    let long_run = || {
        loader::run(&held, ProgramType::RAW_TRACEPOINT, input, 1).expect("it runs");
    };
    program.attach("hrtimer_expire_entry").expect("attached");
    let child = recording(id);
    (0..LONG_RUNS).for_each(|_| long_run());
    let found = ended(child);
    let single = program_in(&found.json(), id)["single_runs"].clone();
    check_order(&single);
    let bins = single["bins"].as_array().expect("bins");
    // Most are long, so that the median is the time of one; the short ones have a thousandth of the iterations.
    let long_ns = 0.5 * real(&single["p50_ns"]);
    let long = bins.iter().filter(|bin| number(&bin["lower_ns"]) as f64 > long_ns);
    let long: u64 = long.map(|bin| number(&bin["runs"])).sum();
    let untimed = &single["untimed"];
    let lost = number(&untimed["recursion"]) + number(&untimed["displaced"]);
    eprintln!("{long} long runs of {LONG_RUNS} and {} in all, {untimed}", single["runs"]);
    let asked = u64::from(LONG_RUNS);
    // Interrupts make some of the short ones long.
    assert!(long + lost >= asked && long <= asked + asked / 10, "{single}");
    assert!(number(&single["runs"]) > long, "timers ran it, too: {single}");
    assert!(lost <= asked / 20, "{single}");
}

#[test]
fn programs_that_cannot_be_traced() {
    let Some(_turn) = turn_with_fentry() else { return };
    let check = |program: &Loaded, expected: &[&str]| {
        let found =
            run(live(&["--distribution", &program.info.id.to_string(), "-d", "1s"])).ended_with(1);
        let is_told = expected.iter().any(|expected| found.stderr.contains(expected));
        assert!(is_told, "{expected:?}: {}", found.stderr);
        assert!(found.stdout.is_empty() || found.stderr.contains("never ran"), "{}", found.stdout);
    };
    let untyped = program("untyped", "classifier", &looping(3)).with(&[]);
    check(&load("untyped", &untyped), &["without type information (BTF)"]);
    // A tracing program; later kernels allow attaching one to another.
    let tracing = program("tracing", "fentry/bpf_fentry_test1", &looping(3)).object();
    let tracing = load("tracing", &tracing);
    check(&tracing, &["Cannot recursively attach", "tracing (id "]);

    // Among all programs, such a one is omitted with a message.
    let untyped = load("untyped", &untyped);
    let _typed = classifier("typed", 3);
    let mut command = live(&["--distribution", "--format", "json", "-d", "300ms"]);
    command.arg("-q");
    let report = run(command).json();
    let warnings = report["warnings"].as_array().expect("warnings");
    let is_told = warnings.iter().any(|warning| {
        let text = warning["cause"].as_str().unwrap_or_default();
        warning["code"] == "not-traced"
            && text.contains(&format!("untyped (id {})", untyped.info.id))
    });
    assert!(is_told, "{report}");
}

#[test]
fn a_program_that_its_owner_drops_is_reported() {
    let Some(_turn) = turn_with_fentry() else { return };
    let program = classifier("dropped", 10);
    let id = program.info.id;
    let child = recording(id);
    run_classifier(&program, 50);
    drop(program);
    thread::sleep(Duration::from_millis(300));
    let found = ended(child);
    assert_eq!(program_in(&found.json(), id)["single_runs"]["runs"], 50);
    wait_for("its end", || program::open(id).is_err());
}

/// The cost of a loaded program and of the same one in an object, each minus the cost of an empty one, agree within a
/// tenth. A shared or emulated machine may run at half speed at times, so the minimum of several counts.
#[test]
fn in_place_and_before_it_is_loaded() {
    const TURNS: i32 = 5_000;
    const ROUNDS: u32 = 6;
    let Some(_turn) = turn_with_fentry() else { return };
    let name = "compared";
    let bytes = program(name, "classifier", &looping(TURNS)).object();
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("compared.o");
    std::fs::write(&file, &bytes).expect("the object");
    let in_object = || {
        let mut command = wingbeat(&["bench", "--format", "json", "--time", "3s"]);
        command.arg(&file);
        let report = run(command).json();
        real(&report["cases"][0]["distribution"]["measured"]["net_p50_ns"])
    };
    let program = load(name, &bytes);
    let id = program.info.id;
    let in_place = || {
        let child = recording(id);
        run_classifier(&program, 5_000);
        let found = ended(child);
        real(&program_in(&found.json(), id)["single_runs"]["net_p50_ns"])
    };
    let (mut least_in_object, mut least_in_place) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        least_in_object = least_in_object.min(in_object());
        least_in_place = least_in_place.min(in_place());
        let ratio = least_in_place / least_in_object;
        eprintln!(
            "net p50: {least_in_object:.0} ns in the object, {least_in_place:.0} ns in place"
        );
        if (0.9..1.1).contains(&ratio) {
            return;
        }
    }
    panic!("{least_in_object} ns in the object, {least_in_place} ns in place");
}
