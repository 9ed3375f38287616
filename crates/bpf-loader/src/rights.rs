//! Capabilities of this process: held, required, and how to get the rest.
//!
//! The purpose of each was verified by trying every operation with each set; docs/doctor.md has the table.

use std::{env, fmt, fs, io, os::unix::fs::MetadataExt as _};

use rustix::process::geteuid;
use serde::{Serialize, Serializer};
use wingbeat_text::shell_word;

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
         processes cannot be identified; mount a matching one: `mount -t proc proc /proc` in a mount \
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

// Advice after a denied operation: `sudo` does not help root.

/// How this thread can get the capabilities that it `lacks` of those `needed`, or other possible
/// causes of a denial; an instruction for the end of a sentence, without a full stop.
pub fn how_to_get(needed: &[Capability]) -> String {
    match Rights::current() {
        Ok(rights) => advice(&rights, needed, geteuid().is_root()),
        Err(_) => "run it with sudo".to_owned(),
    }
}

fn advice(rights: &Rights, needed: &[Capability], is_root: bool) -> String {
    let missing: Vec<_> = needed.iter().filter(|&&needed| !rights.allow(needed)).collect();
    if missing.is_empty() {
        return "this process has the rights, so something else forbids it: a seccomp filter (a \
                container?), a security module, or the kernel's lockdown"
            .to_owned();
    }
    if !rights.count() {
        return "this process runs in a user namespace (a rootless container?), whose capabilities \
                do not apply to eBPF: run it outside"
            .to_owned();
    }
    if !is_root {
        return "run it with sudo".to_owned();
    }
    let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
    format!(
        "this process is root, but has no {}: start its container or service with these \
         capabilities, for example with `docker run --cap-add`",
        names.join(" and no ")
    )
}

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
    fn is_part_of_sys_admin(self) -> bool {
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

#[cfg(test)]
mod tests {
    use Capability::{Bpf, CheckpointRestore, DacReadSearch, Perfmon, SysAdmin, SysPtrace, Syslog};

    use super::*;

    fn rights(mask: &str, is_initial_user_namespace: bool) -> Rights {
        Rights { is_initial_user_namespace, ..Rights::with(mask) }
    }

    #[test]
    fn reads_the_effective_set() {
        fn check(status: &str, expected: Option<&[Capability]>) {
            let all = [SysAdmin, Syslog, Perfmon, Bpf];
            let found = CapabilitySet::from_status(status).map(|set| {
                all.into_iter().filter(|&capability| set.has(capability)).collect::<Vec<_>>()
            });
            assert_eq!(found.as_deref(), expected, "{status:?}");
        }
        check("CapPrm:\tffff\nCapEff:\t0000000000000000\n", Some(&[]));
        check("CapEff:\t000000c000000000\n", Some(&[Perfmon, Bpf]));
        check("CapEff:\t0000000400200000\n", Some(&[SysAdmin, Syslog]));
        check("CapEff:\tlots\n", None);
        check("CapPrm:\tffff\n", None);
        check("", None);
    }

    #[test]
    fn tells_what_profiling_lacks() {
        fn check(rights: Rights, missing: &[Capability], extras: &[Capability]) {
            assert_eq!(rights.missing_for_profile(), missing);
            assert_eq!(rights.missing_extras_for_profile(), extras);
        }
        let extras = [SysPtrace, CheckpointRestore, DacReadSearch, Syslog];
        check(rights("000001ffffffffff", true), &[], &[]);
        check(rights("0", true), &[Bpf, Perfmon], &extras);
        check(rights("8000000000", true), &[Perfmon], &extras);
        check(rights("c000000000", true), &[], &extras);
        // CAP_SYS_ADMIN alone.
        check(rights("200000", true), &[], &[SysPtrace, DacReadSearch, Syslog]);
        check(rights("000001ffffffffff", false), &[Bpf, Perfmon], &extras);
    }

    #[test]
    fn whose_numbers_proc_shows() {
        fn check(status: &str, expected: bool) {
            assert_eq!(is_proc_own(status), expected, "{status:?}");
        }
        check("Name:\ta\nNSpid:\t4711\nNSpgid:\t1\t2\n", true);
        check("Name:\ta\nNSpid:\t4711\t2\n", false);
        check("Name:\ta\n", true);
        let rights = Rights { is_proc_own: false, ..Rights::with("c000000000") };
        assert_eq!(rights.check_for_profile(), Err(MissingRights::ForeignProc));
    }

    #[test]
    fn tells_how_to_run() {
        fn check(rights: Rights, expected: &[&str]) {
            let error = rights.check_for_profile().unwrap_err().to_string();
            for part in expected {
                assert!(error.contains(part), "{error}");
            }
        }
        check(
            rights("0", true),
            &["CAP_BPF and CAP_PERFMON are missing", "`sudo`", "sudo setcap cap_bpf,cap_perfmon,"],
        );
        check(rights("8000000000", true), &["CAP_PERFMON is missing; run it with"]);
        check(rights("000001ffffffffff", false), &["rootless container"]);
        assert_eq!(rights("c000000000", true).check_for_profile(), Ok(()));
    }

    #[test]
    fn reads_this_process() {
        let rights = Rights::current().unwrap();
        assert_eq!(rights.missing_for_profile().is_empty(), rights.check_for_profile().is_ok());
    }

    #[test]
    fn advice_for_everybody() {
        let check = |mask, is_initial, is_root, expected: &str| {
            let rights = Rights { is_initial_user_namespace: is_initial, ..Rights::with(mask) };
            let found = advice(&rights, &[Bpf, Capability::NetAdmin], is_root);
            assert!(found.starts_with(expected), "{found}");
        };
        check("0", true, false, "run it with sudo");
        check("0", true, true, "this process is root, but has no CAP_BPF and no CAP_NET_ADMIN: ");
        check("1000", true, true, "this process is root, but has no CAP_BPF: ");
        check("1ffffffffff", true, true, "this process has the rights, so something else");
        check("8000001000", true, false, "this process has the rights, so something else");
        check("1ffffffffff", false, true, "this process runs in a user namespace");
    }
}
