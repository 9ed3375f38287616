//! Maps and program types, each tested with an empty program.

use std::{ffi::CStr, io, os::fd::AsFd as _, path::Path};

use super::{
    Finding, Host, NextStep, Refusal, Subject,
    Verb::{Bench, Heap, Live, Profile, Top},
    advice,
    host::open_perf_event,
};
use crate::{
    loader::CounterEvent,
    program::{self, StatisticsOn},
    rights::Capability::{self, Bpf, Perfmon, SysAdmin},
    spec::MapType,
    sys::{self, MapCreate, ProgramKind},
    uprobe_targets,
};

/// Capabilities for loading a tracing program.
const FOR_TRACING: [Capability; 2] = [Bpf, Perfmon];

/// The tracepoint to test with. An empty program is harmless at any; this one is rare.
const TRACEPOINT: &CStr = c"sched_process_exit";
const TRACEPOINT_TYPEDEF: &str = "btf_trace_sched_process_exit";

/// A kernel function for such tests, which the kernel never calls by itself (net/bpf/test_run.c).
const FUNCTION: &str = "bpf_fentry_test1";

/// The map that transports samples.
pub(super) fn ring_buffer(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("ring_buffer", "ring buffer", &[Profile, Heap], &[Bench]);
    let ring = MapCreate {
        map_type: MapType::RINGBUF.0,
        max_entries: u32::try_from(rustix::param::page_size()).unwrap_or(4096),
        ..Default::default()
    };
    match sys::create_map(ring, None, None).map_err(Refusal::at("creating a map")) {
        Ok(_) => SUBJECT.works("a map was created"),
        Err(refusal) => SUBJECT.refused(host, &[Bpf], refusal, forbidden()),
    }
}

/// Programs that run at each tick of a perf event: the sampler.
pub(super) fn perf_event(host: &Host) -> Finding {
    const SUBJECT: Subject =
        Subject::new("perf_event", "perf_event programs", &[Profile, Heap], &[]);
    let attempt = || {
        let program = sys::load_program(ProgramKind::PerfEvent).map_err(Refusal::at("loading"))?;
        let event = open_perf_event(CounterEvent::CpuClock)
            .map_err(Refusal::at("opening an event to attach to"))?;
        sys::link_perf_event(program.as_fd(), event).map_err(Refusal::at("attaching"))
    };
    match attempt() {
        Ok(_) => SUBJECT.works("loaded and attached"),
        Err(refusal) => SUBJECT.refused(host, &FOR_TRACING, refusal, forbidden()),
    }
}

/// Raw tracepoints by name: used to follow children and process exits.
pub(super) fn raw_tracepoint(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("raw_tp", "raw tracepoints", &[Profile, Heap], &[Bench]);
    match load_and_attach(ProgramKind::RawTracepoint, Some(TRACEPOINT)) {
        Ok(()) => SUBJECT.works("loaded and attached"),
        Err(refusal) => SUBJECT.refused(host, &FOR_TRACING, refusal, forbidden()),
    }
}

/// Tracepoints with typed arguments.
pub(super) fn btf_tracepoint(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("tp_btf", "typed tracepoints", &[], &[Profile, Bench]);
    let types = host.types.as_ref().ok();
    let Some(btf_id) = types.and_then(|types| types.typedef_id(TRACEPOINT_TYPEDEF)) else {
        return SUBJECT
            .missing(format!("the kernel's types have no {TRACEPOINT_TYPEDEF}"), types_first());
    };
    match load_and_attach(ProgramKind::BtfTracepoint(btf_id), None) {
        Ok(()) => SUBJECT.works("loaded and attached"),
        Err(refusal) => SUBJECT.refused(host, &FOR_TRACING, refusal, forbidden()),
    }
}

/// Entries of kernel functions and of other programs. Many cloud kernels reject them, some on load,
/// some only on attach.
pub(super) fn fentry(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("fentry", "fentry", &[], &[Live]);
    let types = host.types.as_ref().ok();
    let Some(btf_id) = types.and_then(|types| types.function_id(FUNCTION)) else {
        return SUBJECT.missing(format!("the kernel's types have no {FUNCTION}"), types_first());
    };
    match load_and_attach(ProgramKind::Fentry(btf_id), None) {
        Ok(()) => SUBJECT.works("loaded and attached"),
        Err(refusal) => SUBJECT.refused(
            host,
            &FOR_TRACING,
            refusal,
            advice("this kernel forbids it; only live --distribution and --counters need it"),
        ),
    }
}

/// Access to programs that others have loaded: used by `top` and `live`.
pub(super) fn by_id(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("program_ids", "programs by id", &[Live, Top], &[]);
    let attempt = || {
        let ids = program::ids().map_err(Refusal::at("listing"))?;
        match ids.last().map(|&id| program::open(id)) {
            // A program that is gone by now could still be opened in principle.
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                Err(Refusal::at("opening one")(error))
            }
            _ => Ok(ids.len()),
        }
    };
    match attempt() {
        Ok(1) => SUBJECT.works("1 is loaded"),
        Ok(count) => SUBJECT.works(format!("{count} are loaded")),
        Err(refusal) => SUBJECT.refused(host, &[SysAdmin], refusal, forbidden()),
    }
}

/// Enabling run-time statistics: the source of the figures of `top` and `live`. Enables them for an instant.
pub(super) fn run_statistics(host: &Host) -> Finding {
    const SUBJECT: Subject =
        Subject::new("run_statistics", "run-time statistics", &[Live, Top], &[]);
    match StatisticsOn::new().map_err(Refusal::at("switching them on")) {
        Ok(_) => SUBJECT.works("switched on, and dropped at once"),
        Err(refusal) => SUBJECT.refused(host, &[SysAdmin], refusal, forbidden()),
    }
}

/// Probes in user-space functions.
pub(super) fn uprobes() -> Finding {
    const SUBJECT: Subject = Subject::new("uprobes", "uprobes", &[], &[Bench]);
    event_source(&SUBJECT, "uprobe", "CONFIG_UPROBE_EVENTS=y; only heap needs one")
}

/// Probes at many locations of a file with one link: used to trace calls of an allocator.
pub(super) fn uprobe_multi(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("uprobe_multi", "uprobe links", &[Heap], &[]);
    let otherwise = advice("boot Linux 6.6 or newer, built with CONFIG_UPROBE_EVENTS=y");
    match uprobe_targets::try_link().map_err(Refusal::at("attaching")) {
        Ok(()) => SUBJECT.works("attached to a function of this process"),
        Err(refusal) => SUBJECT.refused(host, &FOR_TRACING, refusal, otherwise),
    }
}

/// Probes in kernel functions.
pub(super) fn kprobes() -> Finding {
    const SUBJECT: Subject = Subject::new("kprobes", "kprobes", &[], &[Bench]);
    event_source(
        &SUBJECT,
        "kprobe",
        "CONFIG_KPROBES=y and CONFIG_KPROBE_EVENTS=y; no verb requires it",
    )
}

fn event_source(subject: &Subject, source: &str, option: &str) -> Finding {
    match Path::new("/sys/bus/event_source/devices").join(source).exists() {
        true => subject.works(format!("the kernel has the event source {source}")),
        false => subject.missing(
            format!("the kernel has no event source {source}"),
            advice(format!("boot a kernel built with {option}")),
        ),
    }
}

fn load_and_attach(kind: ProgramKind, tracepoint: Option<&CStr>) -> Result<(), Refusal> {
    let program = sys::load_program(kind).map_err(Refusal::at("loading"))?;
    sys::open_raw_tracepoint(tracepoint, program.as_fd()).map_err(Refusal::at("attaching"))?;
    Ok(())
}

fn forbidden() -> NextStep {
    advice("see whether lockdown, seccomp (a container?) or a security module forbids bpf(2)")
}

fn types_first() -> NextStep {
    advice("boot a kernel built with CONFIG_DEBUG_INFO_BTF=y")
}
