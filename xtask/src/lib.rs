//! Shared code of the developers' commands: running programs, folders, measurement conditions, generated parts of
//! pages, and test dependencies that cargo does not build.

pub mod command;
pub mod marked;

/// Date and machine of a measurement, printed with every result.
pub mod conditions {
    use std::{fs, process::Command, thread};

    use crate::command::output_of;

    /// Today in UTC, as `2026-11-22`.
    pub fn date() -> String {
        output_of(Command::new("date").args(["-u", "+%F"])).unwrap_or_default().trim().to_owned()
    }

    /// CPU, number of CPUs and kernel.
    pub fn machine() -> String {
        let uname = rustix::system::uname();
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let kernel = uname.release().to_string_lossy();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()));
        let cpu = model.unwrap_or_else(|| uname.machine().to_string_lossy().into_owned());
        format!("{cpu}, {cpus} CPUs, Linux {kernel}")
    }
}

/// Lists, removes and creates folders.
pub mod folders {
    use std::{
        fs, io,
        path::{Path, PathBuf},
    };

    use anyhow::Context as _;

    /// Entries of a folder, sorted.
    pub fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder).and_then(|entries| {
            entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()
        });
        let mut paths = entries.with_context(|| format!("cannot read {}", folder.display()))?;
        paths.sort();
        Ok(paths)
    }

    /// All regular files below a folder, sorted. Does not follow links.
    pub fn below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for path in sorted(folder)? {
            let meta = path.symlink_metadata();
            let meta = meta.with_context(|| format!("cannot read {}", path.display()))?;
            if meta.is_dir() {
                files.extend(below(&path)?);
            } else if meta.is_file() {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// Removes a folder recursively, if it exists.
    pub fn remove(folder: &Path) -> anyhow::Result<()> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.with_context(|| format!("cannot remove {}", folder.display())),
        }
    }

    /// Creates an empty folder, replacing an existing one.
    pub fn fresh(folder: &Path) -> anyhow::Result<()> {
        remove(folder)?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
    }
}

/// Test dependencies that `cargo xtask` downloads or builds. Tests that lack one are skipped with a message; in CI that
/// is a failure.
pub mod fetched {
    use std::{
        env,
        ffi::OsString,
        path::{Path, PathBuf},
    };

    use crate::command::repository;

    /// Folder of Python packages, for `PYTHONPATH`.
    pub fn python_packages() -> Option<PathBuf> {
        let folder = repository().join("xtask/python/.packages");
        let found = folder.join("requirements.txt").exists().then_some(folder);
        or_skipped(found, "no Python packages: `cargo xtask setup` installs them")
    }

    /// A folder in which npm installed this package.
    pub fn npm_package(folder: &Path, name: &str) -> Option<PathBuf> {
        let folder = repository().join(folder);
        let found = folder.join("node_modules").join(name).exists().then_some(folder);
        or_skipped(found, "no npm packages: `cargo xtask setup` installs them")
    }

    /// The program that uses Grafana's Rust client, from `crates/server/tests/clients/rust`: a separate workspace,
    /// because the client pulls in an HTTP stack that nothing else needs.
    pub fn rust_client() -> Option<OsString> {
        let client = env::var_os("WINGBEAT_RUST_CLIENT");
        or_skipped(client, "no program in WINGBEAT_RUST_CLIENT: `cargo xtask test` builds it")
    }

    fn or_skipped<T>(found: Option<T>, missing: &str) -> Option<T> {
        if found.is_none() {
            assert!(env::var_os("CI").is_none(), "{missing}");
            eprintln!("skipped: {missing}");
        }
        found
    }
}
