//! `cargo xtask dist`: what a user without this repository installs: the binary, completions, man
//! pages, licences, and how to put them in place; as a folder and as an archive of it.
//!
//! The same sources give the same archive: no times, no owners, names in order.

use std::{
    env, fs,
    fs::File,
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};
use tar::{Builder, Header};

use crate::setup;
use wingbeat_steps::{
    command::{cargo, repository},
    steps::Steps,
};

const WINGBEAT: &str = "target/release/wingbeat";
const OUT: &str = "target/dist";
/// 2026-01-01 in UTC, as seconds since 1970: tar complains of files that are as old as Unix.
const TIME_S: u64 = 1_767_225_600;

const README: &str = "\
# wingbeat

Tells what eBPF and Rust code costs, down to the line, before it reaches production.

To install it, in this folder, as root:

    install -D -t /usr/local/bin wingbeat
    install -D -m 644 -t /usr/local/share/man/man1 man/*
    install -D -m 644 completions/wingbeat.bash /usr/share/bash-completion/completions/wingbeat
    install -D -m 644 completions/_wingbeat /usr/local/share/zsh/site-functions/_wingbeat
    install -D -m 644 -t /usr/share/fish/vendor_completions.d completions/wingbeat.fish

Elvish: `eval (slurp < completions/wingbeat.elv)` in rc.elv. PowerShell: `. completions/_wingbeat.ps1`
in $PROFILE.

`wingbeat doctor` then tells what it can do on this machine, and how to get the rest. Nothing else is
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
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {folder}"));
        }
        _ => fs::create_dir_all(&place).with_context(|| format!("cannot create {folder}"))?,
    }
    steps.run(Command::new(WINGBEAT).args(["generate", &folder]))?;
    // Those are for docs/.
    fs::remove_dir_all(place.join("flags")).context("cannot remove the tables of flags")?;
    // Names of functions stay, lines go: they take 120 of 140 MB.
    steps.run(Command::new("strip").args([
        "--strip-debug",
        "-o",
        &format!("{folder}/wingbeat"),
        WINGBEAT,
    ]))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root.join(licence), place.join(licence))
            .with_context(|| format!("cannot copy {licence}"))?;
    }
    fs::write(place.join("README.md"), README).context("cannot write README.md")?;

    let archive = format!("{folder}.tar.gz");
    steps.time(&format!("pack {archive}"), |_| {
        pack(&place, &name, &root.join(&archive)).with_context(|| format!("cannot write {archive}"))
    })?;
    eprintln!("The folder:  {}", place.display());
    eprintln!("The archive: {}", root.join(&archive).display());
    eprintln!("  README.md in it tells how to install.");
    Ok(ExitCode::SUCCESS)
}

/// Packs a folder under another name.
fn pack(folder: &Path, name: &str, archive: &Path) -> io::Result<()> {
    // Neither a name nor a time in the head.
    let gzip = GzBuilder::new().write(File::create(archive)?, Compression::default());
    let mut tar = Builder::new(gzip);
    append(&mut tar, folder, name)?;
    tar.into_inner()?.finish()?.flush()
}

/// A folder with all that is in it, in the order of names.
fn append(tar: &mut Builder<impl io::Write>, folder: &Path, name: &str) -> io::Result<()> {
    let mut names: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    for file in names {
        let path = folder.join(&file);
        let name = format!("{name}/{}", file.display());
        if path.is_dir() {
            append(tar, &path, &name)?;
        } else {
            let bytes = fs::read(&path)?;
            let is_program = file == "wingbeat";
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(if is_program { 0o755 } else { 0o644 });
            header.set_mtime(TIME_S);
            tar.append_data(&mut header, name, bytes.as_slice())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, thread, time::Duration};

    use super::*;

    /// A folder like that of a release.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("man")).expect("a folder in it");
        for name in ["wingbeat", "README.md", "man/wingbeat.1"] {
            fs::write(folder.path().join(name), name).expect("a file in it");
        }
        folder
    }

    #[test]
    fn the_same_files_give_the_same_archive() {
        let packed = || {
            let folder = folder();
            let archive = folder.path().with_extension("tar.gz");
            pack(folder.path(), "wingbeat-1", &archive).expect("it is packed");
            let bytes = fs::read(&archive).expect("it is there");
            fs::remove_file(archive).expect("it was there");
            bytes
        };
        let first = packed();
        // Another time of the files, in the seconds that an archive holds.
        thread::sleep(Duration::from_millis(1_100));
        assert_eq!(first, packed());
    }

    #[test]
    fn what_comes_out_is_what_went_in() {
        let (folder, place) = (folder(), tempfile::tempdir().expect("a temporary folder"));
        let archive = place.path().join("a.tar.gz");
        pack(folder.path(), "wingbeat-1", &archive).expect("it is packed");
        let status =
            Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(place.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "tar takes it");
        let root = place.path().join("wingbeat-1");
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
