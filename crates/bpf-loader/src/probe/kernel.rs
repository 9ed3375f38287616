//! The kernel itself: version, types, switches.

use std::fs;

use super::{
    Finding, Host, Subject,
    Verb::{Annotate, Bench, Heap, Live, Profile, Top},
    advice, command,
};

/// Minimum supported kernel: the first with links for perf events.
const KERNEL_MIN: (u32, u32) = (5, 15);

/// This kernel is too old for `wingbeat profile`.
#[derive(Debug, thiserror::Error)]
#[error("recording needs Linux {}.{} or newer; this is {release}", KERNEL_MIN.0, KERNEL_MIN.1)]
pub struct TooOld {
    release: String,
}

impl TooOld {
    /// Fails if the kernel release is too old.
    pub fn check() -> Result<(), Self> {
        Self::check_release(&rustix::system::uname().release().to_string_lossy())
    }

    fn check_release(release: &str) -> Result<(), Self> {
        match super::release(release) {
            Some(version) if version < KERNEL_MIN => Err(Self { release: release.to_owned() }),
            _ => Ok(()),
        }
    }
}

/// Linux 5.15 or newer.
pub(super) fn version() -> Finding {
    const SUBJECT: Subject =
        Subject::new("kernel", "kernel", &[Profile, Heap, Bench, Annotate, Live, Top], &[]);
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    match super::release(&release) {
        Some(found) if found >= KERNEL_MIN => SUBJECT.works(format!("Linux {release}")),
        Some(_) => SUBJECT.missing(
            format!("Linux {release} is older than 5.15"),
            advice("install a kernel from 5.15 on"),
        ),
        None => SUBJECT.limited(
            format!("the release {release:?} has an unknown form"),
            advice("compare it with 5.15, the oldest that wingbeat supports"),
        ),
    }
}

/// x86-64 or aarch64.
pub(super) fn architecture() -> Finding {
    const SUBJECT: Subject = Subject::new(
        "architecture",
        "architecture",
        &[Profile, Heap, Bench, Annotate, Live, Top],
        &[],
    );
    let system = rustix::system::uname();
    match &*system.machine().to_string_lossy() {
        "x86_64" => SUBJECT.works("x86_64"),
        "aarch64" => SUBJECT.limited(
            "aarch64, on which wingbeat was tested only in an emulator, and only `profile`",
            advice("compare a first result with that of perf"),
        ),
        other => SUBJECT.missing(
            format!("{other} is not supported"),
            advice("use a machine with x86_64 or aarch64"),
        ),
    }
}

/// The kernel's types, from which structure offsets are read.
pub(super) fn btf(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("btf", "kernel types (BTF)", &[Profile, Heap], &[Bench]);
    match &host.types {
        Ok(types) => SUBJECT.works(format!("{} types", types.len())),
        Err(error) => SUBJECT
            .missing(error.to_string(), advice("boot a kernel built with CONFIG_DEBUG_INFO_BTF=y")),
    }
}

/// Whether programs are compiled to machine code.
pub(super) fn jit() -> Finding {
    const SUBJECT: Subject = Subject::new("jit", "JIT", &[], &[Profile, Bench, Top]);
    match super::line("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Ok("0") => SUBJECT.limited(
            "off: programs are interpreted, many times slower than where they will run",
            command("sudo sysctl net.core.bpf_jit_enable=1"),
        ),
        Ok(value) => SUBJECT.works(format!("on (net.core.bpf_jit_enable={value})")),
        // Only visible in the initial network namespace.
        Err(error) => SUBJECT.limited(
            format!("unknown: net.core.bpf_jit_enable cannot be read ({error})"),
            advice("check outside of this container"),
        ),
    }
}

/// The switch that makes the kernel time every program.
pub(super) fn statistics() -> Finding {
    const SUBJECT: Subject = Subject::new("bpf_stats", "BPF statistics", &[], &[Bench, Top]);
    match super::line("/proc/sys/kernel/bpf_stats_enabled").as_deref() {
        Ok("0") => SUBJECT.works("off (switched on while a verb needs it)"),
        Ok(value) => SUBJECT.limited(
            format!(
                "on (kernel.bpf_stats_enabled={value}): makes every program about 45 ns slower"
            ),
            command("sudo sysctl kernel.bpf_stats_enabled=0"),
        ),
        Err(error) => SUBJECT.limited(
            format!("unknown: kernel.bpf_stats_enabled cannot be read ({error})"),
            advice("check outside of this container"),
        ),
    }
}

/// Who may call bpf(2). Never a problem: wingbeat needs `CAP_BPF` in any case.
pub(super) fn unprivileged_bpf() -> Finding {
    const SUBJECT: Subject =
        Subject::new("unprivileged_bpf", "unprivileged eBPF", &[], &[Profile, Bench]);
    SUBJECT.works(match super::line("/proc/sys/kernel/unprivileged_bpf_disabled").as_deref() {
        Ok("0") => "on; wingbeat needs CAP_BPF anyway".to_owned(),
        Ok("1") => "off until reboot; CAP_BPF suffices".to_owned(),
        Ok(value) => format!("off ({value}); CAP_BPF suffices"),
        Err(error) => format!("unknown ({error}); CAP_BPF suffices in any case"),
    })
}

/// Lockdown: only its strictest mode hides kernel memory from programs.
pub(super) fn lockdown() -> Finding {
    const SUBJECT: Subject = Subject::new("lockdown", "lockdown", &[Profile, Heap], &[Bench]);
    let is_mounted = mounts().is_some_and(|mounts| super::is_mounted(&mounts, "securityfs"));
    let text = super::line("/sys/kernel/security/lockdown");
    match (text.as_deref().map(super::chosen), is_mounted) {
        (Ok(Some("confidentiality")), _) => SUBJECT.missing(
            "confidentiality: programs may not read kernel memory",
            advice("boot with `lockdown=integrity`, or without Secure Boot"),
        ),
        (Ok(Some(chosen)), _) => SUBJECT.works(format!("{chosen} (does not hinder)")),
        (Ok(None), _) => SUBJECT.limited(
            "unknown: /sys/kernel/security/lockdown has an unknown form",
            advice("look for `lockdown` in the kernel's log: `sudo dmesg`"),
        ),
        (Err(_), true) => SUBJECT.works("not part of this kernel"),
        (Err(_), false) => SUBJECT.limited(
            "unknown: securityfs is not mounted",
            command("sudo mount -t securityfs securityfs /sys/kernel/security"),
        ),
    }
}

/// The tracing file system. Not needed for raw tracepoints, but for other program types.
pub(super) fn tracefs() -> Finding {
    const SUBJECT: Subject = Subject::new("tracefs", "tracefs", &[], &[Bench]);
    match mounts() {
        Some(mounts) if super::is_mounted(&mounts, "tracefs") => SUBJECT.works("mounted"),
        _ => SUBJECT.missing(
            "not mounted; `profile` does not need it",
            command("sudo mount -t tracefs tracefs /sys/kernel/tracing"),
        ),
    }
}

fn mounts() -> Option<String> {
    fs::read_to_string("/proc/self/mounts").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_old_says_what_is_needed() {
        let check = |release: &str, expected: Option<&str>| {
            let found = TooOld::check_release(release).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), expected, "{release}");
        };
        check(
            "5.10.0-32-cloud-amd64",
            Some("recording needs Linux 5.15 or newer; this is 5.10.0-32-cloud-amd64"),
        );
        check("5.15.0-91-generic", None);
        check("7.2.13+deb14-cloud-amd64", None);
        check("unknown", None);
    }
}
