//! `cargo xtask setup`: installs missing dependencies of kernel-half builds, tests and benchmarks.
//!
//! Decisions ([`plan`], [`tools`]) are separate from probes ([`probe`], [`apt`]) and actions ([`perform`]). As long as
//! the recorded toolchain works, no other is searched for.

mod apt;
mod perform;
mod plan;
#[cfg(test)]
mod plan_tests;
mod probe;
mod tools;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, anyhow};
use rustix::fs::{FlockOperation, flock};
use wingbeat_bpf_build::Toolchain;

use self::{
    plan::{Compiler, History, LINKER_VERSION, Machine, Next, Step},
    tools::{Found, RUNNER_VERSION, TOOLS},
};
pub(crate) use self::{probe::runner, tools::Tool};
use wingbeat_steps::command::find_program;

/// Installs everything missing; prints what it finds or installs.
pub(crate) fn run() -> anyhow::Result<()> {
    // Continues in the same log if one was started.
    let has_begun = toolchain()?;
    say_tools(&install(!has_begun, probe::tools)?);
    Ok(())
}

/// Installs missing parts of the toolchain and records it. Returns whether anything was missing.
pub(crate) fn toolchain() -> anyhow::Result<bool> {
    if let Some((compiler, toolchain)) = probe::recorded() {
        say_found(&compiler, &toolchain.linker);
        return Ok(false);
    }
    let (log, _lock) = begin(true)?;
    install_toolchain(&log)?;
    Ok(true)
}

/// Installs what a probe reports missing; returns the final state.
fn install(new_log: bool, look: impl Fn() -> Found) -> anyhow::Result<Found> {
    let mut found = look();
    if !found.is_complete() {
        let (log, _lock) = begin(new_log)?;
        let mut history = History::default();
        // Probes again: another setup may have held the lock until now.
        found = look();
        while let Some(step) = tools::next(&found, &history) {
            take(step, &mut history, &log);
            found = look();
        }
    }
    Ok(found)
}

/// Installs missing programs of a single task; an error if one is unavailable.
pub(crate) fn programs(needed: &[Tool]) -> anyhow::Result<()> {
    let found = install(true, || probe::programs(needed))?;
    match tools::losses(&found).as_slice() {
        [] => Ok(()),
        losses => Err(anyhow!("missing: {}", losses.join("\nmissing: "))),
    }
}

/// Updates the package lists; a failure is only reported.
pub(crate) fn package_lists() -> anyhow::Result<()> {
    let (log, _lock) = begin(true)?;
    take(Step::AptUpdate, &mut History::default(), &log);
    Ok(())
}

/// Before any installation: opens the log, and takes the lock.
fn begin(new_log: bool) -> anyhow::Result<(PathBuf, File)> {
    let cache = Toolchain::cache_dir();
    fs::create_dir_all(&cache).with_context(|| {
        format!(
            "cannot create {}; set XDG_CACHE_HOME to a folder that you may write to",
            cache.display()
        )
    })?;
    let lock = lock(&cache.join("setup.lock"))?;
    let log = cache.join("setup.log");
    if new_log {
        File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    }
    Ok((log, lock))
}

/// One setup at a time: clones share the cache.
fn lock(path: &Path) -> anyhow::Result<File> {
    let context = || format!("cannot lock {}", path.display());
    let file = File::create(path).with_context(context)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        say("waiting", "for another `cargo xtask setup`");
        flock(&file, FlockOperation::LockExclusive).with_context(context)?;
    }
    Ok(file)
}

fn install_toolchain(log: &Path) -> anyhow::Result<()> {
    let cargo_before = find_program("cargo");
    let mut history = History::default();
    let mut machine = probe::machine();
    say_parts(&machine);
    loop {
        let step = match plan::next(&machine, &history) {
            Next::Ready(compiler) => {
                record(&compiler)?;
                say_path_change(cargo_before.as_deref());
                return Ok(());
            }
            Next::Stuck(obstacles) => return Err(stuck(&obstacles, log)),
            Next::Do(step) => step,
        };
        take(step, &mut history, log);
        machine = probe::machine();
    }
}

/// Performs a step, and records and prints its outcome.
fn take(step: Step, history: &mut History, log: &Path) {
    say("installing", &perform::describe(&step));
    let start = Instant::now();
    let outcome = perform::perform(&step, log);
    match &outcome {
        Ok(()) => say("installed", &format!("in {:.1} s", start.elapsed().as_secs_f64())),
        Err(failure) => say("failed", &failure.to_string()),
    }
    history.note(step, outcome.is_ok());
}

fn record(compiler: &Compiler) -> anyhow::Result<()> {
    let Compiler { cargo, rustc, llvm, .. } = compiler.clone();
    let linker = probe::linker(llvm);
    say_found(compiler, &linker);
    Toolchain { cargo, rustc, linker }
        .record()
        .with_context(|| format!("cannot write {}", Toolchain::record_path().display()))?;
    say("recorded", &Toolchain::record_path().display().to_string());
    Ok(())
}

/// Prints one line with an action and its object to stderr.
fn say(verb: &str, what: &str) {
    eprintln!("{verb:<11} {what}");
}

fn say_found(compiler: &Compiler, linker: &Path) {
    let Compiler { cargo, rustc, release, llvm } = compiler;
    say("found", &format!("rustc {release} (LLVM {llvm}, sources of core): {}", rustc.display()));
    say("found", &format!("cargo: {}", cargo.display()));
    say("found", &format!("bpf-linker {LINKER_VERSION} for LLVM {llvm}: {}", linker.display()));
}

fn say_tools(found: &Found) {
    for tool in TOOLS {
        if let Some(path) = find_program(tool.name) {
            say("found", &format!("{}: {}", tool.name, path.display()));
        }
    }
    if found.runner {
        let runner = runner();
        say("found", &format!("gungraun-runner {RUNNER_VERSION}: {}", runner.display()));
    }
    for loss in tools::losses(found) {
        say("missing", &loss);
    }
}

/// Prints what exists before any installation.
fn say_parts(machine: &Machine) {
    for Compiler { rustc, release, llvm, .. } in &machine.compilers {
        say("found", &format!("rustc {release} with LLVM {llvm}: {}", rustc.display()));
    }
    for (major, prefix) in &machine.llvm {
        say("found", &format!("LLVM {major} to link with: {}", prefix.display()));
    }
    if machine.cxx {
        say("found", "the C++ library");
    }
}

/// The distribution's cargo may precede rustup's in `PATH`, and lacks rustfmt and clippy.
fn say_path_change(cargo_before: Option<&Path>) {
    let now = find_program("cargo");
    let same = |a: &Path, b: &Path| fs::canonicalize(a).ok() == fs::canonicalize(b).ok();
    if let (Some(before), Some(now)) = (cargo_before, &now)
        && !same(before, now)
    {
        say(
            "note",
            &format!(
                "`cargo` now means {}, no longer {}; if you want the latter, put its folder first \
                 in PATH",
                now.display(),
                before.display()
            ),
        );
    }
}

fn stuck(obstacles: &[String], log: &Path) -> anyhow::Error {
    let mut text = String::from("no way to an eBPF toolchain is open on this machine:\n");
    for obstacle in obstacles {
        text += &format!("  {obstacle}\n");
    }
    let nightly = plan::NIGHTLIES[0];
    text += &format!(
        "Mend what the failed command complains of, if one did, or see to it by other means that \
         these are there; then run `cargo xtask setup` again:\n  \
         1. `rustup toolchain install {} --profile minimal --component rust-src`,\n     \
         or the Debian packages rustc-web, cargo-web and rust-web-src;\n  \
         2. LLVM {} with its development files: llvm-{}-dev of Debian, Ubuntu or\n     \
         https://apt.llvm.org; elsewhere set LLVM_PREFIX to the folder above bin/llvm-config;\n  \
         3. the C++ library: g++ or libstdc++-N-dev.\n\
         The output of every command is in {}",
        nightly.name,
        nightly.llvm,
        nightly.llvm,
        log.display()
    );
    anyhow!(text)
}
