//! This process and its environment: privileges, namespaces, limits, tools.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
};

use rustix::process::{Resource, getrlimit};
use wingbeat_bpf_build::Toolchain;

use super::{
    Finding, Host, Refusal, Subject,
    Verb::{Annotate, Bench, Build, Heap, Live, Profile, Top},
    advice, command,
};
use crate::{
    loader::CounterEvent,
    perf,
    rights::{
        Capability::{self, Perfmon},
        INITIAL_PID_NAMESPACE, is_proc_own,
    },
    sys,
};

/// Bytes read of `/proc/kallsyms`: some thousand symbols.
const KALLSYMS_HEAD_LEN: u64 = 64 << 10;

/// Capabilities held and missing.
pub(super) fn capabilities(host: &Host) -> Finding {
    const SUBJECT: Subject =
        Subject::new("capabilities", "capabilities", &[Profile, Heap], &[Bench, Live, Top]);
    let rights = match &host.rights {
        Ok(rights) => rights,
        Err(error) => {
            return SUBJECT.limited(
                format!("unknown: /proc/self/status cannot be read ({error})"),
                command("sudo mount -t proc proc /proc"),
            );
        }
    };
    let held = joined(&rights.held(), |one| one.name().to_owned());
    if !rights.count() {
        let detail = format!("{held} held, but in a user namespace, where they do not apply");
        return SUBJECT.missing(detail, host.more_rights());
    }
    let with_purpose = |one: Capability| format!("{} ({})", one.name(), one.purpose());
    let needed = rights.missing_for_profile();
    let extras = rights.missing_extras_for_profile();
    if !needed.is_empty() {
        let detail = format!("held: {held}; missing: {}", joined(&needed, with_purpose));
        return SUBJECT.missing(detail, host.more_rights());
    }
    match extras.is_empty() {
        true => SUBJECT.works(format!("held: {held}")),
        false => SUBJECT.limited(
            format!("held: {held}; missing: {}", joined(&extras, with_purpose)),
            host.more_rights(),
        ),
    }
}

/// Whether `/proc` shows the PIDs of our namespace, as only those can be used in the kernel half.
pub(super) fn pid_namespace() -> Finding {
    const SUBJECT: Subject = Subject::new("pid_namespace", "PID namespace", &[Profile, Heap], &[]);
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    match fs::metadata("/proc/self/ns/pid") {
        Ok(_) if !is_proc_own(&status) => SUBJECT.missing(
            "not the initial one, and /proc shows the PIDs of another",
            advice("mount a /proc that fits: `unshare --pid --fork --mount-proc`"),
        ),
        Ok(namespace) if namespace.ino() == INITIAL_PID_NAMESPACE => SUBJECT.works("the first"),
        Ok(_) => SUBJECT.works("not the initial one: only processes in it can be profiled"),
        Err(error) => SUBJECT.limited(
            format!("unknown: /proc/self/ns/pid cannot be read ({error})"),
            command("sudo mount -t proc proc /proc"),
        ),
    }
}

/// Whether the addresses of kernel functions are visible, without which their frames have no names.
pub(super) fn kernel_symbols(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("kernel_symbols", "kernel symbols", &[], &[Profile]);
    let restrict = super::line("/proc/sys/kernel/kptr_restrict");
    let restrict = restrict.unwrap_or_else(|error| format!("unknown ({error})"));
    match kallsyms_head() {
        Ok(head) if super::has_addresses(&head) => {
            SUBJECT.works(format!("visible; kptr_restrict={restrict}"))
        }
        Ok(_) if restrict == "2" => SUBJECT.missing(
            "hidden from everybody: kptr_restrict=2",
            command("sudo sysctl kernel.kptr_restrict=1"),
        ),
        Ok(_) => {
            let detail = format!("hidden: needs CAP_SYSLOG; kptr_restrict={restrict}");
            SUBJECT.missing(detail, host.more_rights())
        }
        Err(error) => SUBJECT.missing(
            format!("/proc/kallsyms cannot be read ({error})"),
            advice("boot a kernel built with CONFIG_KALLSYMS=y"),
        ),
    }
}

/// Limit of open files: two per CPU, and one per executable.
pub(super) fn open_files() -> Finding {
    const SUBJECT: Subject = Subject::new("open_files", "open files", &[], &[Profile, Heap]);
    let wanted = 2 * perf::online_cpus().map_or(1, |online| online.len() as u64) + 512;
    let limit = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    match limit.current {
        Some(current) if current < wanted => SUBJECT.limited(
            format!("at most {current}; {wanted} or more let every executable stay open"),
            command(match limit.maximum {
                Some(maximum) if maximum < wanted => {
                    format!("sudo prlimit --nofile={wanted} --pid $$")
                }
                _ => format!("ulimit -n {wanted}"),
            }),
        ),
        Some(current) => SUBJECT.works(format!("up to {current}")),
        None => SUBJECT.works("no limit"),
    }
}

/// Toolchain for building the kernel halves; not needed at run time.
pub(super) fn toolchain() -> Finding {
    const SUBJECT: Subject = Subject::new("ebpf_toolchain", "eBPF toolchain", &[], &[Build]);
    match Toolchain::recorded() {
        Ok(toolchain) => SUBJECT.works(format!("{}", toolchain.rustc.display())),
        Err(missing) => SUBJECT.missing(
            format!("{missing}; only building from source needs it"),
            command("cargo xtask setup"),
        ),
    }
}

fn kallsyms_head() -> io::Result<String> {
    let mut head = Vec::new();
    File::open("/proc/kallsyms")?.take(KALLSYMS_HEAD_LEN).read_to_end(&mut head)?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn joined(capabilities: &[Capability], text: impl Fn(Capability) -> String) -> String {
    match capabilities {
        [] => "none".to_owned(),
        _ => capabilities.iter().map(|&one| text(one)).collect::<Vec<_>>().join(", "),
    }
}

/// The clock that triggers samples, for all processes on one CPU.
pub(super) fn cpu_clock(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("cpu_clock", "cpu-clock event", &[Profile, Heap], &[]);
    let paranoid = super::line("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.unwrap_or_else(|error| format!("unknown ({error})"));
    let opened = open_perf_event(CounterEvent::CpuClock);
    let mut finding = match opened.map_err(Refusal::at("perf_event_open")) {
        Ok(_) => SUBJECT.works("opened for all processes"),
        Err(refusal) => SUBJECT.refused(
            host,
            &[Perfmon],
            refusal,
            advice("see whether seccomp (a container?) forbids perf_event_open"),
        ),
    };
    finding.detail.push_str(&format!("; perf_event_paranoid={paranoid}"));
    finding
}

/// A hardware counter. Virtual machines often have none.
pub(super) fn cycles(host: &Host) -> Finding {
    const SUBJECT: Subject =
        Subject::new("hardware_counters", "hardware counters", &[], &[Bench, Annotate]);
    match open_perf_event(CounterEvent::Cycles) {
        Ok(_) => SUBJECT.works("cycles can be counted"),
        Err(error) if is_absent(&error) => SUBJECT.missing(
            "no counter of cycles; `profile` samples by cpu-clock instead",
            advice(
                "in a virtual machine: let the host pass its PMU through (QEMU: -cpu host,pmu=on)",
            ),
        ),
        Err(error) => SUBJECT.refused(
            host,
            &[Perfmon],
            Refusal::at("perf_event_open")(error),
            advice("no verb requires it"),
        ),
    }
}

/// Opens an event on the first online CPU, nearly always 0, without enabling it.
pub(super) fn open_perf_event(event: CounterEvent) -> io::Result<OwnedFd> {
    let first =
        perf::online_cpus().ok().and_then(|online| online.first()?.to_owned().try_into().ok());
    sys::open_counter(event.codes(), first.unwrap_or(0), false)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP))
}
