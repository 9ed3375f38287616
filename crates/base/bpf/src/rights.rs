//! Which capabilities this process holds, which the work needs, and how to get the rest.
//!
//! What each is for was found by trying every operation with each set, not by reading alone;
//! docs/doctor.md has the table.

mod advice;
mod capability;
#[cfg(test)]
mod tests;

use std::{env, fs, io, os::unix::fs::MetadataExt as _};

use wingbeat_text::shell_word;

pub use advice::how_to_get;
pub use capability::{Capability, CapabilitySet};

/// Inode of `/proc/self/ns/user` in the first user namespace (`PROC_USER_INIT_INO` of
/// include/uapi/linux/nsfs.h, include/linux/proc_ns.h before Linux 6.18).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Inode of `/proc/self/ns/pid` in the first PID namespace (`PROC_PID_INIT_INO` of the same files).
pub(crate) const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// What this process may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    held: CapabilitySet,
    /// bpf(2) and perf_event_open(2) count capabilities in the first user namespace only, so those
    /// that root has in a rootless container are worth nothing here.
    is_initial_user_namespace: bool,
    is_initial_pid_namespace: bool,
    /// `/proc` shows the numbers of our PID namespace.
    is_proc_own: bool,
}

/// What `wingbeat profile` cannot do without.
const FOR_PROFILE: [Capability; 2] = [Capability::Bpf, Capability::Perfmon];

/// What it can do without, at the price of names or of other users' processes.
const EXTRAS_FOR_PROFILE: [Capability; 4] = [
    Capability::SysPtrace,
    Capability::CheckpointRestore,
    Capability::DacReadSearch,
    Capability::Syslog,
];

/// A verb cannot run for want of rights. The text says how to run it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingRights {
    #[error("{} missing; run it with `sudo`, or grant it to the binary once: `{}`", names(.0), how_to_grant())]
    Capabilities(Vec<Capability>),
    /// The process is in a user namespace of its own, such as a rootless container.
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
    /// The rights of this thread now; threads of one process may have different ones.
    pub fn current() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/thread-self/status")?;
        let held = CapabilitySet::from_status(&status).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "/proc/thread-self/status has no line `CapEff:`",
            )
        })?;
        // A kernel without user namespaces has no such file, and then there is only the first.
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

    /// Whether the kernel lets this process do what `capability` stands for. `CAP_SYS_ADMIN`
    /// includes those that were split from it.
    pub fn allow(&self, capability: Capability) -> bool {
        self.is_initial_user_namespace && self.holds(capability)
    }

    /// Whether this process is in a PID namespace other than the first, as in a container: the kernel
    /// gives programs in it other numbers than `/proc` shows.
    pub fn is_in_pid_namespace(&self) -> bool {
        !self.is_initial_pid_namespace
    }

    /// Whether capabilities count at all: not in a user namespace other than the first.
    pub fn count(&self) -> bool {
        self.is_initial_user_namespace
    }

    /// What `wingbeat profile` needs and this process has not; empty when it can run.
    pub fn missing_for_profile(&self) -> Vec<Capability> {
        FOR_PROFILE.into_iter().filter(|&capability| !self.allow(capability)).collect()
    }

    /// What `wingbeat profile` would use and this process has not: without them, names of frames
    /// or processes of other users are missing.
    pub fn missing_extras_for_profile(&self) -> Vec<Capability> {
        EXTRAS_FOR_PROFILE.into_iter().filter(|&capability| !self.allow(capability)).collect()
    }

    /// Those that matter to wingbeat and are held, `CAP_SYS_ADMIN` among them.
    pub fn held(&self) -> Vec<Capability> {
        let relevant = FOR_PROFILE.into_iter().chain(EXTRAS_FOR_PROFILE);
        relevant
            .chain([Capability::SysAdmin, Capability::NetAdmin])
            .filter(|&capability| self.held.has(capability))
            .collect()
    }

    /// `Ok` when `wingbeat profile` can run; else what is missing, with a text that tells how to run.
    pub fn check_for_profile(&self) -> Result<(), MissingRights> {
        let missing = self.missing_for_profile();
        match (missing.is_empty(), self.is_initial_user_namespace) {
            (true, _) if !self.is_proc_own => Err(MissingRights::ForeignProc),
            (true, _) => Ok(()),
            (false, true) => Err(MissingRights::Capabilities(missing)),
            (false, false) => Err(MissingRights::UserNamespace),
        }
    }

    /// Rights in the first user namespace with this mask, in hexadecimal.
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

/// Was `/proc` mounted in our PID namespace? It lists our numbers from its own namespace inwards, and the
/// last is that of ours (fs/proc/array.c, since 4.1).
pub(crate) fn is_proc_own(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_none_or(|numbers| numbers.split_whitespace().count() == 1)
}

/// The command that gives this binary all that `wingbeat profile` uses, once and for every user.
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
