//! Capabilities of this process: held, required, and how to get the rest.
//!
//! The purpose of each was verified by trying every operation with each set; docs/doctor.md has the table.

mod advice;
mod capability;
#[cfg(test)]
mod tests;

use std::{env, fs, io, os::unix::fs::MetadataExt as _};

use wingbeat_text::shell_word;

pub use advice::how_to_get;
pub use capability::{Capability, CapabilitySet};

/// Inode of `/proc/self/ns/user` in the initial user namespace (`PROC_USER_INIT_INO` of
/// include/uapi/linux/nsfs.h, include/linux/proc_ns.h before Linux 6.18).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Inode of `/proc/self/ns/pid` in the initial PID namespace (`PROC_PID_INIT_INO` of the same files).
pub(crate) const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Privileges of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    held: CapabilitySet,
    /// bpf(2) and perf_event_open(2) respect only capabilities in the initial user namespace, so
    /// those of root in a rootless container are useless here.
    is_initial_user_namespace: bool,
    is_initial_pid_namespace: bool,
    /// Whether `/proc` shows the numbers of our PID namespace.
    is_proc_own: bool,
}

/// Capabilities that `wingbeat profile` requires.
const FOR_PROFILE: [Capability; 2] = [Capability::Bpf, Capability::Perfmon];

/// Optional capabilities, without which names or other users' processes are missing.
const EXTRAS_FOR_PROFILE: [Capability; 4] = [
    Capability::SysPtrace,
    Capability::CheckpointRestore,
    Capability::DacReadSearch,
    Capability::Syslog,
];

/// A verb cannot run due to missing privileges. The message says how to run it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingRights {
    #[error("{} missing; run it with `sudo`, or grant it to the binary once: `{}`", names(.0), how_to_grant())]
    Capabilities(Vec<Capability>),
    /// The process is in a non-initial user namespace, such as a rootless container.
    #[error(
        "this process runs in a user namespace (a rootless container?), whose capabilities do not \
         apply to eBPF and perf events; run it outside, or in a container that is not rootless"
    )]
    UserNamespace,
    /// `/proc` was mounted in another PID namespace.
    #[error(
        "this process runs in a PID namespace of its own, and /proc shows the PIDs of another, so \
         processes cannot be told apart; mount one that fits: `mount -t proc proc /proc` in a mount \
         namespace of its own, as `unshare --pid --fork --mount-proc` does"
    )]
    ForeignProc,
}

impl Rights {
    /// Current privileges of this thread; threads of one process may differ.
    pub fn current() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/thread-self/status")?;
        let held = CapabilitySet::from_status(&status).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "/proc/thread-self/status has no line `CapEff:`",
            )
        })?;
        // Without support for user namespaces the file is missing, and there is only the initial one.
        let is_initial = |name: &str, inode: u64| {
            fs::metadata(format!("/proc/self/ns/{name}"))
                .map_or(true, |namespace| namespace.ino() == inode)
        };
        Ok(Self {
            held,
            is_initial_user_namespace: is_initial("user", INITIAL_USER_NAMESPACE),
            is_initial_pid_namespace: is_initial("pid", INITIAL_PID_NAMESPACE),
            is_proc_own: is_proc_own(&status),
        })
    }

    /// Whether the kernel allows this process what `capability` stands for. `CAP_SYS_ADMIN`
    /// includes those that were split from it.
    pub fn allow(&self, capability: Capability) -> bool {
        self.is_initial_user_namespace && self.holds(capability)
    }

    /// Whether this process is in a non-initial PID namespace, as in a container: programs then see
    /// other numbers than `/proc` shows.
    pub fn is_in_pid_namespace(&self) -> bool {
        !self.is_initial_pid_namespace
    }

    /// Whether capabilities are effective: only in the initial user namespace.
    pub fn count(&self) -> bool {
        self.is_initial_user_namespace
    }

    /// Capabilities that `wingbeat profile` requires and this process lacks; empty if it can run.
    pub fn missing_for_profile(&self) -> Vec<Capability> {
        FOR_PROFILE.into_iter().filter(|&capability| !self.allow(capability)).collect()
    }

    /// Optional capabilities of `wingbeat profile` that this process lacks: without them, names of
    /// frames or processes of other users are missing.
    pub fn missing_extras_for_profile(&self) -> Vec<Capability> {
        EXTRAS_FOR_PROFILE.into_iter().filter(|&capability| !self.allow(capability)).collect()
    }

    /// Relevant capabilities that are held, including `CAP_SYS_ADMIN`.
    pub fn held(&self) -> Vec<Capability> {
        let relevant = FOR_PROFILE.into_iter().chain(EXTRAS_FOR_PROFILE);
        relevant
            .chain([Capability::SysAdmin, Capability::NetAdmin])
            .filter(|&capability| self.held.has(capability))
            .collect()
    }

    /// `Ok` if `wingbeat profile` can run; else what is missing, with a message that says how to run.
    pub fn check_for_profile(&self) -> Result<(), MissingRights> {
        let missing = self.missing_for_profile();
        match (missing.is_empty(), self.is_initial_user_namespace) {
            (true, _) if !self.is_proc_own => Err(MissingRights::ForeignProc),
            (true, _) => Ok(()),
            (false, true) => Err(MissingRights::Capabilities(missing)),
            (false, false) => Err(MissingRights::UserNamespace),
        }
    }

    /// Capabilities in the initial user namespace, from a hexadecimal mask.
    #[cfg(test)]
    pub(crate) fn with(mask: &str) -> Self {
        let held = CapabilitySet::from_status(&format!("CapEff:\t{mask}\n")).unwrap_or_default();
        Self {
            held,
            is_initial_user_namespace: true,
            is_initial_pid_namespace: true,
            is_proc_own: true,
        }
    }

    fn holds(&self, capability: Capability) -> bool {
        let by_admin = capability.is_part_of_sys_admin() && self.held.has(Capability::SysAdmin);
        by_admin || self.held.has(capability)
    }
}

/// Whether `/proc` was mounted in our PID namespace. It lists our PIDs from its own namespace
/// inwards, and the last is that of ours (fs/proc/array.c, since 4.1).
pub(crate) fn is_proc_own(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_none_or(|numbers| numbers.split_whitespace().count() == 1)
}

/// Command that grants this binary everything `wingbeat profile` uses, once and for every user.
pub fn how_to_grant() -> String {
    let capabilities = FOR_PROFILE.into_iter().chain(EXTRAS_FOR_PROFILE);
    let list = capabilities.map(Capability::name).collect::<Vec<_>>().join(",");
    let binary = env::current_exe().map_or_else(
        |_| "wingbeat".to_owned(),
        |path| shell_word(&path.to_string_lossy()).into_owned(),
    );
    format!("sudo setcap {list}+ep {binary}")
}

/// `CAP_BPF and CAP_PERFMON are`, for the beginning of a sentence.
fn names(capabilities: &[Capability]) -> String {
    let names: Vec<_> = capabilities.iter().map(ToString::to_string).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(" and "))
}
