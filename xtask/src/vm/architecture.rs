//! The machines that a guest can be: this one's, and aarch64, whose programs are built and fetched for it.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{aarch64, setup::Tool};

/// What of a virtual machine depends on its processor.
#[derive(Debug)]
pub(super) struct Architecture {
    /// As Debian calls it, in the names of packages.
    pub(super) name: &'static str,
    /// As QEMU calls it, and where it differs from this machine's as Rust does.
    pub(super) processor: &'static str,
    pub(super) emulator: Tool,
    /// For QEMU: the board, and the processor that it emulates.
    pub(super) board: &'static [&'static str],
    /// For QEMU: the second serial line, which the tests talk over.
    pub(super) line: &'static [&'static str],
    /// For the kernel: its console, and the second serial line, which it hands on to `init.sh`.
    pub(super) parameters: &'static str,
    /// Reads and writes programs for it.
    pub(super) objcopy: &'static str,
    /// Below `target`.
    folder: &'static str,
}

/// The clock is the processor's counter: under emulation each look at another one takes microseconds.
///
/// Without `cx16`: QEMU 7.2 computes wrong flags for that instruction, and an interrupt right behind it
/// makes a kernel crash on them, once in an hour of the guest's time.
pub(super) static AMD64: Architecture = Architecture {
    name: "amd64",
    processor: "x86_64",
    emulator: Tool {
        name: "qemu-system-x86_64",
        package: "qemu-system-x86",
        purpose: "virtual machines",
    },
    board: &["-cpu", "max,cx16=off"],
    line: &["-serial", "stdio"],
    parameters: "console=ttyS0 wingbeat_line=ttyS1 tsc=reliable clocksource=tsc",
    objcopy: "objcopy",
    folder: "vm",
};

/// Its processor signs return addresses where programs ask for that. The signature that the architecture
/// proposes would take the emulator most of its time, so it is another one.
pub(super) static ARM64: Architecture = Architecture {
    name: "arm64",
    processor: "aarch64",
    emulator: Tool {
        name: "qemu-system-aarch64",
        package: "qemu-system-arm",
        purpose: "virtual machines with aarch64",
    },
    board: &["-machine", "virt", "-cpu", "max,pauth-impdef=on,sve=off,sme=off"],
    line: &["-chardev", "stdio,id=line", "-device", "pci-serial,chardev=line"],
    parameters: "console=ttyAMA0 wingbeat_line=ttyS0",
    objcopy: aarch64::OBJCOPY,
    folder: "vm-aarch64",
};

impl Architecture {
    /// Does this machine run its programs?
    pub(super) fn is_native(&self) -> bool {
        self.processor == env::consts::ARCH
    }

    /// Where everything of its guests is kept.
    pub(super) fn place(&self, repository: &Path) -> PathBuf {
        repository.join("target").join(self.folder)
    }
}
