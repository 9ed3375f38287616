//! The kernel's own record of processes and mappings: perf's MMAP2, COMM, FORK and EXIT events.
//!
//! Every executable mapping, `exec`, `fork` and exit on every CPU is there with its time, whatever
//! the process does and however short it lives. What did not fit into the buffers is counted.

use std::{
    collections::VecDeque,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use perf_event::{
    Builder, Clock, SampleFlag, Sampler,
    data::{BpfEventType, KSymbolType, Record},
    events::Software,
};

use crate::{
    error::RecordError,
    recorder::event::{Event, EventKind, KernelCode, MappedFile},
};

/// Pages per CPU: 512 KiB hold about 5,000 events.
const PAGES: usize = 128;

/// `PERF_RECORD_MISC_COMM_EXEC` of include/uapi/linux/perf_event.h: a name given by `exec`.
const COMM_EXEC: u16 = 1 << 13;

/// Open buffers, one per CPU.
pub(super) struct Sideband {
    samplers: Vec<Sampler>,
    /// Events that did not fit.
    pub lost: u64,
    programs: HeldPrograms,
}

/// BPF programs that were loaded meanwhile. Held, so that they stay until their frames have names and
/// lines, as files are held open.
#[derive(Default)]
struct HeldPrograms(VecDeque<OwnedFd>);

impl HeldPrograms {
    /// The newest are kept: whoever loads programs by the thousand must not run the kernel out of
    /// memory by our doing. The names of the others are known from their events.
    const MAX: usize = 256;

    fn hold(&mut self, id: u32) {
        // It may be gone again already, or the right to look at it missing.
        if let Ok(program) = wingbeat_bpf::program::open(id) {
            self.0.push_back(program);
            if self.0.len() > Self::MAX {
                self.0.pop_front();
            }
        }
    }
}

impl Sideband {
    /// Opens a buffer on each CPU; events flow from now on.
    pub(super) fn open(cpus: &[u32]) -> Result<Self, RecordError> {
        let mut samplers = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let what = format!("watch processes and mappings on CPU {cpu}");
            let counter = Builder::new(Software::DUMMY)
                .any_pid()
                .one_cpu(cpu as usize)
                .include_kernel()
                .include_hv()
                .mmap(true)
                .mmap2(true)
                .comm(true)
                .comm_exec(true)
                .task(true)
                .ksymbol(true)
                .bpf_event(true)
                .sample(SampleFlag::TIME)
                .sample_id_all(true)
                .clockid(Clock::MONOTONIC)
                .wakeup_watermark(1)
                .enabled(true)
                .build()
                .map_err(RecordError::system(what.as_str()))?;
            let bytes = rustix::param::page_size() * PAGES;
            samplers.push(counter.sampled(bytes).map_err(RecordError::system(what.as_str()))?);
        }
        Ok(Self { samplers, lost: 0, programs: HeldPrograms::default() })
    }

    /// For waiting until something happens.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // SAFETY: the descriptor belongs to the sampler, which the result borrows.
        self.samplers.iter().map(|sampler| unsafe { BorrowedFd::borrow_raw(sampler.as_raw_fd()) })
    }

    /// Appends all waiting events.
    pub(super) fn drain(&mut self, events: &mut Vec<Event>) {
        for sampler in &mut self.samplers {
            while let Some(record) = sampler.next_record() {
                // With TIME as the only sample field, every record ends with it.
                let data = record.to_contiguous();
                let time_ns = data.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                let is_exec = record.misc() & COMM_EXEC != 0;
                match record.parse_record() {
                    Ok(Record::Lost(lost)) => self.lost += lost.lost,
                    Ok(Record::BpfEvent(event)) if event.ty == BpfEventType::PROG_LOAD => {
                        self.programs.hold(event.id);
                    }
                    Ok(record) => {
                        events.extend(convert(record, is_exec).map(|kind| Event { time_ns, kind }));
                    }
                    Err(_) => self.lost += 1,
                }
            }
        }
    }
}

fn convert(record: Record<'_>, is_exec: bool) -> Option<EventKind> {
    Some(match record {
        Record::Mmap2(map) => EventKind::Map {
            pid: map.pid,
            file: MappedFile {
                start: map.addr,
                end: map.addr.saturating_add(map.len),
                offset: map.pgoff,
                device: (map.maj().unwrap_or(0), map.min().unwrap_or(0)),
                inode: map.ino().unwrap_or(0),
                path: text(&map.filename),
            },
        },
        Record::Comm(comm) => {
            EventKind::Name { pid: comm.pid, tid: comm.tid, name: text(&comm.comm), exec: is_exec }
        }
        Record::Fork(fork) => {
            EventKind::Fork { pid: fork.pid, tid: fork.tid, parent: fork.ppid, creator: fork.ptid }
        }
        Record::KSymbol(symbol) => EventKind::KernelCode(KernelCode {
            start: symbol.addr,
            end: symbol.addr.saturating_add(symbol.len.into()),
            name: text(&symbol.name),
            is_bpf: symbol.ksym_type == KSymbolType::BPF,
        }),
        Record::Exit(exit) => EventKind::Exit { pid: exit.pid, tid: exit.tid },
        _ => return None,
    })
}

/// A text that the kernel pads with zeroes.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
