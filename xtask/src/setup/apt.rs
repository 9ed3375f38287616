//! Packages offered by apt, from the output of apt-cache.

use std::{collections::BTreeMap, process::Command};

use wingbeat_bpf_build::LLVM_MAJORS;

use super::plan::{Apt, RustPackages, is_new_enough};
use wingbeat_steps::command::{find_program, output_of};

/// Names of Rust's packages. Debian's stable releases keep an old `rustc` and add a recent one for browsers, as
/// `rustc-web`.
const RUSTS: [[&str; 3]; 2] =
    [["rustc-web", "cargo-web", "rust-web-src"], ["rustc", "cargo", "rust-src"]];

/// Queries apt; `None` without apt.
pub(super) fn ask() -> Option<Apt> {
    find_program("apt-get")?;
    let llvm_names = LLVM_MAJORS.map(|major| format!("llvm-{major}-dev"));
    let names = RUSTS.iter().flatten().copied().chain(llvm_names.iter().map(String::as_str));
    let policy = output_of(cache().arg("policy").args(names)).unwrap_or_default();
    let candidates = candidates(&policy);
    let rusts = RUSTS
        .into_iter()
        .filter(|names| names.iter().all(|name| candidates.contains_key(name)))
        .filter(|[rustc, ..]| candidates.get(rustc).is_some_and(|v| is_new_enough(v)))
        .filter_map(|names| Some(RustPackages { names, llvm: llvm_of(names[0])? }))
        .collect();
    let llvm = LLVM_MAJORS
        .into_iter()
        .filter(|major| candidates.contains_key(format!("llvm-{major}-dev").as_str()))
        .collect();
    Some(Apt { rusts, llvm })
}

fn cache() -> Command {
    let mut command = Command::new("apt-cache");
    command.env("LC_ALL", "C");
    command
}

/// LLVM version that a rustc package links, from its dependencies.
fn llvm_of(rustc: &str) -> Option<u32> {
    let depends = output_of(cache().args(["depends", "--recurse", "--important", rustc]))?;
    llvm_in(&depends)
}

/// Package and candidate version, from `apt-cache policy`.
fn candidates(policy: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    let mut package = "";
    for line in policy.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            package = name;
        } else if let Some(version) = line.trim().strip_prefix("Candidate: ")
            && version != "(none)"
        {
            found.insert(package, version);
        }
    }
    found
}

/// The first `libllvmN` among dependencies.
fn llvm_in(depends: &str) -> Option<u32> {
    depends.lines().find_map(|line| {
        let package = line.split_whitespace().last()?;
        package.strip_prefix("libllvm")?.split(':').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_packages_that_can_be_installed() {
        let policy = "\
rustc-web:
  Installed: (none)
  Candidate: 1.96.0+dfsg1-1~deb12u2
  Version table:
     1.96.0+dfsg1-1~deb12u2 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
llvm-22-dev:
  Installed: (none)
  Candidate: (none)
  Version table:
";
        let expected = [("rustc-web", "1.96.0+dfsg1-1~deb12u2")].into();
        assert_eq!(candidates(policy), expected);
        assert_eq!(candidates(""), BTreeMap::new());
    }

    #[test]
    fn llvm_is_found_among_dependencies() {
        let check = |text, expected| assert_eq!(llvm_in(text), expected, "{text:?}");
        check("rustc-web\n  Depends: libc6\n  Depends: libllvm22\nlibllvm22\n", Some(22));
        check("  Depends: libllvm19:amd64\n", Some(19));
        check("rustc\n  Depends: libllvm-spirv\n  Depends: gcc\n", None);
        check("", None);
    }
}
