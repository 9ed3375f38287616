//! Architectures of guests: this machine's, and aarch64, whose programs are cross-compiled and downloaded.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{aarch64, setup::Tool};

/// Architecture-dependent parts of a virtual machine.
#[derive(Debug)]
pub(super) struct Architecture {
    /// Debian's name, used in package names.
    pub(super) name: &'static str,
    /// QEMU's name; for a foreign architecture also Rust's.
    pub(super) processor: &'static str,
    pub(super) emulator: Tool,
    /// QEMU flags: the board, and the emulated processor.
    pub(super) board: &'static [&'static str],
    /// QEMU flags: the second serial line, used by the tests.
    pub(super) line: &'static [&'static str],
    /// Kernel parameters: the console, and the second serial line, passed on to `init.sh`.
    pub(super) parameters: &'static str,
    /// Handles object files of this architecture.
    pub(super) objcopy: &'static str,
    /// Below `target`.
    folder: &'static str,
}

/// The clock is the TSC: under emulation each read of another one takes microseconds.
///
/// Without `cx16`: QEMU 7.2 computes wrong flags for that instruction, and an interrupt right after it crashes the
/// kernel about once per hour of guest time.
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

/// The processor supports pointer authentication. The architecture's default algorithm would take most of the
/// emulator's time, so uses another one.
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
    /// Whether this machine runs its programs natively.
    pub(super) fn is_native(&self) -> bool {
        self.processor == env::consts::ARCH
    }

    /// Folder of all its guests' files.
    pub(super) fn place(&self, repository: &Path) -> PathBuf {
        repository.join("target").join(self.folder)
    }
}
