//! A program in the kernel, plain and with counters.

use std::{os::fd::AsFd as _, sync::atomic::AtomicBool};

use proptest::{
    prelude::*,
    test_runner::{TestCaseError, TestRunner},
};
use wingbeat_bpf_bench::{
    input::{Input, Link},
    instrument::counters::{self, Instrumented},
    live::check_rights,
    measure::Watcher,
    plan::Plan,
};
use wingbeat_bpf_loader::{
    code::{Code, Insn},
    loader::{Loaded, LoadedMap, Loader, ProgramRun, RunInput, run},
    probe,
    spec::{ProgramSpec, Spec},
};
use wingbeat_bpf_testing::{assemble::assembled, generate::Entry};

use wingbeat_bpf_testing::object::typed::Program;

/// Maximum functions of a generated program besides its entry.
const STATICS: u32 = 4;

/// Type id of the entry, in [`Program::object`]; those of static functions follow.
const ENTRY_TYPE_ID: u32 = 4;

/// The kernel's message about it (kernel/bpf/verifier.c, Linux 6.18).
const REMOVED_CALLBACK: &str = "verifier bug: No program to jit";

/// Tells `cargo xtask test` that a failure may be due to the machine: see `xtask/src/test.rs`.
pub(crate) fn ask_for_quiet() {
    println!("[this test needs a quiet machine]");
}

/// Measures without an observer. The progress within the time depends on other load.
pub(crate) fn watched<T>(what: impl FnOnce(&Watcher<'_>) -> T) -> T {
    ask_for_quiet();
    what(&Watcher { show: &|_| {}, stop: &AtomicBool::new(false) })
}

/// A program that only returns `value`; every type accepts 1.
pub(crate) fn giving(value: i32) -> Vec<Insn> {
    assembled(|it| it.mov(0, value).exit()).insns
}

/// A plan of a measurement on these packets.
pub(crate) fn plan(packets: &[Vec<u8>]) -> Plan {
    let input = |(number, data): (usize, &Vec<u8>)| Input {
        name: format!("packet-{number}"),
        data: data.clone(),
        link: Link::Ethernet,
    };
    let inputs = packets.iter().enumerate().map(input).collect();
    Plan { inputs, allow_statistics: true, ..Plan::default() }
}

/// Checks generated values, with as many rejections allowed as there are cases.
pub(crate) fn check_property<S: Strategy>(
    config: ProptestConfig,
    values: &S,
    check: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let max_global_rejects = config.cases;
    let config = ProptestConfig { max_global_rejects, failure_persistence: None, ..config };
    if let Err(error) = TestRunner::new(config).run(values, check) {
        panic!("{error}");
    }
}

/// Whether programs can be loaded here; a failure in CI if not.
pub(crate) fn can_load() -> Option<()> {
    match check_rights() {
        Ok(()) => Some(()),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to do this: {error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Whether this kernel has at least this version.
pub(crate) fn is_at_least(major: u32, minor: u32) -> bool {
    probe::Kernel::running().is_at_least(major, minor)
}

/// Whether this kernel has the instruction needed for alternating programs within a run.
pub(crate) fn has_may_goto() -> bool {
    is_at_least(6, 9)
}

/// Loads generated programs of one kind. Callbacks must be static, which the kernel learns from types.
pub(crate) struct Kernel {
    loader: Loader,
    program: ProgramSpec,
}

impl Kernel {
    pub(crate) fn new(entry: Entry) -> Self {
        let section = if entry == Entry::Xdp { "xdp" } else { "socket" };
        let statics: Vec<_> = (1..=STATICS).map(|number| format!("function_{number}")).collect();
        let object = Program {
            name: "function_0",
            section,
            insns: &giving(2),
            lines: &[(0, 1, "")],
            statics: &statics,
        };
        let spec = Spec::parse("generated.o", &object.object()).expect("an object");
        let loader = Loader::new(&spec).expect("a loader");
        assert!(loader.has_types(), "the kernel takes the types");
        Self { loader, program: spec.programs()[0].clone() }
    }

    /// Loads it without and with counters; `None` if the kernel fails on one of them: Linux 6.18
    /// removes a callback whose `bpf_loop` has no iterations, and then misses it, unless by chance
    /// another function begins where the callback did.
    pub(crate) fn load(&self, code: &Code) -> Option<Pair> {
        let mut code = code.clone();
        for function in &mut code.functions {
            let number = function.name.strip_prefix("function_").and_then(|it| it.parse().ok());
            let number: u32 = number.expect("a generated name");
            assert!(number <= STATICS, "{number}");
            function.type_id = Some(ENTRY_TYPE_ID + number);
        }
        let plain = match self.loader.load(&self.program, &code, &[]) {
            Ok(plain) => plain,
            Err(error) if error.to_string().contains(REMOVED_CALLBACK) => return None,
            Err(error) => panic!("the original: {error}"),
        };
        let options = counters::Options {
            stack_depths_bytes: plain.verifier.stack_depths.clone(),
            ..counters::Options::default()
        };
        let instrumented = counters::instrument(&code, &options).expect("counters");
        let results = LoadedMap::results(instrumented.plan.value_size_bytes()).expect("a map");
        let counted =
            self.loader.load(&self.program, &instrumented.program.code, &[results.as_fd()]);
        let counted = match counted {
            Ok(counted) => counted,
            Err(error) if error.to_string().contains(REMOVED_CALLBACK) => return None,
            Err(error) => panic!("with counters: {error}"),
        };
        Some(Pair { program: self.program.clone(), plain, counted, results, instrumented })
    }
}

/// A program without and with counters.
pub(crate) struct Pair {
    program: ProgramSpec,
    plain: Loaded,
    counted: Loaded,
    results: LoadedMap,
    instrumented: Instrumented,
}

impl Pair {
    pub(crate) fn run_plain(&self, packet: &[u8]) -> ProgramRun {
        self.run(&self.plain, packet)
    }

    /// Runs it with counters, and returns the executions of each original instruction.
    pub(crate) fn run_counted(&self, packet: &[u8]) -> (ProgramRun, Vec<u64>) {
        self.results.clear_results().expect("cleared");
        let run = self.run(&self.counted, packet);
        let plan = &self.instrumented.plan;
        let counters = plan.counters(&self.results.read_results().expect("read"));
        (run, plan.insn_counts(&counters))
    }

    fn run(&self, form: &Loaded, packet: &[u8]) -> ProgramRun {
        let input = RunInput { data: packet, context: &[] };
        run(form.as_fd(), self.program.r#type, input, 1).expect("it runs")
    }
}
