//! The guest's initramfs: a cpio archive with busybox, the modules to mount the disk, and the script of this run.
//!
//! The format is `newc` of the kernel's Documentation/driver-api/early-userspace/buffer-format.rst: a header of
//! hexadecimal fields for each file, name and data padded to four bytes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

use super::kernel::Kernel;
use xtask::folders::below;

/// The first program, in the initramfs.
const INIT: &str = include_str!("init.sh");

/// Modules in load order, after their dependencies on most kernels: of the disk, of its file system, of the test
/// networks, of other file systems. Built-in ones have no file and are skipped.
const MODULES: &str = "
    virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk
    crc16 crc32c_generic libcrc32c mbcache jbd2 ext4
    veth dummy sch_ingress cls_bpf act_bpf
    overlay loop";

/// Modes of a file and of a folder, as in `st_mode`.
const FILE: u32 = 0o100_755;
const FOLDER: u32 = 0o040_755;

/// The archive for a kernel, with the script of this run.
pub(super) fn build(busybox: &Path, kernel: &Kernel, script: &str) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc", "root", "sys"] {
        archive.add(folder, FOLDER, &[]);
    }
    archive.add("bin/busybox", FILE, &read(busybox)?);
    archive.add("init", FILE, INIT.as_bytes());
    archive.add("script", FILE, script.as_bytes());
    if let Some(path) = &kernel.configuration {
        archive.add("configuration", FILE, &read(path)?);
    }
    if let Some(folder) = &kernel.modules {
        for (order, file) in found(folder)?.iter().enumerate() {
            archive.add(&format!("modules/{order:02}.ko"), FILE, &unpacked(file)?);
        }
    }
    Ok(archive.finish())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The existing module files, in the order of [`MODULES`].
fn found(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    // A kernel with everything built in has a folder without modules.
    let kernel = folder.join("kernel");
    let files = if kernel.is_dir() { below(&kernel)? } else { Vec::new() };
    let of_name = |name: &str| {
        let is_it = |file: &&PathBuf| {
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            file.split_once(".ko").is_some_and(|(stem, _)| stem.replace('-', "_") == name)
        };
        files.iter().find(is_it).cloned()
    };
    Ok(MODULES.split_whitespace().filter_map(of_name).collect())
}

/// Busybox loads only uncompressed modules.
fn unpacked(file: &Path) -> anyhow::Result<Vec<u8>> {
    let program = match file.extension().and_then(|it| it.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return read(file),
    };
    let mut command = Command::new(program);
    let output = command.arg("-dc").arg(file).stdin(Stdio::null()).output();
    let output = output.with_context(|| {
        format!("cannot run {program}, which unpacks {}: install it", file.display())
    })?;
    if !output.status.success() {
        bail!("`{program} -dc {}` failed ({})", file.display(), output.status);
    }
    Ok(output.stdout)
}

/// An archive being written.
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<u8>,
    files: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.files += 1;
        let fields = [
            self.files,
            mode,
            0, // user
            0, // group
            1, // links
            0, // time
            u32::try_from(data.len()).unwrap_or(u32::MAX),
            0, // device of the file system, major and minor
            0,
            0, // device of a special file, major and minor
            0,
            u32::try_from(name.len() + 1).unwrap_or(u32::MAX),
            0, // no checksum
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_the_form_that_the_kernel_reads() {
        let mut archive = Archive::default();
        archive.add("a", FILE, b"text!");
        let bytes = archive.finish();
        let text = String::from_utf8(bytes.clone()).expect("ASCII");
        let expected = "07070100000001000081ed000000000000000000000001000000000000000500000000\
                        000000000000000000000000000000020000000\x30a\0text!\0\0\0";
        assert_eq!(text[..expected.len()], *expected);
        assert!(text[expected.len()..].starts_with("07070100000002"), "{text}");
        assert!(text.ends_with("TRAILER!!!\0\0\0\0") && bytes.len().is_multiple_of(4), "{text}");
    }

    #[test]
    fn modules_come_in_the_order_of_their_needs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let names = ["net/veth.ko.xz", "block/virtio_blk.ko", "virtio/virtio.ko", "net/vet.ko"];
        for name in names {
            let path = folder.path().join("kernel").join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, "").expect("written");
        }
        let files = found(folder.path()).expect("a folder");
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
        assert_eq!(names, ["virtio.ko", "virtio_blk.ko", "veth.ko.xz"]);
    }
}
