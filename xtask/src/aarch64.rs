//! Tests for aarch64 on another machine: runs the tests of crates that need no kernel in an emulator, and compiles the
//! kernel half for aarch64 registers.

use std::{env, path::Path, process::Command};

use anyhow::ensure;

use wingbeat_bpf_build::Toolchain;
use xtask::command::{Steps, find_program, repository, without_package};

use crate::setup;

/// From the package that the linker also needs.
pub(crate) const OBJCOPY: &str = "aarch64-linux-gnu-objcopy";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64-static";
/// C library of Debian's cross compiler.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Runs the tests. Builds the standard library from the sources of the eBPF toolchain.
pub(crate) fn run() -> anyhow::Result<()> {
    check_for(&[LINKER, EMULATOR])?;
    let mut steps = Steps::default();
    steps.time("cargo xtask setup", |_| setup::run())?;
    let toolchain = Toolchain::recorded()?;
    let target_dir = repository().join("target/aarch64");
    let mut tests = cargo_for(&toolchain, "test", &target_dir);
    tests.args(["--lib", "-p", "wingbeat-profiler-abi", "-p", "wingbeat-unwind"]);
    let runner = format!("{EMULATOR} -L {LIBRARIES}");
    steps.run(tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner))?;
    let flags = format!("-Clinker={}", toolchain.linker.display());
    let mut kernel_half = cargo(&toolchain);
    kernel_half.args(["check", "-Zbuild-std=core", "--locked", "--release"]);
    kernel_half.args(["--manifest-path", "crates/profiler-ebpf/Cargo.toml"]);
    kernel_half.args(["--target", "bpfel-unknown-none", "--target-dir"]).arg(&target_dir);
    steps.run(kernel_half.env("RUSTFLAGS", flags).env("AYA_BPF_TARGET_ARCH", "aarch64"))?;
    steps.report();
    Ok(())
}

/// A cargo command that builds for aarch64 into a folder. The linker's compiler driver compiles C programs.
fn cargo_for(toolchain: &Toolchain, verb: &str, target_dir: &Path) -> Command {
    let mut cargo = cargo(toolchain);
    cargo.args([verb, "-Zbuild-std=std,panic_abort,test,proc_macro", "--locked"]);
    cargo.args(["--target", TARGET, "--target-dir"]).arg(target_dir);
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    cargo
}

/// The same for programs of guests.
pub(crate) fn cargo_for_guest(verb: &str) -> anyhow::Result<Command> {
    check_for(&[LINKER, OBJCOPY])?;
    Ok(cargo_for(&Toolchain::recorded()?, verb, &repository().join("target/aarch64")))
}

/// The cargo with the sources of the standard library, and its compiler.
fn cargo(toolchain: &Toolchain) -> Command {
    let mut cargo = Command::new(&toolchain.cargo);
    without_package(&mut cargo);
    // Debian's compiler is a stable one that may use -Z; no effect on a nightly.
    cargo.env("RUSTC", &toolchain.rustc).env("RUSTC_BOOTSTRAP", "1");
    cargo
}

/// Fails with installation instructions unless these programs and the libraries exist.
fn check_for(programs: &[&str]) -> anyhow::Result<()> {
    let is_one = env::consts::ARCH == "aarch64";
    ensure!(!is_one, "this machine is one: `cargo xtask test` and `cargo xtask vm` run its tests");
    let is_there = |it: &&str| find_program(it).is_some() || Path::new(it).is_dir();
    let missing: Vec<_> =
        [programs, &[LIBRARIES]].concat().into_iter().filter(|it| !is_there(it)).collect();
    ensure!(
        missing.is_empty(),
        "missing: {}; install gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static (Debian)",
        missing.join(", ")
    );
    Ok(())
}
