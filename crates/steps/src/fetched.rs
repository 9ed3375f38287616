//! Test dependencies that `cargo xtask` downloads. Tests that lack them are skipped with a message; in CI that is a
//! failure.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::command::repository;

/// Folder of Python packages, for `PYTHONPATH`.
pub fn python_packages() -> Option<PathBuf> {
    let folder = repository().join("xtask/python/.packages");
    let is_there = folder.join("requirements.txt").exists();
    or_skipped(is_there.then_some(folder), "Python packages: `cargo xtask setup` installs them")
}

/// A folder in which npm installed this package.
pub fn npm_package(folder: &Path, name: &str) -> Option<PathBuf> {
    let folder = repository().join(folder);
    let is_there = folder.join("node_modules").join(name).exists();
    or_skipped(is_there.then_some(folder), "npm packages: `cargo xtask setup` installs them")
}

/// The program that uses Grafana's Rust client, from `crates/server/tests/clients/rust`: a separate workspace, because
/// the client pulls in an HTTP stack that nothing else needs.
pub fn rust_client() -> Option<OsString> {
    let client = env::var_os("WINGBEAT_RUST_CLIENT");
    or_skipped(client, "WINGBEAT_RUST_CLIENT, a program: `cargo xtask test` builds it")
}

fn or_skipped<T>(found: Option<T>, what: &str) -> Option<T> {
    if found.is_none() {
        assert!(env::var_os("CI").is_none(), "there is no {what}");
        eprintln!("skipped: there is no {what}");
    }
    found
}
