//! Performs one step of setup.

use std::{fs, path::Path, process::Command};

use wingbeat_bpf_build::Toolchain;

use super::{
    plan::{LINKER_VERSION, Step},
    probe::{has_npm, linker_root, runner_root, runs},
    tools::{NPM_FOLDERS, PYTHON_FOLDER, RUNNER_VERSION},
};
use wingbeat_steps::{
    command::{Failure, Rights, cargo, repository, run_logged},
    folders,
};

/// What a step installs, for its announcement.
pub(super) fn describe(step: &Step) -> String {
    match step {
        Step::AptUpdate => "the package lists of apt".into(),
        Step::AptInstall(names) => format!("Debian packages {}", names.join(" ")),
        Step::RustupInstall(name) => format!("Rust {name} with the sources of core, by rustup"),
        Step::BuildLinker { llvm, .. } => {
            format!(
                "bpf-linker {LINKER_VERSION} for LLVM {llvm} (built from source, a minute or two)"
            )
        }
        Step::BuildRunner => {
            format!("gungraun-runner {RUNNER_VERSION} (built from source, a minute or two)")
        }
        Step::FetchNpm => format!("npm packages of {}", NPM_FOLDERS.join(" and ")),
        Step::FetchPython => format!("Python packages of {PYTHON_FOLDER}"),
    }
}

/// Performs a step; its commands' output goes to the log.
pub(super) fn perform(step: &Step, log: &Path) -> Result<(), Failure> {
    match step {
        Step::AptUpdate => run_logged(apt_get().arg("update"), log),
        Step::AptInstall(names) => {
            // Never removes another package, such as Debian's own rustc, without being asked. Fresh cloud machines hold
            // the lock while they upgrade.
            let options = ["--no-install-recommends", "--no-remove", "-oDPkg::Lock::Timeout=300"];
            run_logged(apt_get().args(["install", "-y"]).args(options).args(names), log)
        }
        Step::RustupInstall(name) => {
            let options = ["--profile", "minimal", "--component", "rust-src", "--no-self-update"];
            let mut command = Command::new("rustup");
            run_logged(command.args(["toolchain", "install", name]).args(options), log)
        }
        Step::BuildLinker { llvm, prefix } => build(
            cargo_install("bpf-linker", LINKER_VERSION)
                .args(["--no-default-features", "--features", &format!("llvm-{llvm}")])
                .env("LLVM_PREFIX", prefix),
            "bpf-linker",
            &linker_root(*llvm),
            log,
        ),
        Step::BuildRunner => build(
            // It parses Valgrind's output and mostly waits: halving the build time matters more than speed.
            cargo_install("gungraun-runner", RUNNER_VERSION)
                .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
            "gungraun-runner",
            &runner_root(),
            log,
        ),
        Step::FetchNpm => {
            NPM_FOLDERS.iter().filter(|folder| !has_npm(folder)).try_for_each(|folder| {
                // Runs no install scripts, so that none downloads a browser.
                let mut npm = Command::new("npm");
                npm.args(["ci", "--ignore-scripts", "--omit=peer", "--no-audit", "--no-fund"]);
                let folder = repository().join(folder);
                run_logged(npm.current_dir(&folder), log)?;
                // Records the installed versions.
                let mut copy = Command::new("cp");
                run_logged(
                    copy.args(["package-lock.json", "node_modules"]).current_dir(folder),
                    log,
                )
            })
        }
        Step::FetchPython => {
            // Into a separate folder that no other program uses.
            let mut pip = Command::new("pip3");
            pip.args(["install", "--disable-pip-version-check", "--no-input", "--upgrade"]);
            pip.args(["--only-binary", ":all:", "--target", ".packages", "-r", "requirements.txt"]);
            let folder = repository().join(PYTHON_FOLDER);
            run_logged(pip.current_dir(&folder), log)?;
            // Records the installed versions.
            let mut copy = Command::new("cp");
            run_logged(copy.args(["requirements.txt", ".packages"]).current_dir(folder), log)
        }
    }
}

fn apt_get() -> Command {
    // Sudo drops variables by default, env does not.
    let mut command = match Rights::now() {
        Rights::Root | Rights::None => Command::new("env"),
        Rights::Sudo => {
            let mut command = Command::new("sudo");
            command.arg("env");
            command
        }
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "apt-get"]);
    command
}

fn cargo_install(name: &str, version: &str) -> Command {
    let mut command = cargo();
    command.args(["install", name, "--version", version, "--locked", "--force"]);
    command
}

/// Builds a program next to its destination, the folder `root`, and moves it there if it runs.
fn build(install: &mut Command, name: &str, root: &Path, log: &Path) -> Result<(), Failure> {
    let draft = Toolchain::cache_dir().join(format!("{name}.new"));
    // Outside the scope of this repository's flags.
    install.arg("--root").arg(&draft).current_dir(Toolchain::cache_dir());
    run_logged(install, log)?;
    let failure = |ending: String| Failure {
        command: format!("mv {} {}", draft.display(), root.display()),
        ending,
        tail: String::new(),
    };
    if !runs(&draft.join("bin").join(name)) {
        return Err(failure("what was built does not start".into()));
    }
    folders::remove(root).map_err(|error| failure(format!("{error:#}")))?;
    fs::rename(&draft, root).map_err(|error| failure(error.to_string()))
}
