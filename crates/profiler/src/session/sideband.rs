//! Process and mapping events of the kernel: perf's MMAP2, COMM, FORK and EXIT.
//!
//! They have every executable mapping, `exec`, `fork` and exit on every CPU with its time, even of short-lived
//! processes. Events that did not fit into the buffers are counted.

mod records;

use std::{
    collections::VecDeque,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use wingbeat_bpf_loader::perf::ProcessRecords;

use self::records::{Record, records};
use crate::{error::RecordError, recorder::event::Event};

/// Pages per CPU: 512 KiB hold about 5,000 events.
const PAGES: usize = 128;

/// Open buffers, one per CPU.
pub(super) struct Sideband {
    buffers: Vec<ProcessRecords>,
    /// Events lost because the buffers were full.
    pub lost: u64,
    programs: HeldPrograms,
}

/// BPF programs loaded meanwhile. Kept open until their frames have names and lines, like files.
#[derive(Default)]
struct HeldPrograms(VecDeque<OwnedFd>);

impl HeldPrograms {
    /// Only the newest are kept: loading thousands of programs must not exhaust kernel memory because of us. The
    /// names of the others are known from their events.
    const MAX: usize = 256;

    fn hold(&mut self, id: u32) {
        // It may be unloaded already, or we may lack the right to open it.
        if let Ok(program) = wingbeat_bpf_loader::program::open(id) {
            self.0.push_back(program);
            if self.0.len() > Self::MAX {
                self.0.pop_front();
            }
        }
    }
}

impl Sideband {
    /// Opens a buffer on each CPU. Events flow from now on.
    pub(super) fn open(cpus: &[u32]) -> Result<Self, RecordError> {
        let open = |&cpu| {
            let what = format!("watch processes and mappings on CPU {cpu}");
            ProcessRecords::open(cpu, PAGES).map_err(RecordError::system(what))
        };
        let buffers = cpus.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { buffers, lost: 0, programs: HeldPrograms::default() })
    }

    /// Descriptors for waiting for events.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.buffers.iter().map(|buffer| buffer.as_fd())
    }

    /// Stops reading. The last losses have no record.
    pub(super) fn close(&mut self) {
        let lost = self.buffers.drain(..).filter_map(|buffer| buffer.lost()).sum();
        self.lost = self.lost.max(lost);
    }

    /// Appends all waiting events.
    pub(super) fn drain(&mut self, events: &mut Vec<Event>) {
        let mut bytes = Vec::new();
        for buffer in &mut self.buffers {
            bytes.clear();
            buffer.take(&mut bytes);
            for record in records(&bytes) {
                match record {
                    // The kernel reports processes outside our PID namespace with the number 0.
                    Record::Event(event) if event.kind.pid() == Some(0) => {}
                    Record::Event(event) => events.push(event),
                    Record::ProgramLoaded(id) => self.programs.hold(id),
                    Record::Lost(count) => self.lost += count,
                    Record::Other => {}
                }
            }
        }
    }
}
