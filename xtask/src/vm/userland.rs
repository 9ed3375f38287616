//! Programs of a guest with a foreign processor: Debian's packages for it, unpacked into a folder. Includes the
//! compiler, since targets of tests are compiled in the guest.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

use super::{
    architecture::Architecture, emulator::installed_by, fresh_folder, lists::Lists, programs,
    unpack_packages,
};
use xtask::{
    command::{output_of, run_logged},
    folders,
};

/// Unused parts of the packages, below `usr/share`.
const LEFT_OUT: &[&str] = &["doc", "man", "locale", "info", "lintian", "bug"];

/// The folder with the programs, kept below `place`.
pub(super) fn get(architecture: &Architecture, place: &Path) -> anyhow::Result<PathBuf> {
    let folder = place.join("userland");
    if !folder.is_dir() {
        unpack(architecture, place, &folder)?;
    }
    Ok(folder)
}

fn unpack(architecture: &Architecture, place: &Path, folder: &Path) -> anyhow::Result<()> {
    let draft = fresh_folder(folder)?;
    let log = draft.join("log");
    let lists = Lists::of_machine(architecture, place);
    let packages = || {
        let mut plan = lists.apt("apt-get");
        plan.env("LC_ALL", "C").args(["install", "--simulate", "--no-install-recommends"]);
        installed_by(
            &output_of(plan.args(programs::PACKAGES.split_whitespace())).unwrap_or_default(),
        )
    };
    let mut wanted = packages();
    if wanted.is_empty() {
        lists.update()?;
        wanted = packages();
    }
    let name = architecture.name;
    ensure!(!wanted.is_empty(), "apt has no packages for {name} among {}", programs::PACKAGES);
    eprintln!("fetching    {} packages for {name}, into {}", wanted.len(), folder.display());
    let mut download = lists.apt("apt-get");
    run_logged(download.arg("download").args(&wanted).current_dir(&draft), &log)?;
    unpack_packages(&draft, &log)?;
    for name in LEFT_OUT {
        folders::remove(&draft.join("usr/share").join(name))?;
    }
    // Effects of installing these packages.
    for (link, target) in programs::LINKS {
        let link = draft.join(link);
        if !link.exists() {
            symlink(target, &link).with_context(|| format!("cannot create {}", link.display()))?;
        }
    }
    fs::write(draft.join("etc/passwd"), programs::USERS).context("cannot write etc/passwd")?;
    fs::rename(&draft, folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Statically linked busybox.
pub(super) fn busybox(folder: &Path) -> PathBuf {
    folder.join("bin/busybox")
}
