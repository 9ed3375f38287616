//! Probes the machine: compilers, LLVMs, our linker.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use wingbeat_bpf_build::{LLVM_MAJORS, Toolchain, llvm_major};

use super::{
    apt,
    plan::{Compiler, LINKER_VERSION, Machine, NIGHTLIES, is_new_enough},
    tools::{Found, NPM_FOLDERS, PYTHON_FOLDER, RUNNER_VERSION, TOOLS, Tool},
};
use wingbeat_steps::command::{Rights, find_program, output_of, repository};

/// Probes everything. Takes a second or two, most of it in apt.
pub(super) fn machine() -> Machine {
    let rights = Rights::now();
    Machine {
        compilers: compilers(),
        llvm: llvm_prefixes(),
        linkers: linkers(),
        cxx: finds_cxx_library(),
        apt: apt::ask(),
        rustup: find_program("rustup").is_some(),
        root: rights == Rights::Root,
        sudo: rights == Rights::Sudo,
    }
}

/// The recorded toolchain, if all of it still works: the fast path.
pub(super) fn recorded() -> Option<(Compiler, Toolchain)> {
    let toolchain = Toolchain::recorded().ok()?;
    let compiler = inspect(&toolchain.cargo, &toolchain.rustc)?;
    let fits = toolchain.linker == linker(compiler.llvm)
        && runs(&toolchain.linker)
        && runs(&toolchain.cargo);
    fits.then_some((compiler, toolchain))
}

/// Path of our bpf-linker for an LLVM, separate from one installed by the user.
pub(super) fn linker(llvm: u32) -> PathBuf {
    linker_root(llvm).join("bin/bpf-linker")
}

/// The folder that contains `bin/bpf-linker`.
pub(super) fn linker_root(llvm: u32) -> PathBuf {
    Toolchain::cache_dir().join(format!("bpf-linker-{LINKER_VERSION}-llvm{llvm}"))
}

/// Tools other than the toolchain: takes some milliseconds.
pub(super) fn tools() -> Found {
    Found {
        runner: runs(&runner()),
        npm: NPM_FOLDERS.iter().all(|folder| has_npm(folder)),
        python: has_python(),
        ..programs(&TOOLS)
    }
}

/// Whether a folder's npm packages match its lock file.
pub(super) fn has_npm(folder: &str) -> bool {
    let folder = repository().join(folder);
    let locked = fs::read(folder.join("package-lock.json")).ok();
    locked.is_some() && locked == fs::read(folder.join("node_modules/package-lock.json")).ok()
}

/// Whether the Python packages match the requirements.
fn has_python() -> bool {
    let folder = repository().join(PYTHON_FOLDER);
    let asked = fs::read(folder.join("requirements.txt")).ok();
    asked.is_some() && asked == fs::read(folder.join(".packages/requirements.txt")).ok()
}

/// Missing programs among these. Ignores the runner.
pub(super) fn programs(needed: &[Tool]) -> Found {
    Found {
        missing: needed.iter().copied().filter(|tool| find_program(tool.name).is_none()).collect(),
        runner: true,
        npm: true,
        python: true,
        installs: find_program("apt-get").is_some() && Rights::now() != Rights::None,
    }
}

/// Path of our gungraun-runner.
pub(crate) fn runner() -> PathBuf {
    runner_root().join("bin/gungraun-runner")
}

/// The folder that contains `bin/gungraun-runner`.
pub(super) fn runner_root() -> PathBuf {
    Toolchain::cache_dir().join(format!("gungraun-runner-{RUNNER_VERSION}"))
}

/// Complete compilers: the distribution's, the pinned nightlies, then rustup's others. The latter may change and then
/// need a new linker.
fn compilers() -> Vec<Compiler> {
    let mut folders = vec![PathBuf::from("/usr/bin")];
    let installed = rustup_toolchains();
    let is_pinned = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        NIGHTLIES.iter().any(|nightly| name.starts_with(nightly.name))
    };
    let (pinned, others): (Vec<_>, Vec<_>) =
        installed.into_iter().partition(|folder| is_pinned(folder));
    folders.extend(pinned.into_iter().chain(others).map(|folder| folder.join("bin")));
    folders
        .iter()
        .filter_map(|bin| inspect(&bin.join("cargo"), &bin.join("rustc")))
        .filter(|compiler| is_new_enough(&compiler.release))
        .collect()
}

fn rustup_toolchains() -> Vec<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".rustup"));
    let Some(rustup) = env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(home) else {
        return Vec::new();
    };
    let entries = fs::read_dir(rustup.join("toolchains")).into_iter().flatten();
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// A compiler with the sources of `core`, if it runs.
fn inspect(cargo: &Path, rustc: &Path) -> Option<Compiler> {
    let sysroot = rustc.parent()?.parent()?;
    // Checked first: it is cheap, and /usr/bin/rustc may be rustup's proxy with arbitrary effects.
    let core = sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    if !cargo.is_file() || !core.is_file() {
        return None;
    }
    let version = output_of(Command::new(rustc).arg("--version"))?;
    Some(Compiler {
        cargo: cargo.into(),
        rustc: rustc.into(),
        release: version.split_whitespace().nth(1)?.into(),
        llvm: llvm_major(rustc)?,
    })
}

/// LLVMs with a library to link: in Debian's locations, and in the user's.
fn llvm_prefixes() -> BTreeMap<u32, PathBuf> {
    let debian = LLVM_MAJORS.map(|major| PathBuf::from(format!("/usr/lib/llvm-{major}")));
    let said = env::var_os("LLVM_PREFIX").map(PathBuf::from);
    let in_path = || {
        let prefix = output_of(Command::new(find_program("llvm-config")?).arg("--prefix"))?;
        Some(PathBuf::from(prefix.trim()))
    };
    let mut found = BTreeMap::new();
    // The user's setting comes last and wins.
    for prefix in debian.into_iter().chain(in_path()).chain(said) {
        if let Some(major) = llvm_at(&prefix).filter(|major| LLVM_MAJORS.contains(major)) {
            found.insert(major, prefix);
        }
    }
    found
}

fn llvm_at(prefix: &Path) -> Option<u32> {
    let version = output_of(Command::new(prefix.join("bin/llvm-config")).arg("--version"))?;
    let major = version.split('.').next()?.parse().ok()?;
    let library = ["lib", "lib64"].iter().any(|dir| prefix.join(dir).join("libLLVM.so").exists());
    library.then_some(major)
}

fn linkers() -> BTreeSet<u32> {
    LLVM_MAJORS.into_iter().filter(|major| runs(&linker(*major))).collect()
}

/// Whether a tool starts: a bpf-linker whose libLLVM was removed does not.
pub(super) fn runs(tool: &Path) -> bool {
    output_of(Command::new(tool).arg("--version")).is_some()
}

/// The compiler prints a path if it finds the file, otherwise the bare name.
fn finds_cxx_library() -> bool {
    let answer = output_of(Command::new("cc").arg("-print-file-name=libstdc++.so"));
    answer.is_some_and(|path| Path::new(path.trim()).is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_minor() {
        let check = |version, expected| assert_eq!(is_new_enough(version), expected, "{version}");
        check("1.95.0", true);
        check("1.96.0+dfsg1-1~deb12u2", true);
        check("1.101.0-nightly", true);
        check("1.94.1", false);
        check("1.63.0+dfsg1-2", false);
        check("2:1.96", false);
        check("", false);
    }
}
