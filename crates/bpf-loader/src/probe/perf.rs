//! Perf events: the clock that drives sampling, and hardware counters.

use std::{io, os::fd::OwnedFd};

use super::{
    Finding, Host, Refusal, Subject,
    Verb::{Annotate, Bench, Heap, Profile},
    advice, reading,
};
use crate::{cpus, loader::CounterEvent, rights::Capability::Perfmon, sys};

/// The clock that triggers samples, for all processes on one CPU.
pub(super) fn cpu_clock(host: &Host) -> Finding {
    const SUBJECT: Subject = Subject::new("cpu_clock", "cpu-clock event", &[Profile, Heap], &[]);
    let paranoid = reading::line("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.unwrap_or_else(|error| format!("unknown ({error})"));
    let opened = open(CounterEvent::CpuClock);
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
    match open(CounterEvent::Cycles) {
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
pub(super) fn open(event: CounterEvent) -> io::Result<OwnedFd> {
    let first = cpus::online().ok().and_then(|online| online.first()?.to_owned().try_into().ok());
    sys::open_counter(event.codes(), first.unwrap_or(0), false)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP))
}
