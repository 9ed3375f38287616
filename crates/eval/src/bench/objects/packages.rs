//! Debian's packages that carry eBPF objects, as folders of object files in the cache.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use wingbeat_bpf_build::Toolchain;
use xtask::folders::below;

use super::{
    carve,
    files::{self, Folder},
};
use crate::comparison::output;

/// Packages of Debian 12 and later. Those that are missing from another release are left out.
const PACKAGES: &str = "libbpf-tools libxdp1 xdp-tools xdp-tests golang-github-cilium-ebpf-dev \
                        ir-keytable pcp";

/// File beside the objects of a package with its version.
const VERSION: &str = "version";

/// The folders of all packages that could be had; then their versions, and what became of the others.
pub(super) fn folders() -> anyhow::Result<(Vec<Folder>, Vec<String>)> {
    let cache = Toolchain::cache_dir().join("objects");
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let (mut folders, mut notes, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for package in PACKAGES.split_whitespace() {
        match folder(&cache, package) {
            Ok(dir) => {
                let version = fs::read_to_string(dir.join(VERSION)).unwrap_or_default();
                versions.push(format!("{package} {}", version.trim()));
                folders.push(Folder { origin: package.to_owned(), dir });
            }
            Err(error) => notes.push(format!("The package {package} was left out: {error:#}")),
        }
    }
    if folders.is_empty() {
        let notes = notes.join("\n");
        bail!("no package could be had; `apt-get update` may help, where apt exists\n{notes}");
    }
    notes.insert(0, format!("Debian's packages: {}.", versions.join(", ")));
    Ok((folders, notes))
}

/// The objects of a package, from the cache or from apt. Nothing is installed.
fn folder(cache: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let dir = cache.join(package);
    if dir.is_dir() {
        return Ok(dir);
    }
    eprintln!("getting the objects of {package}");
    let draft = tempfile::tempdir_in(cache).context("cannot create a temporary folder")?;
    output(Command::new("apt-get").args(["download", "-q", package]).current_dir(draft.path()))?;
    let files = below(draft.path())?;
    let deb = files.first().context("apt-get downloaded nothing")?;
    let (root, objects) = (draft.path().join("root"), draft.path().join("objects"));
    output(Command::new("dpkg-deb").arg("--extract").args([deb, &root]))?;
    if unpack(&root, &objects)? == 0 {
        bail!("this version of it has no eBPF objects");
    }
    let version = output(Command::new("dpkg-deb").arg("--field").arg(deb).arg("Version"))?;
    fs::write(objects.join(VERSION), version).context("cannot write the version")?;
    fs::rename(&objects, &dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

/// Writes the objects of all files below `root` into a new folder, and counts them.
fn unpack(root: &Path, into: &Path) -> anyhow::Result<usize> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut names: HashMap<String, usize> = HashMap::new();
    for file in below(root)? {
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for image in carve::images(&bytes) {
            let name = files::name(&file);
            let stem = name.strip_suffix(".o").unwrap_or(&name);
            // Others may have the same name: of the same file, or of another folder.
            let count = names.entry(stem.to_owned()).or_default();
            *count += 1;
            let target = into.join(match count {
                1 => format!("{stem}.o"),
                count => format!("{stem}-{count}.o"),
            });
            fs::write(&target, image)
                .with_context(|| format!("cannot write {}", target.display()))?;
        }
    }
    Ok(names.values().sum())
}

#[cfg(test)]
mod tests {
    use super::{super::super::object::Work, *};

    #[test]
    fn objects_are_named_after_their_files() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (root, into) = (dir.path().join("root"), dir.path().join("objects"));
        let object = Work::of(5).object().expect("an object");
        for (file, objects) in [("sbin/tool", 2), ("lib/a.o", 1), ("lib/b/a.o", 1), ("none", 0)] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, object.repeat(objects)).expect("a file");
        }
        assert_eq!(unpack(&root, &into).expect("it is readable"), 4);
        let found = below(&into).expect("a folder");
        let found: Vec<_> = found.iter().map(|file| files::name(file)).collect();
        assert_eq!(found, ["a-2.o", "a.o", "tool-2.o", "tool.o"]);
    }
}
