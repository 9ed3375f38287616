//! Decides the next step from facts, without touching the machine.
//!
//! Setup is a loop: probe the machine, ask [`next`], perform one step, repeat. A failed step rules out every option
//! that needs it, so the loop terminates: ready, or stuck with a reason per option.
//!
//! # Order of the options
//!
//! 1. A complete compiler (`core`'s sources, an LLVM that bpf-linker supports): cheapest, and works offline.
//! 2. The distribution's packages: compiler and LLVM have the same source and match, and are available wherever the
//!    distribution is.
//! 3. A pinned nightly from rustup: a larger download from another server, and its LLVM still has to come from the
//!    distribution.
//!
//! Without root, options that do not need it come first. Options known to be possible come before those that require
//! fetching package lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use wingbeat_bpf_build::LLVM_MAJORS;

/// Oldest Rust that builds the kernel halves, like all of wingbeat: "1.95".
const RUST_OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Whether a version such as "1.96.0+dfsg1" or "1.97.0-nightly" is recent enough.
pub(super) fn is_new_enough(version: &str) -> bool {
    minor(version).zip(minor(RUST_OLDEST)).is_some_and(|(found, oldest)| found >= oldest)
}

fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("1.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The bpf-linker version to build.
pub(crate) const LINKER_VERSION: &str = "0.13.0";

/// A nightly known to build the kernel halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nightly {
    pub(crate) name: &'static str,
    pub(crate) llvm: u32,
}

/// One nightly for each LLVM, the best tested first. None has LLVM 21: those are older than the Rust that the kernel
/// halves require.
pub(crate) const NIGHTLIES: [Nightly; 2] = [
    Nightly { name: "nightly-2026-05-19", llvm: 22 },
    Nightly { name: "nightly-2026-10-01", llvm: 23 },
];

/// The C++ library that bpf-linker links.
const CXX_PACKAGE: &str = "g++";

/// Facts about the machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    /// Compilers that can build for the kernel, in order of preference.
    pub(crate) compilers: Vec<Compiler>,
    /// LLVMs to build bpf-linker against: major and prefix.
    pub(crate) llvm: BTreeMap<u32, PathBuf>,
    /// LLVM majors with a working build of our bpf-linker.
    pub(crate) linkers: BTreeSet<u32>,
    /// Whether the C compiler finds the C++ library.
    pub(crate) cxx: bool,
    /// Packages on offer; `None` without apt-get.
    pub(crate) apt: Option<Apt>,
    pub(crate) rustup: bool,
    /// Whether packages can be installed as root.
    pub(crate) root: bool,
    /// Whether packages can be installed through sudo.
    pub(crate) sudo: bool,
}

/// A rustc with the sources of `core`, and its cargo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compiler {
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
    /// "1.96.0"
    pub(crate) release: String,
    pub(crate) llvm: u32,
}

/// Packages that apt offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Apt {
    /// Package sets with a recent enough Rust, in order of preference.
    pub(crate) rusts: Vec<RustPackages>,
    /// LLVM majors with available development files.
    pub(crate) llvm: BTreeSet<u32>,
}

/// Packages that together form a compiler for kernel halves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RustPackages {
    /// rustc, cargo and the sources.
    pub(crate) names: [&'static str; 3],
    pub(crate) llvm: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Fetch the package lists.
    AptUpdate,
    AptInstall(Vec<String>),
    /// Install a nightly with the sources of `core`.
    RustupInstall(&'static str),
    /// Build bpf-linker against the LLVM at this prefix.
    BuildLinker {
        llvm: u32,
        /// Its prefix, the folder above `bin/llvm-config`; empty if not installed yet.
        prefix: PathBuf,
    },
    /// Build the runner of the instruction-counting benchmarks.
    BuildRunner,
    /// Fetch the npm packages of tests with a browser and with third-party schemas.
    FetchNpm,
    /// Fetch the Python packages of tests with third-party clients and readers.
    FetchPython,
}

impl Step {
    fn needs_root(&self) -> bool {
        matches!(self, Self::AptUpdate | Self::AptInstall(_))
    }
}

/// Steps taken so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Whether the package lists were fetched, or cannot be.
    pub(crate) lists_fetched: bool,
    /// Successful steps. If still needed, they did not help.
    pub(crate) done: BTreeSet<Step>,
    pub(crate) failed: BTreeSet<Step>,
}

impl History {
    /// Records the outcome of a step.
    pub(crate) fn note(&mut self, step: Step, succeeded: bool) {
        if step == Step::AptUpdate {
            self.lists_fetched = true;
            if succeeded {
                // Packages may have failed because of stale lists.
                self.failed.retain(|step| !step.needs_root());
            }
        }
        if succeeded {
            self.done.insert(step);
        } else {
            self.failed.insert(step);
        }
    }
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is missing: this compiler, with our bpf-linker for its LLVM.
    Ready(Compiler),
    /// Perform this step, then probe again.
    Do(Step),
    /// No option is left; the reason for each.
    Stuck(Vec<String>),
}

/// Decides the next step.
pub(crate) fn next(machine: &Machine, history: &History) -> Next {
    if let Some(ready) = machine.compilers.iter().find(|c| machine.linkers.contains(&c.llvm)) {
        return Next::Ready(ready.clone());
    }
    // A failed package installation suggests stale lists.
    if !history.lists_fetched && history.failed.iter().any(Step::needs_root) {
        return Next::Do(Step::AptUpdate);
    }
    let view = View { machine, history };
    let mut open = Vec::new();
    let mut closed = Vec::new();
    for (order, way, steps) in view.ways() {
        match steps.and_then(|steps| view.allowed(steps)) {
            Ok(steps) => open.push((order, steps)),
            Err(reason) => closed.push(format!("{way}: {reason}")),
        }
    }
    let best = open.into_iter().min_by_key(|(order, steps)| {
        let lacks_rights = !machine.root && steps.iter().any(Step::needs_root);
        (lacks_rights, steps.contains(&Step::AptUpdate), *order, steps.len())
    });
    match best.and_then(|(_, steps)| steps.into_iter().next()) {
        Some(step) => Next::Do(step),
        None => Next::Stuck(closed),
    }
}

/// The facts, with queries that all options share.
#[derive(Clone, Copy)]
struct View<'a> {
    machine: &'a Machine,
    history: &'a History,
}

/// The steps of an option, or why it is ruled out.
type Way = Result<Vec<Step>, String>;

impl View<'_> {
    /// Every option: its rank, name and steps.
    fn ways(self) -> impl Iterator<Item = (u8, String, Way)> {
        let existing = self.machine.compilers.iter().map(move |compiler| {
            let name = format!("the Rust at {}", compiler.rustc.display());
            (0, name, self.for_llvm(compiler.llvm, Vec::new()))
        });
        let distribution = (1, "the distribution's Rust".to_owned(), self.distribution());
        let rustup = NIGHTLIES
            .iter()
            .map(move |nightly| (2, format!("rustup with {}", nightly.name), self.rustup(nightly)));
        existing.chain([distribution]).chain(rustup)
    }

    fn distribution(self) -> Way {
        let Some(apt) = &self.machine.apt else {
            return Err("there is no apt-get, and other package managers are not known".into());
        };
        match apt.rusts.first() {
            Some(rust) => self.for_llvm(rust.llvm, rust.names.map(String::from).to_vec()),
            None if !self.history.lists_fetched => Ok(vec![Step::AptUpdate]),
            None => Err("apt has no Rust that is new enough (as rustc-web or rustc)".into()),
        }
    }

    fn rustup(self, nightly: &Nightly) -> Way {
        if !self.machine.rustup {
            return Err("there is no rustup".into());
        }
        let mut steps = self.for_llvm(nightly.llvm, Vec::new())?;
        // Just before the linker: earlier steps show whether the download is worthwhile.
        let linker = steps.len().saturating_sub(1);
        steps.insert(linker, Step::RustupInstall(nightly.name));
        Ok(steps)
    }

    /// Missing steps for a linker with this LLVM, along with `packages`.
    fn for_llvm(self, llvm: u32, mut packages: Vec<String>) -> Way {
        if !LLVM_MAJORS.contains(&llvm) {
            return Err(format!("bpf-linker {LINKER_VERSION} does not know its LLVM {llvm}"));
        }
        let linker_built = self.machine.linkers.contains(&llvm);
        let prefix = self.machine.llvm.get(&llvm);
        if !linker_built && prefix.is_none() {
            packages.push(format!("llvm-{llvm}-dev"));
        }
        if !linker_built && !self.machine.cxx {
            packages.push(CXX_PACKAGE.into());
        }
        let mut steps = Vec::new();
        if !packages.is_empty() {
            let Some(apt) = &self.machine.apt else {
                return Err(format!(
                    "there is no apt-get to install what is missing ({})",
                    packages.join(", ")
                ));
            };
            if !linker_built && prefix.is_none() && !apt.llvm.contains(&llvm) {
                if self.history.lists_fetched {
                    return Err(format!("apt has no llvm-{llvm}-dev"));
                }
                return Ok(vec![Step::AptUpdate]);
            }
            steps.push(Step::AptInstall(packages));
        }
        if !linker_built {
            let prefix = prefix.cloned().unwrap_or_default();
            steps.push(Step::BuildLinker { llvm, prefix });
        }
        Ok(steps)
    }

    /// Rules out an option with a failed or forbidden step.
    fn allowed(self, steps: Vec<Step>) -> Way {
        let Machine { root, sudo, .. } = self.machine;
        for step in &steps {
            if self.history.failed.contains(step) {
                return Err("a step of it failed, see above".into());
            }
            if self.history.done.contains(step) {
                return Err("what was installed for it is not found where it should be".into());
            }
            if step.needs_root() && !root && !sudo {
                let packages = match step {
                    Step::AptInstall(names) => format!("install {}", names.join(" ")),
                    _ => "update".into(),
                };
                return Err(format!(
                    "needs root; as root, run `apt-get {packages}`, then this again"
                ));
            }
        }
        Ok(steps)
    }
}
