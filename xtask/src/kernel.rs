//! `cargo xtask kernel`: compiles the profiler's kernel half for users without LLVM.
//!
//! The repository has the objects, one for each architecture whose registers they read. A build uses them as long as
//! the sources are unchanged; `--check` recompiles and compares.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context as _, anyhow, bail, ensure};

use wingbeat_bpf_build::{
    KernelHalf, Purpose, Toolchain, build,
    compiled::{DIGEST, object_name, sources_digest},
    llvm_major,
};
use xtask::{
    command::{captured, find_program, repository},
    folders,
};

use crate::setup;

/// The crate that embeds it. Its build script also names the kernel half.
const CRATE: &str = "crates/profiler";
const HALF: KernelHalf<'_> = KernelHalf {
    dir: "../profiler-ebpf",
    binary: "profile-ebpf",
    features: &[],
    shared: &["../profiler-abi"],
    compiled: Some("kernel-half"),
};
const ARCHES: [&str; 2] = ["x86_64", "aarch64"];
const TARGET: &str = "target/kernel-half";
/// File that records the compiler of the objects.
const COMPILER: &str = "compiler";

/// Writes the objects; with `check` only compares them.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    setup::toolchain()?;
    let toolchain = Toolchain::recorded()?;
    let root = repository().join(CRATE);
    let folder = root.join(HALF.compiled.unwrap_or_default());
    let digest = sources_digest(HALF, &root).context("cannot read the sources")?;
    let digest = format!("{}\n", digest.context("the kernel half is not there")?);
    let compiler = compiler(&toolchain)?;
    let same =
        |name: &str, text: &str| fs::read_to_string(folder.join(name)).is_ok_and(|it| it == text);
    if check && !same(DIGEST, &digest) {
        bail!("the kernel half has changed since its objects were compiled; {REMEDY}");
    }
    if check && !same(COMPILER, &compiler) {
        let before = fs::read_to_string(folder.join(COMPILER)).unwrap_or_default();
        eprintln!("note        not compared: compiled by\n{before}and here is\n{compiler}");
        return Ok(());
    }
    eprintln!("compiling   the kernel half for {}", ARCHES.join(" and "));
    let compile = |arch| compile(&toolchain, &root, arch);
    let built = thread::scope(|scope| {
        let started = ARCHES.map(|arch| (arch, scope.spawn(move || compile(arch))));
        started.map(|(arch, thread)| (arch, thread.join().expect("no panic")))
    });
    let mut differ = Vec::new();
    for (arch, built) in built {
        let built = built?;
        let kept = folder.join(object_name(HALF.binary, arch));
        if !check {
            fs::copy(&built, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
        } else if fs::read(&kept).ok() != fs::read(&built).ok() {
            differ.push(kept.display().to_string());
        }
    }
    // Half a gigabyte each, never reused.
    let _ = fs::remove_dir_all(repository().join(TARGET));
    ensure!(differ.is_empty(), "{} is not what its sources give; {REMEDY}", differ.join(" and "));
    if !check {
        for (name, text) in [(DIGEST, &digest), (COMPILER, &compiler)] {
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        eprintln!("wrote       {}", folder.display());
    }
    Ok(())
}

const REMEDY: &str = "run `cargo xtask kernel` and commit what it writes";

/// The versions in the toolchain that determine the output, without paths.
fn compiler(toolchain: &Toolchain) -> anyhow::Result<String> {
    let rustc = captured(Command::new(&toolchain.rustc).arg("-vV"))?;
    let is_fixed = |line: &&str| !line.starts_with("host") && !line.starts_with("binary");
    let rustc: Vec<_> = rustc.lines().filter(is_fixed).collect();
    let linker = captured(Command::new(&toolchain.linker).arg("-V"))?;
    Ok(format!("{}\n{}\n", rustc.join("\n"), linker.trim()))
}

/// Compiles for an architecture and strips debug information except BTF.
fn compile(toolchain: &Toolchain, root: &Path, arch: &str) -> anyhow::Result<PathBuf> {
    let dir = root.join(HALF.dir);
    let dir = dir.to_str().context("the path of the repository is not UTF-8")?;
    let half = KernelHalf { dir, ..HALF };
    let target = repository().join(TARGET).join(arch);
    folders::fresh(&target)?;
    let built = build(half, toolchain, &target, Purpose::Everywhere { arch });
    let built = built.map_err(|error| anyhow!(error))?;
    for warning in built.warnings {
        eprintln!("warning     {warning}");
    }
    let stripped = target.join("stripped.o");
    // LLVM's: the C compiler's does not support eBPF.
    let major = llvm_major(&toolchain.rustc).context("rustc has no LLVM")?;
    let objcopy = find_program(&format!("llvm-objcopy-{major}"))
        .or_else(|| find_program("llvm-objcopy"))
        .with_context(|| format!("no llvm-objcopy: install the package llvm-{major}"))?;
    captured(Command::new(objcopy).arg("--strip-debug").args([&built.object, &stripped]))?;
    Ok(stripped)
}
