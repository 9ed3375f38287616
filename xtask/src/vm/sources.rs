//! Detects changes of the sources that affect whether a kernel accepts our programs, since the last complete run.
//!
//! After a change, CI runs everything on every kernel, and otherwise a short list. docs/kernels.md has their hash, so
//! that the decision depends on the commit alone.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use xtask::{command::repository, marked};

use super::document;

/// The kernel halves and their loader. Compiled objects are compared bit by bit, and loaded each time.
const PATHS: &[&str] = &[
    "crates/bpf-loader/src/loader",
    "crates/bpf-loader/src/spec",
    "crates/profiler-abi/src",
    "crates/profiler-ebpf",
    "examples/fun-xdp/fun-xdp-ebpf",
    "examples/profiler/profiler-ebpf",
];

/// The marks around the hash in docs/kernels.md.
pub(super) const MARKS: &str = "vm sources";

/// Whether they differ from the hash in docs/kernels.md; prints a message.
pub(super) fn have_changed() -> anyhow::Result<bool> {
    let (text, now) = (document::read()?, sentence()?);
    let have_changed = marked::between(&text, MARKS).map(str::trim) != Some(now.trim());
    if have_changed {
        eprintln!(
            "note        {} changed since the last whole run: everything runs; `cargo xtask vm --update` writes it down",
            PATHS.join(", ")
        );
    }
    Ok(have_changed)
}

/// The text between the marks: the hash of their files from git.
pub(super) fn sentence() -> anyhow::Result<String> {
    let mut list = Command::new("git");
    list.current_dir(repository()).args(["ls-files", "--stage", "--"]).args(PATHS);
    let list = list.stdout(Stdio::piped()).spawn().context("cannot run git")?;
    let mut hash = Command::new("git");
    hash.args(["hash-object", "--stdin"]).stdin(list.stdout.context("git has no output")?);
    let hash = hash.output().context("cannot run git")?;
    ensure!(hash.status.success(), "git does not hash the list of sources");
    let hash = String::from_utf8_lossy(&hash.stdout);
    Ok(format!("The whole matrix last ran on the sources `{}`.", hash.trim()))
}
