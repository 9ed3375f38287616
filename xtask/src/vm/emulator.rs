//! QEMU: the installed one, or Debian's unpacked into a folder of ours.
//!
//! A machine may have another part of QEMU in a version that conflicts with Debian's emulator, such as `qemu-utils`
//! from backports. The package manager would have to remove it, which must not happen unasked.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    slice,
};

use anyhow::{Context as _, ensure};

use super::{architecture::Architecture, fresh_folder, unpack_packages, write};
use crate::setup::{self, Tool};
use xtask::command::{find_program, output_of, run_logged};

/// An emulator for an architecture.
#[derive(Debug, Clone)]
pub(super) struct Emulator {
    pub(super) program: PathBuf,
    pub(super) architecture: &'static Architecture,
}

/// Starts an unpacked emulator with paths to its libraries and firmware.
const LAUNCHER: &str = r#"#!/bin/sh
root=$(dirname "$0")
export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu"
exec "$root/usr/bin/PROGRAM" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
"#;

/// The emulator, installed if needed; unpacked files are kept below `place`.
pub(super) fn get(architecture: &'static Architecture, place: &Path) -> anyhow::Result<Emulator> {
    let program = program(&architecture.emulator, place)?;
    Ok(Emulator { program, architecture })
}

fn program(qemu: &Tool, place: &Path) -> anyhow::Result<PathBuf> {
    let folder = place.join("qemu");
    let launcher = folder.join("launch");
    if let Some(program) =
        find_program(qemu.name).or_else(|| launcher.is_file().then(|| launcher.clone()))
    {
        return Ok(program);
    }
    match setup::programs(slice::from_ref(qemu)) {
        Ok(()) => find_program(qemu.name).with_context(|| format!("{} is not in PATH", qemu.name)),
        Err(error) => {
            eprintln!("note        {error:#}");
            unpack(qemu, &folder).with_context(|| format!("cannot unpack it either; {error:#}"))?;
            Ok(launcher)
        }
    }
}

/// Downloads the package and its missing dependencies to `folder`.
fn unpack(qemu: &Tool, folder: &Path) -> anyhow::Result<()> {
    let draft = fresh_folder(folder)?;
    let log = draft.join("log");
    let mut plan = Command::new("apt-get");
    plan.env("LC_ALL", "C").args([
        "install",
        "--simulate",
        "--no-install-recommends",
        qemu.package,
    ]);
    let packages = installed_by(&output_of(&mut plan).unwrap_or_default());
    ensure!(!packages.is_empty(), "apt has no {}; run `apt-get update` as root", qemu.package);
    eprintln!(
        "fetching    {} with {} packages, into {}",
        qemu.package,
        packages.len() - 1,
        folder.display()
    );
    run_logged(Command::new("apt-get").arg("download").args(&packages).current_dir(&draft), &log)?;
    unpack_packages(&draft, &log)?;
    let launcher = draft.join("launch");
    write(&launcher, LAUNCHER.replace("PROGRAM", qemu.name).as_bytes())?;
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} a program", launcher.display()))?;
    run_logged(Command::new(&launcher).arg("--version"), &log)?;
    fs::rename(&draft, folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Packages that a simulated installation would install. Removals do not matter, because nothing is installed.
pub(super) fn installed_by(simulation: &str) -> Vec<String> {
    let words = simulation.lines().filter_map(|line| line.strip_prefix("Inst "));
    words.filter_map(|words| words.split_whitespace().next()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_simulation() {
        let simulation = "\
Reading package lists...
The following packages will be REMOVED:
  qemu-utils
Remv qemu-utils [1:10.0.2+ds-2+deb13u1~bpo12+1]
Inst libfdt1 (1.6.1-4+b1 Debian:12.15/oldstable [amd64])
Inst qemu-system-x86 (1:7.2+dfsg-7+deb12u18+b3 Debian:12.15/oldstable [amd64])
Conf libfdt1 (1.6.1-4+b1 Debian:12.15/oldstable [amd64])
";
        assert_eq!(installed_by(simulation), ["libfdt1", "qemu-system-x86"]);
        assert_eq!(installed_by(""), [""; 0]);
    }
}
