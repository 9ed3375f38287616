//! Source of kernel symbols: a list like `/proc/kallsyms` with only the necessary symbols.

use std::{collections::BTreeSet, fs::File, io::Write as _, os::fd::OwnedFd, path::Path};

use blazesym::{
    MaybeDefault,
    symbolize::source::{Kernel, Source},
};
use rustix::fs::{MemfdFlags, memfd_create};
use wingbeat_bpf_loader::kernel_names::{KernelName, KernelNames};

use crate::foreign::path_of;

/// Symbols of kernel addresses.
#[derive(Debug, Default)]
pub(super) struct KernelSymbols {
    /// `None`: use the kernel's complete list.
    list: Option<File>,
}

impl KernelSymbols {
    /// Queries the kernel address by address, if it can name all of them.
    pub(super) fn of(addresses: impl Iterator<Item = u64>) -> Self {
        // With vmlinux, addresses are compared with those of symbols not in such a list.
        let list = if has_vmlinux() { None } else { list(addresses) };
        Self { list }
    }

    pub(super) fn source(&self) -> Source<'static> {
        let mut kernel = Kernel::default();
        if let Some(list) = &self.list {
            kernel.kallsyms = MaybeDefault::Some(path_of(list));
        }
        Source::Kernel(kernel)
    }
}

fn list(addresses: impl Iterator<Item = u64>) -> Option<File> {
    let names = KernelNames::load().ok()?;
    let found: BTreeSet<KernelName> =
        addresses.map(|address| names.at(address)).collect::<Option<_>>()?;
    let mut text = String::new();
    for KernelName { start, name } in found {
        text.push_str(&format!("{start:016x} t {name}\n"));
    }
    let file: OwnedFd = memfd_create("kallsyms", MemfdFlags::CLOEXEC).ok()?;
    let mut file = File::from(file);
    file.write_all(text.as_bytes()).ok()?;
    Some(file)
}

/// Whether the kernel's image is installed where blazesym looks for it.
fn has_vmlinux() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let folders = ["/boot", "/usr/lib/debug/boot"].map(Path::new);
    folders.iter().any(|folder| folder.join(format!("vmlinux-{release}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_name_is_looked_for_in_its_list() {
        assert!(KernelSymbols::of([0x1000].into_iter()).list.is_none());
    }
}
