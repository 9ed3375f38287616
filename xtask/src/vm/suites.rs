//! The test programs that load something into the kernel: builds and locates them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::ensure;

use super::architecture::Architecture;
use crate::{
    aarch64,
    test::{self, Artifact, artifacts, build_tests},
};
use xtask::command::{captured, display, repository};

/// A test program to build.
struct Wanted {
    folder: &'static str,
    target: &'static str,
    /// Cargo's name: `lib` for unit tests, `test` for integration tests.
    kind: &'static str,
    /// The module whose tests run; all if empty.
    part: &'static str,
}

impl Wanted {
    fn name(&self) -> String {
        let part = if self.part.is_empty() { self.target } else { self.part };
        test::name(Path::new(self.folder), part)
    }

    /// The test program that has it.
    fn program(&self) -> String {
        test::name(Path::new(self.folder), self.target)
    }
}

const fn within(folder: &'static str, target: &'static str) -> Wanted {
    Wanted { folder, target, kind: "lib", part: "" }
}

const fn beside(folder: &'static str, target: &'static str) -> Wanted {
    part(folder, target, "")
}

const fn part(folder: &'static str, target: &'static str, part: &'static str) -> Wanted {
    Wanted { folder, target, kind: "test", part }
}

const WINGBEAT: &str = "crates/wingbeat";

/// Modules of the test programs of a crate: a run of one of them skips the others.
const PARTS: &[(&str, &[&str])] = &[
    (WINGBEAT, &["agent", "bench", "heap", "live", "off_cpu", "profile"]),
    ("crates/bpf-bench", &["kernel", "report"]),
    ("crates/bpf-loader", &["loader", "spec"]),
];

/// Only these go into the guest, because pure tests give the same result on every kernel. The quick ones come first, to
/// show general failures early.
const WANTED: &[Wanted] = &[
    within("crates/bpf-loader", "wingbeat_bpf_loader"),
    part("crates/bpf-loader", "all", "loader"),
    within("crates/profiler", "wingbeat_profiler"),
    part("crates/bpf-bench", "all", "kernel"),
    beside("examples/fun-xdp/fun-xdp", "fun_xdp"),
    beside("examples/profiler/profiler", "profiler"),
    part(WINGBEAT, "programs", "bench"),
    part(WINGBEAT, "programs", "live"),
    part(WINGBEAT, "recordings", "profile"),
    part(WINGBEAT, "recordings", "off_cpu"),
    part(WINGBEAT, "recordings", "heap"),
];

/// Names of the test programs that have them.
pub(crate) fn kernel_programs() -> impl Iterator<Item = String> {
    WANTED.iter().map(Wanted::program)
}

/// Tests that take long under emulation and find nothing specific to a kernel: suite and test.
const TOO_LONG: &[(&str, &str)] = &[
    // A million instructions through the verifier, with its log.
    ("bpf-loader/loader", "verifier::instructions_over_all_paths"),
    // The kernel-dependent part is the tracing of calls, which every test in `exact` covers.
    ("wingbeat/heap", "pages::a_"),
    ("wingbeat/heap", "pages::memory_"),
    ("wingbeat/heap", "pages::the_"),
    ("wingbeat/heap", "running::"),
    ("wingbeat/heap", "viewer::"),
    // Flags, files and downloads are the same on every kernel.
    ("wingbeat/bench", "bad_input::"),
    // Guests have no clang.
    ("wingbeat/bench", "against::figures_that"),
    ("wingbeat/off_cpu", "failures::one_file"),
    ("wingbeat/off_cpu", "files::"),
    ("wingbeat/profile", "debuginfod::"),
    ("wingbeat/profile", "failures::outputs"),
    ("wingbeat/profile", "failures::targets"),
    ("wingbeat/profile", "failures::two_outputs"),
    ("wingbeat/profile", "failures::flags"),
    ("wingbeat/profile", "files::"),
    // A command that takes no time takes a tenth of a second.
    ("wingbeat/profile", "failures::a_sleeper"),
    // Guests have neither cargo nor compilers, nor all tools for object files.
    ("bpf-bench/kernel", "compiled::"),
    ("bpf-bench/kernel", "feeding::"),
    ("bpf-bench/kernel", "stateful::"),
    ("wingbeat/heap", "ways_out::each"),
    ("wingbeat/profile", "foreign::"),
    ("wingbeat/profile", "own_crate::"),
];

/// Tests of a suite skipped under emulation.
pub(super) fn too_long(suite: &str) -> impl Iterator<Item = &'static str> {
    TOO_LONG.iter().filter(move |(of, _)| *of == suite).map(|(_, test)| *test)
}

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suite {
    /// For display, `wingbeat/profile`.
    pub(super) name: String,
    /// Its working directory.
    pub(super) folder: PathBuf,
    pub(super) program: PathBuf,
    /// The module whose tests run; all if empty.
    pub(super) part: &'static str,
}

impl Suite {
    /// Prefixes of tests that are not its own.
    pub(super) fn others(&self) -> Vec<String> {
        let of_crate = PARTS.iter().filter(|(folder, _)| self.folder.ends_with(folder));
        let parts = of_crate.flat_map(|(_, parts)| *parts);
        let others = parts.filter(|part| !self.part.is_empty() && **part != self.part);
        others.map(|part| format!("{part}::")).collect()
    }
}

/// The built files.
#[derive(Debug, Clone, Default)]
pub(super) struct Suites {
    /// The tests, in execution order.
    pub(super) tests: Vec<Suite>,
    /// Programs that tests start: ours, and the examples' targets.
    pub(super) programs: Vec<PathBuf>,
    /// Optimized replacements of some of these programs in the guest.
    pub(super) optimized: BTreeMap<PathBuf, PathBuf>,
    /// Kernel objects built by build scripts.
    pub(super) objects: Vec<PathBuf>,
}

impl Suites {
    /// Replaces programs with optimized ones of the same names.
    fn replace(&mut self, optimized: &[PathBuf]) {
        for program in &self.programs {
            let is_same = |other: &&PathBuf| other.file_name() == program.file_name();
            let found = optimized.iter().find(is_same).cloned();
            self.optimized.extend(found.map(|better| (program.clone(), better)));
        }
    }

    /// Our binary.
    pub(super) fn wingbeat(&self) -> Option<&Path> {
        self.programs.iter().find(|program| program.ends_with("wingbeat")).map(PathBuf::as_path)
    }

    /// The Rust program for tests that cannot compile it.
    pub(super) fn plain(&self) -> Option<&Path> {
        self.programs.iter().find(|program| program.ends_with(PLAIN)).map(PathBuf::as_path)
    }

    /// Only the smoke list.
    pub(super) fn smoke(mut self) -> Self {
        self.tests.retain(|suite| !smoke(&suite.name).is_empty());
        self
    }

    /// The tests after the one with this name; none if there is no such test.
    pub(super) fn behind(&self, name: &str) -> Self {
        let at = self.tests.iter().position(|suite| suite.name == name);
        let tests = at.map_or_else(Vec::new, |at| self.tests[at + 1..].to_vec());
        Self { tests, ..self.clone() }
    }

    /// Those whose names contain a text; an error if there is none.
    pub(super) fn named(self, part: &str) -> anyhow::Result<Self> {
        let all: Vec<_> = self.tests.iter().map(|suite| suite.name.clone()).collect();
        let is_named = |suite: &Suite| suite.name.contains(part);
        let tests: Vec<_> = self.tests.into_iter().filter(is_named).collect();
        ensure!(
            !tests.is_empty(),
            "no test program is called {part}; there are {}",
            all.join(", ")
        );
        Ok(Self { tests, ..self })
    }
}

/// Tests that each change runs on other kernels too: programs, and those of their tests that record once with each kind
/// of kernel program. [`super::guest::records`] has already shown that all programs load.
const SMOKE: &[(&str, &[&str])] = &[
    ("bpf-loader/loader", &["objects::"]),
    (
        "bpf-bench/kernel",
        &["alternate::the_order_is_kept", "generated::a_program_that_writes_its_packet"],
    ),
    ("wingbeat/live", &["measure::every_packet_is_counted"]),
    (
        "wingbeat/profile",
        &[
            "stacks::the_caller_of_a_function_without_a_frame_is_there",
            "unwind::a_program_without_frame_pointers_is_whole",
        ],
    ),
    ("wingbeat/off_cpu", &["sleeps::a_hundred_naps_are_counted_and_timed"]),
    ("wingbeat/heap", &["exact::each_function_of_the_allocator"]),
];

/// The tests of a suite on the smoke list; empty if there are none.
pub(super) fn smoke(suite: &str) -> &'static [&'static str] {
    SMOKE.iter().find(|(name, _)| *name == suite).map_or(&[], |(_, tests)| *tests)
}

/// Tests built for a guest of another processor: those that depend on it, in groups for one cargo call each.
const ELSEWHERE: &[&[&str]] =
    &[&["-p", "wingbeat-profiler", "--lib"], &["-p", "wingbeat", "--test", "recordings"]];

/// A Rust program, as built by a plain `cargo build --release`, for tests in a guest without a compiler.
const PLAIN: &str = "work-plain";
const PLAIN_MANIFEST: &str = "crates/wingbeat/tests/recordings/profile/plain/Cargo.toml";

/// Builds them like `cargo xtask test`.
pub(super) fn build(architecture: &Architecture) -> anyhow::Result<Suites> {
    if architecture.is_native() { build_all() } else { build_elsewhere() }
}

fn build_elsewhere() -> anyhow::Result<Suites> {
    let built = |verb: &str, arguments: &[&str], plain: bool| {
        let mut command = aarch64::cargo_for_guest(verb)?;
        command.args(["--message-format", "json-render-diagnostics"]).args(arguments);
        if plain {
            command.env("RUSTFLAGS", "").arg("--release");
        }
        eprintln!("==> {}", display(&command));
        captured(&mut command)
    };
    let mut messages = String::new();
    for group in ELSEWHERE {
        messages += &built("test", &[&["--no-run"], *group].concat(), false)?;
    }
    let mut suites = gathered(artifacts(&messages));
    let optimized = gathered(artifacts(&built("build", &["--release", "-p", "wingbeat"], false)?));
    suites.replace(&optimized.programs);
    let plain = built("build", &["--manifest-path", PLAIN_MANIFEST], true)?;
    let plain = gathered(artifacts(&plain));
    suites.programs.extend(plain.programs);
    Ok(suites)
}

fn build_all() -> anyhow::Result<Suites> {
    let beside = WANTED.iter().filter(|wanted| wanted.kind == "test");
    let names: BTreeSet<_> = beside.map(|wanted| wanted.target).collect();
    let beside = names.iter().flat_map(|name| ["--test", name]);
    let suites = gathered(build_tests(["--lib"].into_iter().chain(beside))?);
    let missing =
        WANTED.iter().filter(|wanted| suites.tests.iter().all(|it| it.name != wanted.name()));
    let missing: Vec<_> = missing.map(Wanted::name).collect();
    ensure!(
        missing.is_empty(),
        "cargo built no {}: correct the list in xtask/src/vm/suites.rs",
        missing.join(", ")
    );
    Ok(suites)
}

fn gathered(built: Vec<Artifact>) -> Suites {
    let mut suites = Suites::default();
    let is_program = |it: &&Artifact| it.kind == "bin" && !it.is_test;
    suites.programs = built.iter().filter(is_program).map(|it| it.program.clone()).collect();
    suites.objects = suites.programs.first().map_or_else(Vec::new, |program| objects(program));
    for wanted in WANTED {
        let at = repository().join(wanted.folder);
        let is_it = |it: &&Artifact| {
            it.folder == at && it.target == wanted.target && it.kind == wanted.kind
        };
        suites.tests.extend(built.iter().filter(is_it).map(|it| Suite {
            name: wanted.name(),
            folder: it.folder.clone(),
            program: it.program.clone(),
            part: wanted.part,
        }));
    }
    suites
}

/// Kernel halves, in the folder where the build scripts of all packages put them.
fn objects(program: &Path) -> Vec<PathBuf> {
    let target = program.ancestors().nth(2).unwrap_or(program);
    let halves = target.join("ebpf/bpfel-unknown-none/release");
    let names = ["fun-xdp", "fun-xdp-log", "profiler-ebpf"];
    names.map(|name| halves.join(name)).into_iter().filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_tests_are_found_in_their_order() {
        let root = repository();
        let artifact = |package: &str, name: &str, kind: &str, is_test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{}/{package}/Cargo.toml",
                "target":{{"name":"{name}","kind":["{kind}"]}},"profile":{{"test":{is_test}}},
                "executable":"/t/debug/{kind}-{name}"}}"#,
                root.display()
            )
            .replace('\n', " ")
        };
        let messages = [
            artifact("crates/wingbeat", "programs", "test", true),
            artifact("crates/wingbeat", "wingbeat", "bin", false),
            artifact("crates/wingbeat", "wingbeat", "bin", true),
            artifact("crates/wingbeat", "run", "test", true),
            artifact("crates/bpf-loader", "all", "test", true),
            artifact("examples/fun-xdp/fun-xdp", "fun_xdp", "lib", true),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let suites = gathered(artifacts(&messages.join("\n")));
        let names: Vec<_> = suites.tests.iter().map(|suite| suite.name.as_str()).collect();
        assert_eq!(names, ["bpf-loader/loader", "wingbeat/bench", "wingbeat/live"]);
        assert_eq!(suites.tests[0].others(), ["spec::"]);
        let others = suites.tests[1].others();
        assert!(others.contains(&"live::".to_owned()) && !others.contains(&"bench::".to_owned()));
        assert_eq!(suites.tests[0].folder, root.join("crates/bpf-loader"));
        let behind = |name| suites.behind(name).tests.len();
        assert_eq!(
            [behind("bpf-loader/loader"), behind("wingbeat/live"), behind("command")],
            [2, 0, 0]
        );
        assert_eq!(suites.programs, [Path::new("/t/debug/bin-wingbeat")]);
    }

    #[test]
    fn exceptions_name_suites_that_there_are() {
        let smoke =
            SMOKE.iter().flat_map(|(suite, tests)| tests.iter().map(move |test| (suite, test)));
        for (suite, test) in TOO_LONG.iter().map(|(suite, test)| (suite, test)).chain(smoke) {
            let is_there = WANTED.iter().any(|wanted| wanted.name() == *suite);
            assert!(is_there, "{suite} of {test}");
        }
    }
}
