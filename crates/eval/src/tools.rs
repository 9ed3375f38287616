//! The programs that wingbeat is compared with: how each is found, installed and asked for its version.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, bail};
use xtask::command::{find_program, output_of};

/// A program that has to be in `PATH`.
struct Program {
    name: &'static str,
    /// The command that installs it, or the page that says how.
    install: &'static str,
    /// The command whose first line ends with the version.
    version: &'static [&'static str],
}

const fn program(
    name: &'static str,
    install: &'static str,
    version: &'static [&'static str],
) -> Program {
    Program { name, install, version }
}

const INFERNO: &str = "cargo install inferno --locked";
const BEE: &str = "cargo install profile-bee --version 0.3.13 --no-default-features --locked";

const PROGRAMS: &[Program] = &[
    program("perf", "apt-get install linux-perf", &["perf", "--version"]),
    program("inferno-collapse-perf", INFERNO, &[]),
    program("inferno-flamegraph", INFERNO, &[]),
    program("samply", "cargo install samply --locked", &["samply", "--version"]),
    program("bpftrace", "apt-get install bpftrace", &["bpftrace", "--version"]),
    program(
        "profile-bpfcc",
        "apt-get install bpfcc-tools linux-headers-amd64",
        &["dpkg-query", "--show", "bpfcc-tools"],
    ),
    program("probee", BEE, &["probee", "--version"]),
    program(
        "lightswitch",
        "apt-get install protobuf-compiler libelf-dev libclang-dev, then cargo install lightswitch --locked",
        &["lightswitch", "--version"],
    ),
    program("valgrind", "apt-get install valgrind", &["valgrind", "--version"]),
    program("heaptrack", "apt-get install heaptrack", &["heaptrack", "--version"]),
    program("zstd", "apt-get install zstd", &[]),
    program(
        "memleak-bpfcc",
        "apt-get install bpfcc-tools linux-headers-amd64",
        &["dpkg-query", "--show", "bpfcc-tools"],
    ),
    program("strace", "apt-get install strace", &["dpkg-query", "--show", "strace"]),
    program("bpftool", "apt-get install bpftool", &["bpftool", "version"]),
    program(
        "veristat",
        "build it as docs/objects.md describes, and name it with --veristat FILE",
        &[],
    ),
    program("python3", "apt-get install python3 python3-venv", &["python3", "--version"]),
];

/// Where a program is, or how to get it.
pub(crate) fn find(name: &str) -> anyhow::Result<PathBuf> {
    match find_program(name) {
        Some(found) => Ok(found),
        None => bail!("{name} is missing: {}", of(name)?.install),
    }
}

/// The command that installs a program, if it is missing.
pub(crate) fn missing(name: &str) -> Option<&'static str> {
    find(name).is_err().then(|| of(name).map_or("", |program| program.install))
}

/// What a program says about its version.
pub(crate) fn version(name: &str) -> String {
    let words = of(name).map_or(&[][..], |program| program.version);
    let Some((asked, arguments)) = words.split_first() else { return "unknown".to_owned() };
    version_of(Command::new(find(asked).unwrap_or_else(|_| asked.into())).args(arguments))
}

/// The last word of the first line that a command prints, without the letters before it.
pub(crate) fn version_of(command: &mut Command) -> String {
    let said = output_of(command).unwrap_or_default();
    // "perf version 6.1.192", "bpftrace v0.17.0", "bpfcc-tools\t0.26.0+ds-1", "valgrind-3.19.0"
    let word = said.lines().next().and_then(|line| line.split_whitespace().next_back());
    let word = word.unwrap_or("unknown");
    let number = word.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    if number.is_empty() { word.to_owned() } else { number.to_owned() }
}

fn of(name: &str) -> anyhow::Result<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name).with_context(|| format!("unknown: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_last_word() {
        let check = |line: &str, expected: &str| {
            assert_eq!(version_of(Command::new("echo").arg(line)), expected);
        };
        check("perf version 6.1.192", "6.1.192");
        check("bpftrace v0.17.0\nmore", "0.17.0");
        check("valgrind-3.19.0", "3.19.0");
        check("", "unknown");
    }

    #[test]
    fn a_missing_program_says_how_to_get_it() {
        assert_eq!(missing("sh"), None);
        for Program { name, install, .. } in PROGRAMS {
            if let Err(error) = find(name) {
                assert_eq!(error.to_string(), format!("{name} is missing: {install}"));
                assert_eq!(missing(name), Some(*install));
            }
        }
    }
}
