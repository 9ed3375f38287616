//! What to do next: a decision over facts, without touching the machine.
//!
//! Set-up is a loop: look at the machine, ask [`next`], do one step, look again. A step that failed
//! closes every way that needs it, so the loop ends: ready, or stuck with a reason for each way.
//!
//! # The order of the ways
//!
//! 1. A compiler that is complete already (`core`'s sources, an LLVM that bpf-linker knows): it
//!    costs least and works without the network.
//! 2. The distribution's packages: compiler and LLVM come from one source and fit each other, and
//!    they can be had wherever the distribution can.
//! 3. A pinned nightly from rustup: a larger download from one more server, and its LLVM has to
//!    come from the distribution all the same.
//!
//! A way that needs no root comes before one that does when we are not root, and one that is known
//! to be open before one for which the package lists must be fetched first.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use wingbeat_ebpf_build::LLVM_MAJORS;

/// The oldest Rust that the kernel halves build with, as for all of wingbeat: "1.95".
const RUST_OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Whether a version such as "1.96.0+dfsg1" or "1.97.0-nightly" is recent enough.
pub(super) fn is_new_enough(version: &str) -> bool {
    minor(version).zip(minor(RUST_OLDEST)).is_some_and(|(found, oldest)| found >= oldest)
}

fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("1.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The bpf-linker that we build.
pub(crate) const LINKER_VERSION: &str = "0.13.0";

/// A nightly that is known to build the kernel halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nightly {
    pub(crate) name: &'static str,
    pub(crate) llvm: u32,
}

/// One nightly for each LLVM, the best known first. There is none with LLVM 21: those are older
/// than the Rust that the kernel halves ask for.
pub(crate) const NIGHTLIES: [Nightly; 2] = [
    Nightly { name: "nightly-2026-05-19", llvm: 22 },
    Nightly { name: "nightly-2026-10-01", llvm: 23 },
];

/// The C++ library that bpf-linker links.
const CXX_PACKAGE: &str = "g++";

/// What was found on the machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    /// Compilers that can build for the kernel, the preferred first.
    pub(crate) compilers: Vec<Compiler>,
    /// LLVMs to build bpf-linker against: major and prefix.
    pub(crate) llvm: BTreeMap<u32, PathBuf>,
    /// LLVM majors for which our bpf-linker is built and runs.
    pub(crate) linkers: BTreeSet<u32>,
    /// Whether the C compiler finds the C++ library.
    pub(crate) cxx: bool,
    /// What the package manager offers; `None` without apt-get.
    pub(crate) apt: Option<Apt>,
    pub(crate) rustup: bool,
    /// Whether packages can be installed: we are root.
    pub(crate) root: bool,
    /// Whether packages can be installed through sudo.
    pub(crate) sudo: bool,
}

/// A rustc with the sources of `core`, and the cargo beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compiler {
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
    /// "1.96.0"
    pub(crate) release: String,
    pub(crate) llvm: u32,
}

/// What apt could install.
#[derive(Debug, Clone, Default)]
pub(crate) struct Apt {
    /// Sets of packages with a Rust that is new enough, the preferred first.
    pub(crate) rusts: Vec<RustPackages>,
    /// Majors of LLVM whose development files are to be had.
    pub(crate) llvm: BTreeSet<u32>,
}

/// Packages that together make a compiler for kernel halves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RustPackages {
    /// rustc, cargo and the sources.
    pub(crate) names: [&'static str; 3],
    pub(crate) llvm: u32,
}

/// One thing to do.
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
        /// Its prefix, the folder above `bin/llvm-config`; empty when it is still to be installed.
        prefix: PathBuf,
    },
    /// Build the runner of the benchmarks that count instructions.
    BuildRunner,
    /// Fetch the npm packages of tests in a browser and with schemas of others.
    FetchNpm,
    /// Fetch the Python packages of tests with clients and readers of other makers.
    FetchPython,
}

impl Step {
    fn needs_root(&self) -> bool {
        matches!(self, Self::AptUpdate | Self::AptInstall(_))
    }
}

/// What happened so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Whether the package lists were fetched, or cannot be.
    pub(crate) lists_fetched: bool,
    /// Steps that succeeded. Asked for again, they did not bring what they promised.
    pub(crate) done: BTreeSet<Step>,
    pub(crate) failed: BTreeSet<Step>,
}

impl History {
    /// Notes how a step ended.
    pub(crate) fn note(&mut self, step: Step, succeeded: bool) {
        if step == Step::AptUpdate {
            self.lists_fetched = true;
            if succeeded {
                // Packages may have failed for want of a fresh list.
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

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is missing: this compiler, with our bpf-linker for its LLVM.
    Ready(Compiler),
    /// Do this and look again.
    Do(Step),
    /// No way is open: each with the reason.
    Stuck(Vec<String>),
}

/// Decides what to do next.
pub(crate) fn next(machine: &Machine, history: &History) -> Next {
    if let Some(ready) = machine.compilers.iter().find(|c| machine.linkers.contains(&c.llvm)) {
        return Next::Ready(ready.clone());
    }
    // The first thought when a package cannot be installed: the lists are stale.
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

/// The facts, with the questions that every way asks of them.
#[derive(Clone, Copy)]
struct View<'a> {
    machine: &'a Machine,
    history: &'a History,
}

/// The steps of an open way, or why it is closed.
type Way = Result<Vec<Step>, String>;

impl View<'_> {
    /// Every way: its place in the order, its name, its steps.
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
        // Last but the linker: what comes before it shows whether the download is worth while.
        let linker = steps.len().saturating_sub(1);
        steps.insert(linker, Step::RustupInstall(nightly.name));
        Ok(steps)
    }

    /// What is still needed for a linker with this LLVM, along with `packages`.
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

    /// Closes a way with a step that failed, or that we may not do.
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
