//! The capabilities that matter here, and sets of them as `/proc` prints them.

use std::fmt;

use serde::{Serialize, Serializer};

/// A capability; the number is that of include/uapi/linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Read files whatever their permissions: executables that only others may read.
    DacReadSearch = 2,
    /// Load and attach network programs: XDP, tc.
    NetAdmin = 12,
    /// Look into processes of other users: `/proc/PID/exe`, `/proc/PID/root`.
    SysPtrace = 19,
    /// Nearly everything; includes the three at the end of this list.
    SysAdmin = 21,
    /// See kernel addresses in `/proc/kallsyms`.
    Syslog = 34,
    /// Watch all processes with perf events; load tracing programs, together with `Bpf`.
    Perfmon = 38,
    /// Create maps and load programs.
    Bpf = 39,
    /// Open the files behind mappings, `/proc/PID/map_files`: also those that were deleted.
    CheckpointRestore = 40,
}

impl Capability {
    /// The name in the form that `setcap` takes, e.g. `cap_bpf`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What is not possible without it, in a few words.
    pub fn purpose(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::DacReadSearch => {
                ("cap_dac_read_search", "symbols of files that this user may not read")
            }
            Self::NetAdmin => ("cap_net_admin", "XDP and tc programs"),
            Self::SysPtrace => ("cap_sys_ptrace", "processes of other users"),
            Self::SysAdmin => ("cap_sys_admin", "nearly everything"),
            Self::Syslog => ("cap_syslog", "names of kernel functions"),
            Self::Perfmon => ("cap_perfmon", "sampling all processes"),
            Self::Bpf => ("cap_bpf", "eBPF programs and maps"),
            Self::CheckpointRestore => ("cap_checkpoint_restore", "symbols of deleted files"),
        }
    }

    /// Whether `CAP_SYS_ADMIN` grants it too, as the kernel does for those split from it in Linux
    /// 5.8 and 5.9 (`bpf_capable`, `perfmon_capable`, `checkpoint_restore_ns_capable` in
    /// include/linux/capability.h).
    pub(super) fn is_part_of_sys_admin(self) -> bool {
        matches!(self, Self::Bpf | Self::Perfmon | Self::CheckpointRestore)
    }
}

impl fmt::Display for Capability {
    /// In capitals, as the manual pages write it: `CAP_BPF`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_ascii_uppercase())
    }
}

impl Serialize for Capability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A set of capabilities, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapabilitySet(u64);

impl CapabilitySet {
    /// The effective set in the text of a `/proc/PID/status`; `None` when there is none.
    pub fn from_status(status: &str) -> Option<Self> {
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self)
    }

    /// Whether `capability` itself is in the set.
    pub fn has(self, capability: Capability) -> bool {
        self.0 >> (capability as u8) & 1 == 1
    }
}
