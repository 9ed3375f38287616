//! What of wingbeat is tested for aarch64 on another machine: the tests of the crates that need no kernel
//! run in an emulator, and the kernel half is compiled for that machine's registers.

use std::{
    env,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::bail;

use crate::setup;
use wingbeat_ebpf_build::Toolchain;
use wingbeat_steps::{
    command::{find_program, repository, without_package},
    steps::Steps,
};

const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64-static";
/// Where Debian's cross compiler has the C library of that machine.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Runs the tests. The standard library is built from the sources that the eBPF toolchain has.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    if let Some(reason) = obstacle() {
        bail!("{reason}");
    }
    let mut steps = Steps::default();
    steps.time("cargo xtask setup", |_| setup::run())?;
    let toolchain = Toolchain::recorded()?;
    let target_dir = repository().join("target/aarch64");
    let mut tests = cargo(&toolchain);
    tests.args(["test", "-Zbuild-std=std,panic_abort,test,proc_macro", "--locked", "--lib"]);
    tests.args(["-p", "wingbeat-profile-common", "-p", "wingbeat-unwind", "--target", TARGET]);
    tests.arg("--target-dir").arg(&target_dir);
    tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    let runner = format!("{EMULATOR} -L {LIBRARIES}");
    steps.run(tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner))?;
    let flags = format!("-Clinker={}", toolchain.linker.display());
    let mut kernel_half = cargo(&toolchain);
    kernel_half.args(["check", "-Zbuild-std=core", "--locked", "--release"]);
    kernel_half.args(["--manifest-path", "crates/profile/ebpf/Cargo.toml"]);
    kernel_half.args(["--target", "bpfel-unknown-none", "--target-dir"]).arg(&target_dir);
    steps.run(kernel_half.env("RUSTFLAGS", flags).env("AYA_BPF_TARGET_ARCH", "aarch64"))?;
    steps.report();
    Ok(ExitCode::SUCCESS)
}

/// The cargo that has the sources of the standard library, with its own compiler.
fn cargo(toolchain: &Toolchain) -> Command {
    let mut cargo = Command::new(&toolchain.cargo);
    without_package(&mut cargo);
    // Debian's compiler is a stable one that may use -Z; for a nightly it changes nothing.
    cargo.env("RUSTC", &toolchain.rustc).env("RUSTC_BOOTSTRAP", "1");
    cargo
}

fn obstacle() -> Option<String> {
    if env::consts::ARCH == "aarch64" {
        return Some("this machine is one: `cargo xtask test` runs them".to_owned());
    }
    let missing = [LINKER, EMULATOR].into_iter().find(|program| find_program(program).is_none());
    let missing = missing.or_else(|| (!Path::new(LIBRARIES).is_dir()).then_some(LIBRARIES))?;
    Some(format!(
        "{missing} is missing: install gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and \
         qemu-user-static (Debian)"
    ))
}
