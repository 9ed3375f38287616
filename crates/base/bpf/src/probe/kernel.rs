//! The kernel itself: version, types, switches.

use std::fs;

use super::{
    Finding, Host, NextStep, Subject,
    Verb::{Annotate, Bench, Live, Profile, Top},
    reading,
};

/// The oldest kernel that wingbeat is made for: the first with links for perf events.
const KERNEL_MIN: (u32, u32) = (5, 15);

/// Linux 5.15 or newer.
pub(super) fn version() -> Finding {
    const SUBJECT: Subject = Subject {
        id: "kernel",
        name: "kernel",
        needed_by: &[Profile, Bench, Annotate, Live, Top],
        helps: &[],
    };
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    match reading::release(&release) {
        Some(found) if found >= KERNEL_MIN => SUBJECT.works(format!("Linux {release}")),
        Some(_) => SUBJECT.missing(
            format!("Linux {release} is older than 5.15"),
            NextStep::Advice("install a kernel from 5.15 on".to_owned()),
        ),
        None => SUBJECT.limited(
            format!("the release {release:?} has an unknown form"),
            NextStep::Advice("compare it with 5.15, the oldest that wingbeat supports".to_owned()),
        ),
    }
}

/// x86-64 or aarch64.
pub(super) fn architecture() -> Finding {
    const SUBJECT: Subject = Subject {
        id: "architecture",
        name: "architecture",
        needed_by: &[Profile, Bench, Annotate, Live, Top],
        helps: &[],
    };
    let system = rustix::system::uname();
    match &*system.machine().to_string_lossy() {
        "x86_64" => SUBJECT.works("x86_64"),
        "aarch64" => SUBJECT.limited(
            "aarch64, on which wingbeat is built but not tested",
            NextStep::Advice("compare a first result with that of perf".to_owned()),
        ),
        other => SUBJECT.missing(
            format!("{other} is not supported"),
            NextStep::Advice("use a machine with x86_64 or aarch64".to_owned()),
        ),
    }
}

/// The kernel's types, from which the offsets in its structures are read.
pub(super) fn btf(host: &Host) -> Finding {
    const SUBJECT: Subject =
        Subject { id: "btf", name: "kernel types (BTF)", needed_by: &[Profile], helps: &[Bench] };
    match &host.types {
        Ok(types) => SUBJECT.works(format!("{} types", types.len())),
        Err(error) => SUBJECT.missing(
            error.to_string(),
            NextStep::Advice("boot a kernel built with CONFIG_DEBUG_INFO_BTF=y".to_owned()),
        ),
    }
}

/// Whether programs are compiled to machine code.
pub(super) fn jit() -> Finding {
    const SUBJECT: Subject =
        Subject { id: "jit", name: "JIT", needed_by: &[], helps: &[Profile, Bench, Top] };
    match reading::line("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Ok("0") => SUBJECT.limited(
            "off: programs are interpreted, many times slower than where they will run",
            NextStep::Command("sudo sysctl net.core.bpf_jit_enable=1".to_owned()),
        ),
        Ok(value) => SUBJECT.works(format!("on (net.core.bpf_jit_enable={value})")),
        // Linux shows it in the first network namespace only.
        Err(error) => SUBJECT.limited(
            format!("unknown: net.core.bpf_jit_enable cannot be read ({error})"),
            NextStep::Advice("check outside of this container".to_owned()),
        ),
    }
}

/// The switch that makes the kernel time every program.
pub(super) fn statistics() -> Finding {
    const SUBJECT: Subject =
        Subject { id: "bpf_stats", name: "BPF statistics", needed_by: &[], helps: &[Bench, Top] };
    match reading::line("/proc/sys/kernel/bpf_stats_enabled").as_deref() {
        Ok("0") => SUBJECT.works("off (switched on while a verb needs it)"),
        Ok(value) => SUBJECT.limited(
            format!("on (kernel.bpf_stats_enabled={value}): makes every program some 45 ns slower"),
            NextStep::Command("sudo sysctl kernel.bpf_stats_enabled=0".to_owned()),
        ),
        Err(error) => SUBJECT.limited(
            format!("unknown: kernel.bpf_stats_enabled cannot be read ({error})"),
            NextStep::Advice("check outside of this container".to_owned()),
        ),
    }
}

/// Who may call bpf(2). Never in the way: what wingbeat does takes `CAP_BPF` in any case.
pub(super) fn unprivileged_bpf() -> Finding {
    const SUBJECT: Subject = Subject {
        id: "unprivileged_bpf",
        name: "unprivileged eBPF",
        needed_by: &[],
        helps: &[Profile, Bench],
    };
    SUBJECT.works(match reading::line("/proc/sys/kernel/unprivileged_bpf_disabled").as_deref() {
        Ok("0") => "on; wingbeat needs CAP_BPF anyway".to_owned(),
        Ok("1") => "off until reboot; CAP_BPF suffices".to_owned(),
        Ok(value) => format!("off ({value}); CAP_BPF suffices"),
        Err(error) => format!("unknown ({error}); CAP_BPF suffices in any case"),
    })
}

/// Lockdown: only its strictest form hides kernel memory from programs.
pub(super) fn lockdown() -> Finding {
    const SUBJECT: Subject =
        Subject { id: "lockdown", name: "lockdown", needed_by: &[Profile], helps: &[Bench] };
    let is_mounted = mounts().is_some_and(|mounts| reading::is_mounted(&mounts, "securityfs"));
    let text = reading::line("/sys/kernel/security/lockdown");
    match (text.as_deref().map(reading::chosen), is_mounted) {
        (Ok(Some("confidentiality")), _) => SUBJECT.missing(
            "confidentiality: programs may not read kernel memory",
            NextStep::Advice("boot with `lockdown=integrity`, or without Secure Boot".to_owned()),
        ),
        (Ok(Some(chosen)), _) => SUBJECT.works(format!("{chosen} (does not hinder)")),
        (Ok(None), _) => SUBJECT.limited(
            "unknown: /sys/kernel/security/lockdown has an unknown form",
            NextStep::Advice("look for `lockdown` in the kernel's log: `sudo dmesg`".to_owned()),
        ),
        (Err(_), true) => SUBJECT.works("not part of this kernel"),
        (Err(_), false) => SUBJECT.limited(
            "unknown: securityfs is not mounted",
            NextStep::Command(
                "sudo mount -t securityfs securityfs /sys/kernel/security".to_owned(),
            ),
        ),
    }
}

/// The file system of the tracer. Raw tracepoints do without; programs of other types do not.
pub(super) fn tracefs() -> Finding {
    const SUBJECT: Subject =
        Subject { id: "tracefs", name: "tracefs", needed_by: &[], helps: &[Bench] };
    match mounts() {
        Some(mounts) if reading::is_mounted(&mounts, "tracefs") => SUBJECT.works("mounted"),
        _ => SUBJECT.missing(
            "not mounted; `profile` does not need it",
            NextStep::Command("sudo mount -t tracefs tracefs /sys/kernel/tracing".to_owned()),
        ),
    }
}

fn mounts() -> Option<String> {
    fs::read_to_string("/proc/self/mounts").ok()
}
