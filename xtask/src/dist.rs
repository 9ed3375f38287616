//! `cargo xtask dist`: what a user without this repository installs: the binary, completions, man
//! pages, licences, and how to put them in place; as a folder and as an archive of it.
//!
//! The same sources give the same archive: no times, no owners, names in order.

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, ensure};

use crate::setup;
use wingbeat_steps::{
    command::{cargo, repository},
    folders,
    steps::Steps,
};

const WINGBEAT: &str = "target/release/wingbeat";
/// Both programs, which belong beside each other.
const PROGRAMS: [&str; 2] = ["wingbeat", "cargo-wingbeat"];
const OUT: &str = "target/dist";
/// 2026-01-01 in UTC, as seconds since 1970: tar complains of files that are as old as Unix.
const TIME_S: u64 = 1_767_225_600;

const README: &str = "\
# wingbeat

Shows what eBPF and Rust code costs, down to the line, before it reaches production.

To install it, in this folder, as root:

    install -D -t /usr/local/bin wingbeat cargo-wingbeat
    install -D -m 644 -t /usr/local/share/man/man1 man/*
    install -D -m 644 completions/wingbeat.bash /usr/share/bash-completion/completions/wingbeat
    install -D -m 644 completions/_wingbeat /usr/local/share/zsh/site-functions/_wingbeat
    install -D -m 644 -t /usr/share/fish/vendor_completions.d completions/wingbeat.fish

Elvish: `eval (slurp < completions/wingbeat.elv)` in rc.elv. PowerShell: `. completions/_wingbeat.ps1`
in $PROFILE.

`wingbeat doctor` then shows what works on this machine, and how to get the rest. Nothing else is
needed: no library beside the C library, no toolchain.
";

/// Builds the release, lays it out in a folder, and packs that.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut steps = Steps::default();
    steps.time("cargo xtask setup", |_| setup::toolchain().map(drop))?;
    steps.run(cargo().args(["build", "--release", "-p", "wingbeat"]))?;

    let name = format!("wingbeat-{}-{}-linux", env!("CARGO_PKG_VERSION"), env::consts::ARCH);
    let (root, folder) = (repository(), format!("{OUT}/{name}"));
    let place = root.join(&folder);
    folders::fresh(&place)?;
    steps.run(Command::new(WINGBEAT).args(["generate", &folder]))?;
    // Those are for docs/.
    fs::remove_dir_all(place.join("flags")).context("cannot remove the tables of flags")?;
    // Names of functions stay, lines go: they take 120 of 140 MB.
    for program in PROGRAMS {
        let (to, from) = (format!("{folder}/{program}"), format!("target/release/{program}"));
        steps.run(Command::new("strip").args(["--strip-debug", "-o", &to, &from]))?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root.join(licence), place.join(licence))
            .with_context(|| format!("cannot copy {licence}"))?;
    }
    fs::write(place.join("README.md"), README).context("cannot write README.md")?;

    let archive = format!("{folder}.tar.gz");
    steps.time(&format!("pack {archive}"), |_| {
        pack(&place, &root.join(&archive)).with_context(|| format!("cannot write {archive}"))
    })?;
    eprintln!("The folder:  {}", place.display());
    eprintln!("The archive: {}", root.join(&archive).display());
    eprintln!("  README.md in it explains how to install.");
    Ok(ExitCode::SUCCESS)
}

/// Packs a folder under its own name.
fn pack(folder: &Path, archive: &Path) -> anyhow::Result<()> {
    let name = folder.file_name().context("a folder without a name")?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--numeric-owner"]);
    tar.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", &format!("--mtime=@{TIME_S}")]);
    // Neither a name nor a time in the head.
    tar.arg("--use-compress-program=gzip --no-name").arg("--file").arg(archive);
    tar.arg("--directory").arg(folder.parent().unwrap_or(folder)).arg(name);
    let status = tar.status().context("cannot run tar")?;
    ensure!(status.success(), "tar failed ({status})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, thread, time::Duration};

    use super::*;

    /// A folder like that of a release, in another one.
    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = place.path().join("wingbeat-1");
        fs::create_dir_all(folder.join("man")).expect("a folder in it");
        for (name, mode) in [("wingbeat", 0o711), ("README.md", 0o600), ("man/wingbeat.1", 0o644)] {
            let file = folder.join(name);
            fs::write(&file, name).expect("a file in it");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode");
        }
        place
    }

    #[test]
    fn the_same_files_give_the_same_archive() {
        let packed = || {
            let place = place();
            let archive = place.path().join("a.tar.gz");
            pack(&place.path().join("wingbeat-1"), &archive).expect("it is packed");
            fs::read(&archive).expect("it is there")
        };
        let first = packed();
        // Another time of the files, in the seconds that an archive holds.
        thread::sleep(Duration::from_millis(1_100));
        assert_eq!(first, packed());
    }

    #[test]
    fn what_comes_out_is_what_went_in() {
        let place = place();
        let (archive, root) = (place.path().join("a.tar.gz"), place.path().join("wingbeat-1"));
        pack(&root, &archive).expect("it is packed");
        fs::remove_dir_all(&root).expect("it was there");
        let mut tar = Command::new("tar");
        let status = tar.arg("-xzf").arg(&archive).arg("-C").arg(place.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "tar takes it");
        let found = ["README.md", "man/wingbeat.1", "wingbeat"].map(|name| {
            let path = root.join(name);
            let mode = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
            (fs::read_to_string(&path).expect("text"), mode)
        });
        let expected = [("README.md", 0o644), ("man/wingbeat.1", 0o644), ("wingbeat", 0o755)];
        assert_eq!(
            BTreeMap::from(found),
            BTreeMap::from(expected.map(|(text, mode)| (text.to_owned(), mode)))
        );
    }
}
