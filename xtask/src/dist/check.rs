//! `cargo xtask dist --check`: checks that the packages install, and that the program runs without other files.

use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use wingbeat_steps::{
    command::{Rights, find_program},
    steps::Steps,
};

use super::{SUMS, VERSION, captured_in_place, deb};

/// Size limit of the binary in bytes.
const BINARY_BYTES_MAX: u64 = 40_000_000;

/// Checks the archive and the package of a release in a folder.
pub(super) fn run(steps: &mut Steps, out: &Path, name: &str) -> anyhow::Result<()> {
    let archive = out.join(format!("{name}.tar.gz"));
    let package = out.join(deb::name()?);
    for file in [&archive, &package, &out.join(SUMS)] {
        ensure!(file.is_file(), "{} is missing: `cargo xtask dist` writes it", file.display());
    }
    steps.time(SUMS, |_| {
        let mut sha256sum = Command::new("sha256sum");
        sha256sum.args(["--check", "--strict", "--quiet", SUMS]).current_dir(out);
        captured_in_place(&mut sha256sum).map(drop)
    })?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let unpacked = scratch.path().join(name).join("wingbeat");
    steps.time("unpack the archive", |_| {
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&archive).arg("-C").arg(scratch.path());
        captured_in_place(&mut tar)?;
        let bytes = unpacked.metadata().context("the archive has no wingbeat")?.len();
        eprintln!("    wingbeat has {bytes} bytes");
        ensure!(bytes <= BINARY_BYTES_MAX, "wingbeat has more than {BINARY_BYTES_MAX} bytes");
        Ok(())
    })?;
    let root = scratch.path().join("root");
    steps.time("install the package in an empty folder", |_| {
        install(&package, &root)?;
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let is_same = read(&unpacked)? == read(&root.join("usr/bin/wingbeat"))?;
        ensure!(is_same, "the package has another wingbeat than the archive");
        Ok(())
    })?;
    steps.time("run it there, where there is nothing else", |_| runs_alone(&root))
}

/// Installs a package below a folder with dpkg, using a separate package database.
pub(super) fn install(package: &Path, root: &Path) -> anyhow::Result<()> {
    let list = root.join("var/lib/dpkg");
    for folder in ["info", "triggers", "updates"] {
        fs::create_dir_all(list.join(folder)).context("cannot make dpkg's folders")?;
    }
    fs::create_dir_all(root.join("tmp")).context("cannot make a folder for files")?;
    fs::write(list.join("status"), "").context("cannot write dpkg's list")?;
    let mut dpkg = Command::new(find_program("dpkg").context("dpkg is not installed")?);
    // Without privileges the owner is the current user, which suffices. Users' `PATH` lacks the programs of scripts.
    dpkg.args(["--force-not-root", "--force-bad-path", "--log=/dev/null"]);
    dpkg.arg(format!("--root={}", root.display())).arg("--install").arg(package);
    captured_in_place(&mut dpkg).map(drop)
}

/// Runs commands that need files, threads, a child and SQLite in a folder without any library.
fn runs_alone(root: &Path) -> anyhow::Result<()> {
    let said = alone(root, ["--version"])?;
    ensure!(said.trim() == format!("wingbeat {VERSION}"), "`--version` says {said}");
    let mock = ["/usr/bin/wingbeat", "mock"];
    let place = ["--store", "/tmp/store", "--project", "p"];
    let run = [&["run"], &place[..], &["--branch", "main", "--testbed", "t", "--"], &mock].concat();
    alone(root, run)?;
    let log = alone(root, [&["log"], &place[..]].concat())?;
    ensure!(log.contains("main"), "what `run` stored is not in `log`, which says:\n{log}");

    // A name service that is not available: /etc/hosts must still work.
    fs::create_dir_all(root.join("etc")).context("cannot make /etc")?;
    for (file, text) in
        [("hosts", "127.0.0.1 here.test\n"), ("nsswitch.conf", "hosts: elsewhere\n")]
    {
        fs::write(root.join("etc").join(file), text)
            .with_context(|| format!("cannot write {file}"))?;
    }
    // No server listens on the `discard` port.
    let host = ["--host", "http://here.test:9", "--attempts", "1", "--key", "k", "--project", "p"];
    let said = match alone(root, [&["run"], &host[..], &["--"], &mock].concat()) {
        Ok(said) => said,
        Err(error) => error.to_string(),
    };
    ensure!(said.contains("refused the connection"), "here.test was not found:\n{said}");
    Ok(())
}

/// Output of wingbeat in a chroot that contains nothing else.
fn alone<'a>(root: &Path, args: impl IntoIterator<Item = &'a str>) -> anyhow::Result<String> {
    let args: Vec<_> = args.into_iter().collect();
    let mut command = match Rights::now() {
        // In a user namespace, an unprivileged user may chroot.
        Rights::None => {
            let mut command = Command::new("unshare");
            command.args(["--map-root-user", "chroot"]);
            command
        }
        rights => rights.command(OsStr::new("chroot")),
    };
    command.arg(root).arg("/usr/bin/wingbeat").args(&args).env_clear().env("HOME", "/tmp");
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    let output = command.output().context("cannot run chroot")?;
    ensure!(
        output.status.success(),
        "`wingbeat {}` failed ({}):\n{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
