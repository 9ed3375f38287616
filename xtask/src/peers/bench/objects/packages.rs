//! Debian's packages that carry eBPF objects, as folders of object files in the cache.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use wingbeat_ebpf_build::Toolchain;

use super::{
    super::output,
    carve,
    files::{self, Folder},
};

/// Packages of Debian 12 and later. Those that are missing from another release are left out.
const PACKAGES: [&str; 7] = [
    "libbpf-tools",
    "libxdp1",
    "xdp-tools",
    "xdp-tests",
    "golang-github-cilium-ebpf-dev",
    "ir-keytable",
    "pcp",
];

/// The folders of all packages that could be had, and what became of the others.
pub(super) fn folders() -> anyhow::Result<(Vec<Folder>, Vec<String>)> {
    let cache = Toolchain::cache_dir().join("objects");
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let (mut folders, mut notes) = (Vec::new(), Vec::new());
    for package in PACKAGES {
        match folder(&cache, package) {
            Ok(dir) => folders.push(Folder { origin: package.to_owned(), dir }),
            Err(error) => notes.push(format!("The package {package} was left out: {error:#}")),
        }
    }
    if folders.is_empty() {
        let notes = notes.join("\n");
        bail!("no package could be had; `apt-get update` may help, where apt exists\n{notes}");
    }
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
    let files = files::below(draft.path()).context("cannot read what apt-get downloaded")?;
    let deb = files.first().context("apt-get downloaded nothing")?;
    let (root, objects) = (draft.path().join("root"), draft.path().join("objects"));
    output(Command::new("dpkg-deb").arg("--extract").args([deb, &root]))?;
    if unpack(&root, &objects)? == 0 {
        bail!("this version of it has no eBPF objects");
    }
    fs::rename(&objects, &dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

/// Writes the objects of all files below `root` into a new folder, and counts them.
fn unpack(root: &Path, into: &Path) -> anyhow::Result<usize> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut written = 0;
    for file in files::below(root).with_context(|| format!("cannot read {}", root.display()))? {
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for (index, image) in carve::images(&bytes).into_iter().enumerate() {
            // Programs have the same name in several folders of one package.
            let stem = file.strip_prefix(root).unwrap_or(&file).with_extension("");
            let stem = stem.iter().map(OsStr::to_string_lossy).collect::<Vec<_>>().join("_");
            let target = into.join(name(&stem, index));
            fs::write(&target, image)
                .with_context(|| format!("cannot write {}", target.display()))?;
            written += 1;
        }
    }
    Ok(written)
}

/// Name of the file for the object with this index in a file: the plain name for the first.
fn name(stem: &str, index: usize) -> String {
    let stem = ["usr_bin_", "usr_sbin_", "usr_lib_", "usr_share_"]
        .into_iter()
        .find_map(|folder| stem.strip_prefix(folder))
        .unwrap_or(stem);
    match index {
        0 => format!("{stem}.o"),
        _ => format!("{stem}-{}.o", index + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::object::Work, *};

    #[test]
    fn objects_are_named_after_their_files() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (root, into) = (dir.path().join("root"), dir.path().join("objects"));
        let object = Work::of(5).object().expect("an object");
        for (file, objects) in [("usr/sbin/tool", 2), ("usr/lib/bpf/a.o", 1), ("etc/none", 0)] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, object.repeat(objects)).expect("a file");
        }
        assert_eq!(unpack(&root, &into).expect("it is readable"), 3);
        let found = files::below(&into).expect("a folder");
        let found: Vec<_> = found.iter().map(|file| files::name(file)).collect();
        assert_eq!(found, ["bpf_a.o", "tool-2.o", "tool.o"]);
    }
}
