//! Process and mapping events of the kernel: perf's MMAP2, COMM, FORK and EXIT.
//!
//! They have every executable mapping, `exec`, `fork` and exit on every CPU with its time, even of short-lived
//! processes. Events that did not fit into the buffers are counted.

use std::{
    collections::VecDeque,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use wingbeat_bpf_loader::perf::ProcessRecords;

use crate::{
    error::RecordError,
    recorder::event::{Event, EventKind, KernelCode, MappedFile},
};

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

// Decodes perf records about processes, mappings and kernel code.
//
// Their layout is in include/uapi/linux/perf_event.h, `enum perf_event_type` (Linux 6.18). A record begins with
// its type, flags and size. It ends with its time, the only sample field requested.

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const KSYMBOL: u32 = 17;
const BPF_EVENT: u32 = 18;

/// `PERF_RECORD_MISC_COMM_EXEC`: the name changed by `exec`.
const COMM_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_KSYMBOL_TYPE_BPF` and `PERF_BPF_EVENT_PROG_LOAD`.
const SYMBOL_OF_BPF: u16 = 1;
const PROG_LOAD: u16 = 1;

#[derive(Debug, PartialEq, Eq)]
enum Record {
    Event(Event),
    /// A BPF program, by its id.
    ProgramLoaded(u32),
    /// Number of records that were lost or cannot be decoded.
    Lost(u64),
    Other,
}

/// Decodes consecutive records.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record> {
    std::iter::from_fn(move || {
        let header = Fields(bytes);
        let (kind, bits, len) = (header.u32(0)?, header.u16(4)?, header.u16(6)?);
        let Some((record, rest)) = bytes.split_at_checked(usize::from(len.max(8))) else {
            bytes = &[];
            return Some(Record::Lost(1));
        };
        bytes = rest;
        Some(decode(kind, bits, &record[8..]).unwrap_or(Record::Lost(1)))
    })
}

/// `None` if the record is too short.
fn decode(kind: u32, bits: u16, bytes: &[u8]) -> Option<Record> {
    let (bytes, time) = bytes.split_last_chunk()?;
    let fields = Fields(bytes);
    let kind = match kind {
        LOST => return Some(Record::Lost(fields.u64(8)?)),
        BPF_EVENT if fields.u16(0)? == PROG_LOAD => {
            return Some(Record::ProgramLoaded(fields.u32(4)?));
        }
        COMM => EventKind::Name {
            pid: fields.u32(0)?,
            tid: fields.u32(4)?,
            name: fields.text(8)?,
            exec: bits & COMM_EXEC != 0,
        },
        EXIT => EventKind::Exit { pid: fields.u32(0)?, tid: fields.u32(8)? },
        FORK => EventKind::Fork {
            pid: fields.u32(0)?,
            parent: fields.u32(4)?,
            tid: fields.u32(8)?,
            creator: fields.u32(12)?,
        },
        MMAP2 => EventKind::Map { pid: fields.u32(0)?, file: mapped_file(&fields)? },
        KSYMBOL => EventKind::KernelCode(KernelCode {
            start: fields.u64(0)?,
            end: fields.u64(0)?.saturating_add(fields.u32(8)?.into()),
            is_bpf: fields.u16(12)? == SYMBOL_OF_BPF,
            name: fields.text(16)?,
        }),
        _ => return Some(Record::Other),
    };
    Some(Record::Event(Event { time_ns: u64::from_ne_bytes(*time), kind }))
}

fn mapped_file(fields: &Fields<'_>) -> Option<MappedFile> {
    Some(MappedFile {
        start: fields.u64(8)?,
        end: fields.u64(8)?.saturating_add(fields.u64(16)?),
        offset: fields.u64(24)?,
        device: (fields.u32(32)?, fields.u32(36)?),
        inode: fields.u64(40)?,
        // After the inode's generation and the protection.
        path: fields.text(64)?,
    })
}

/// The fields of a record, by offset.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const LEN: usize>(&self, offset: usize) -> Option<[u8; LEN]> {
        self.0.get(offset..)?.first_chunk().copied()
    }

    fn u16(&self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_ne_bytes)
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        self.array(offset).map(u64::from_ne_bytes)
    }

    /// Text up to the end, which the kernel pads with zeros.
    fn text(&self, offset: usize) -> Option<String> {
        let text = self.0.get(offset..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record of some words, a text, and the time 77.
    fn record(kind: u32, bits: u16, words: &[u32], text: &str) -> Vec<u8> {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend(text.as_bytes());
        body.resize(body.len().next_multiple_of(8), 0);
        body.extend(77_u64.to_ne_bytes());
        let size = body.len() as u16 + 8;
        let header = [&kind.to_ne_bytes()[..], &bits.to_ne_bytes(), &size.to_ne_bytes()].concat();
        [header, body].concat()
    }

    fn event(kind: EventKind) -> Record {
        Record::Event(Event { time_ns: 77, kind })
    }

    #[test]
    fn each_kind_of_record() {
        #[track_caller]
        fn check(bytes: &[u8], expected: Record) {
            assert_eq!(records(bytes).collect::<Vec<_>>(), [expected]);
        }
        check(&record(LOST, 0, &[1, 0, 9, 0], ""), Record::Lost(9));
        check(&record(BPF_EVENT, 0, &[1, 5, 0, 0], ""), Record::ProgramLoaded(5));
        check(&record(BPF_EVENT, 0, &[2, 5, 0, 0], ""), Record::Other);
        check(&record(1, 0, &[1, 2], ""), Record::Other);
        let name = |exec| event(EventKind::Name { pid: 1, tid: 2, name: "sh".into(), exec });
        check(&record(COMM, COMM_EXEC, &[1, 2], "sh\0"), name(true));
        check(&record(COMM, 0, &[1, 2], "sh\0"), name(false));
        let exit = EventKind::Exit { pid: 1, tid: 3 };
        check(&record(EXIT, 0, &[1, 2, 3, 4, 0, 0], ""), event(exit));
        let fork = EventKind::Fork { pid: 1, parent: 2, tid: 3, creator: 4 };
        check(&record(FORK, 0, &[1, 2, 3, 4, 0, 0], ""), event(fork));
        let file = MappedFile {
            start: 3,
            end: 7,
            offset: 5,
            device: (6, 7),
            inode: 8,
            path: "/bin/sh".into(),
        };
        let words = [1, 2, 3, 0, 4, 0, 5, 0, 6, 7, 8, 0, 9, 0, 10, 11];
        check(&record(MMAP2, 0, &words, "/bin/sh\0"), event(EventKind::Map { pid: 1, file }));
        let code = KernelCode { start: 1, end: 3, name: "bpf_prog_1".into(), is_bpf: true };
        let words = [1, 0, 2, 1];
        check(&record(KSYMBOL, 0, &words, "bpf_prog_1\0"), event(EventKind::KernelCode(code)));
    }

    #[test]
    fn damaged_records_are_lost() {
        let fine = record(EXIT, 0, &[1, 2, 3, 4, 0, 0], "");
        let check = |bytes: &[u8], expected: usize| {
            let found: Vec<_> = records(bytes).collect();
            assert_eq!(found.len(), expected, "{found:?}");
            assert_eq!(found.last(), (expected > 0).then_some(&Record::Lost(1)));
        };
        check(&[], 0);
        check(&fine[..7], 0);
        check(&[&fine, &fine[..20]].concat(), 2);
        check(&record(EXIT, 0, &[1, 2], ""), 1);
        check(&[EXIT as u8, 0, 0, 0, 0, 0, 0, 0], 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded(mut bytes: Vec<u8>, kind in 0_u8..20, size in 0_u8..120) {
            // Most random bytes would have an unknown type and an impossible size.
            if let Some(header) = bytes.first_chunk_mut() {
                *header = [kind, 0, 0, 0, 0, 0, size, 0];
            }
            prop_assert!(records(&bytes).count() <= bytes.len() / 8);
        }
    }
}
