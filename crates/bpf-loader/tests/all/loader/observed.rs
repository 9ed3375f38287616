//! What is observed of other programs: tracers at entry and exit, perf counters, tail calls, run-time statistics.

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader},
    os::fd::AsFd as _,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    ProgramType,
    code::Insn,
    empty_baseline::Baseline,
    loader::{
        CounterEvent, Extended, ExtendedError, LoadError, Loaded, LoadedMap, LoadedMaps, Loader,
        Moment, PerfCounter, TraceTarget, Tracer, TrampolineError,
    },
    probe::{self, FindingStatus},
    program::{ProgramInfo, StatisticsOn, TailCalls},
    spec::{MapSpec, MapType, Spec},
};
use wingbeat_bpf_testing::object::{
    btf::GLOBAL,
    typed::{Function, TypedObject},
};

use super::support::{asm, can_load, give, load as load_program, program, run, turn};

/// Increments the word of a per-CPU results map.
fn count() -> Vec<Insn> {
    asm("*(u32 *)(r10 - 4) = 0; r1 = map 0; r2 = r10; r2 += -4; call map_lookup_elem; \
         if r0 == 0 goto +3; r1 = *(u64 *)(r0 + 0); r1 += 1; *(u64 *)(r0 + 0) = r1; r0 = 0; exit")
}

fn counted(results: &LoadedMap) -> u64 {
    let values = results.read_results().expect("values");
    let words = values.as_chunks().0.iter();
    words.map(|&word| u64::from_ne_bytes(word)).sum()
}

#[test]
fn tracers_run_at_both_ends_or_the_kernel_says_why_not() {
    let Some(()) = can_load() else { return };
    let fentry = probe::findings().into_iter().find(|finding| finding.id == "fentry");
    let works = fentry.expect("it is looked for").status == FindingStatus::Works;
    let baseline = Baseline::load_with_types().expect("an empty program with types");
    let target = TraceTarget::new(baseline.as_fd()).expect("its function is known");
    for moment in [Moment::Entry, Moment::Exit] {
        let results = LoadedMap::results_per_cpu(8).expect("a map");
        let tracer = Tracer::load(target, moment, &count(), &[results.as_fd()]);
        let attached = tracer.and_then(|mut tracer| tracer.attach().map(|()| tracer));
        let mut tracer = match attached {
            Ok(tracer) => tracer,
            Err(error) => {
                assert!(!works, "the kernel has fentry, but: {error}");
                let text = error.to_string();
                assert!(text.starts_with("the kernel refuses to "), "{text}");
                assert!(text.contains(&format!("({}): ", moment.name())), "{text}");
                continue;
            }
        };
        assert!(works, "fentry works here, which its probe denies");
        assert_eq!(counted(&results), 0, "before it ran");
        baseline.mean_run_ns().expect("it runs");
        let runs = counted(&results);
        assert!(runs >= 10_000, "{runs}");
        assert_eq!(tracer.recursion_misses().expect("info"), 0);
        tracer.detach();
        baseline.mean_run_ns().expect("it runs");
        assert_eq!(counted(&results), runs, "after it was taken off");
    }
}

#[test]
fn programs_without_types_cannot_be_traced() {
    let Some(()) = can_load() else { return };
    let untyped = load_program(&program(ProgramType::XDP), &give(0), &[]).expect("it loads");
    let error = TraceTarget::new(untyped.as_fd()).expect_err("it has no types");
    assert!(matches!(error, TrampolineError::NoTypes), "{error}");
    assert!(error.to_string().contains("clang -g"), "{error}");
}

#[test]
fn who_jumps_to_whom() {
    let Some(()) = can_load() else { return };
    let spec = MapSpec::plain("table", MapType::PROG_ARRAY, (4, 4), 3);
    let maps = LoadedMaps::create(std::slice::from_ref(&spec), None).expect("a map");
    let load = |insns: &[Insn]| {
        load_program(&program(ProgramType::XDP), insns, &maps.descriptors()).expect("it loads")
    };
    let target = load(&give(77));
    let jumper = load(&asm("r2 = map 0; r3 = 1; call tail_call; r0 = 0; exit"));
    let other = load(&give(1));
    let check = |when: &str, expected: [(bool, bool); 3]| {
        let found = [&jumper, &target, &other].map(|loaded| {
            let found = TailCalls::of(loaded.as_fd()).expect("tables");
            (found.has_table, found.is_in_table)
        });
        assert_eq!(found, expected, "{when}");
    };
    check("before", [(true, false), (false, false), (false, false)]);
    maps.all()[0].put_program(1, target.as_fd()).expect("filled");
    check("after", [(true, false), (false, true), (false, false)]);
}

#[test]
fn the_kernel_counts_on_every_machine() {
    let Some(()) = can_load() else { return };
    for event in CounterEvent::SOFTWARE {
        let counter = PerfCounter::open(event).unwrap_or_else(|error| panic!("{event:?}: {error}"));
        assert_eq!(counter.event(), event);
    }
}

// Programs that replace a function of another program (freplace).

/// `int name(int number)`.
fn with_type(file: &mut TypedObject, name: &str) -> u32 {
    let int = file.types.int("int", 4);
    file.types.taking(name, GLOBAL, int, &[("number", int)])
}

/// An XDP program that calls its global function `inner`.
fn target() -> Loaded {
    let mut file = TypedObject::new();
    let (main, inner) = (file.types.program("main"), with_type(&mut file, "inner"));
    let (calls, called) = (asm("r1 = 5; call +1; exit"), asm("r0 = r1; exit"));
    let inner = Function::global("inner", &called, inner);
    file.code("xdp", &[Function::global("main", &calls, main), inner]);
    loaded(&file.spec(), "main", None).expect("the target loads")
}

/// A replacement in a section with this name.
fn replacement(section: &str) -> Spec {
    let mut file = TypedObject::new();
    let type_id = with_type(&mut file, "inner");
    file.code(section, &[Function::global("inner", &give(2), type_id)]);
    file.spec()
}

fn loaded(spec: &Spec, name: &str, target: Option<&Loaded>) -> Result<Loaded, LoadError> {
    let mut loader = Loader::new(spec).expect("a loader");
    assert!(loader.has_types(), "the kernel takes the types");
    if let Some(target) = target {
        loader.extend(Extended::new(target.as_fd()).expect("it has types"));
    }
    let linked = spec.link_program(name, None).expect("it is linked");
    loader.load(&linked.program, &linked.code, &[])
}

#[test]
fn functions_are_replaced_or_the_kernel_says_why_not() {
    let Some(()) = can_load() else { return };
    let fentry = probe::findings().into_iter().find(|finding| finding.id == "fentry");
    let works = fentry.expect("it is looked for").status == FindingStatus::Works;
    let target = target();
    // A section called just `freplace` refers to the function of the same name.
    for section in ["freplace/inner", "freplace"] {
        match loaded(&replacement(section), "inner", Some(&target)) {
            Ok(extension) => {
                assert!(works, "freplace works here, which the probe of fentry denies");
                assert_eq!(extension.info.r#type, ProgramType::EXT);
                assert_eq!(extension.verifier.processed_instructions, Some(2));
            }
            Err(error) => {
                assert!(!works, "the kernel has fentry, but: {error}");
                let text = error.to_string();
                assert!(text.contains("this kernel forbids programs of this kind"), "{text}");
            }
        }
    }
}

#[test]
fn what_is_to_be_replaced_has_to_be_there() {
    let Some(()) = can_load() else { return };
    let target = target();
    let check = |section: &str, target: Option<&Loaded>, expected: &str| {
        let error = loaded(&replacement(section), "inner", target).expect_err(section);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("freplace/inner", None, "replaces the function inner of another program, which was not");
    check("freplace", None, "the program that has it with --target");
    check("freplace/outer", Some(&target), "the program to extend has no such function");
    let untyped = load_program(&program(ProgramType::XDP), &give(0), &[]).expect("it loads");
    let error = Extended::new(untyped.as_fd()).expect_err("it has no types");
    assert!(matches!(error, ExtendedError::NoTypes), "{error}");
}

// Run-time statistics: exact while enabled, and restored afterwards.

/// Set in the process that keeps statistics enabled until it is killed.
const MARK: &str = "WINGBEAT_TEST_HOLDS_STATISTICS";

/// Printed once it has enabled them.
const HELD: &str = "statistics are held";

/// The global switch, which a descriptor does not change.
fn switch() -> String {
    fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").expect("the switch")
}

/// Waits until statistics are off; other processes may enable them for a while.
fn wait_until_off(baseline: &Baseline) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while baseline.are_statistics_on().expect("it runs") {
        assert!(Instant::now() < deadline, "somebody holds statistics, or they were left on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn runs_are_counted_exactly_while_they_are_on() {
    let Some(()) = can_load() else { return };
    let _turn = turn();
    let before = switch();
    let loaded = load_program(&program(ProgramType::XDP), &give(2), &[]).expect("it loads");
    let runs = |count| run(&loaded, ProgramType::XDP, &[0; 14], count).expect("it runs").runs;
    let info = || ProgramInfo::of(&loaded).expect("info");
    let on = StatisticsOn::new().expect("statistics");
    let mut expected = 0;
    for count in [1, 2, 1000, 12_345] {
        let earlier = info();
        assert_eq!(runs(count), count);
        expected += u64::from(count);
        let later = info();
        assert_eq!(later.run_count, expected);
        assert!(later.run_time_ns > earlier.run_time_ns, "{count}");
        assert_eq!(later.recursion_misses, 0);
    }
    // With two holders, one may go.
    drop(StatisticsOn::new().expect("statistics"));
    runs(10);
    assert_eq!(info().run_count, expected + 10);
    assert_eq!(switch(), before, "holding is not the switch");
    drop(on);
    if before.trim() == "0" {
        wait_until_off(&Baseline::load().expect("a baseline"));
        let earlier = info();
        runs(10);
        // Check only if nobody else has enabled them since.
        if !Baseline::load().and_then(|baseline| baseline.are_statistics_on()).expect("it runs") {
            assert_eq!(info().run_count, earlier.run_count);
        }
    }
    assert_eq!(switch(), before);
}

#[test]
fn a_process_that_is_killed_leaves_them_off() {
    if env::var_os(MARK).is_some() {
        let _on = StatisticsOn::new().expect("statistics");
        println!("\n{HELD}");
        // Until it is killed; at the latest when its stdin is closed.
        drop(io::stdin().lines().next());
        panic!("nobody has killed this process");
    }
    let Some(()) = can_load() else { return };
    let _turn = turn();
    let before = switch();
    let baseline = Baseline::load().expect("a baseline");
    if before.trim() == "0" {
        wait_until_off(&baseline);
    }
    let mut holder = Command::new(env::current_exe().expect("this program"))
        .args([
            "loader::observed::a_process_that_is_killed_leaves_them_off",
            "--exact",
            "--nocapture",
        ])
        .env(MARK, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(holder.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == HELD)), "it does not hold them");
    assert!(baseline.are_statistics_on().expect("it runs"));
    holder.kill().expect("killed");
    assert!(!holder.wait().expect("it ends").success());
    assert_eq!(switch(), before);
    if before.trim() == "0" {
        wait_until_off(&baseline);
    }
}
