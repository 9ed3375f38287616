//! The relevant capabilities, and sets of them in the format of `/proc`.

use std::fmt;

use serde::{Serialize, Serializer};

/// A capability; the number is that of include/uapi/linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Read files regardless of permissions: executables that only others may read.
    DacReadSearch = 2,
    /// Load and attach network programs: XDP, tc.
    NetAdmin = 12,
    /// Inspect processes of other users: `/proc/PID/exe`, `/proc/PID/root`.
    SysPtrace = 19,
    /// Nearly everything; includes the three at the end of this list.
    SysAdmin = 21,
    /// See kernel addresses in `/proc/kallsyms`.
    Syslog = 34,
    /// Observe all processes with perf events; load tracing programs, together with `Bpf`.
    Perfmon = 38,
    /// Create maps and load programs.
    Bpf = 39,
    /// Open the files behind mappings, `/proc/PID/map_files`, including deleted ones.
    CheckpointRestore = 40,
}

impl Capability {
    /// The name for `setcap`, e.g. `cap_bpf`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What it is needed for, in a few words.
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
    /// In capitals, as in manual pages: `CAP_BPF`.
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
    /// Parses the effective set in `/proc/PID/status`; `None` if it is missing.
    pub fn from_status(status: &str) -> Option<Self> {
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self)
    }

    /// Whether `capability` itself is in the set.
    pub fn has(self, capability: Capability) -> bool {
        self.0 >> (capability as u8) & 1 == 1
    }
}
