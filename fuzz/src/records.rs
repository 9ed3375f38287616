//! Records of the kernel half, one and many.

use std::{fs, os::unix::fs::MetadataExt as _, sync::OnceLock};

use wingbeat_profiler::{
    recorder::{
        BenchRecorder,
        event::{Event, EventKind, MappedFile},
    },
    wire::{Record, Stack, decode},
};
use wingbeat_profiler_abi::{
    COPY_HEADER_BYTES, STACK_HEADER_BYTES, StackHeader,
    heap::{ALLOCATION_RECORD_BYTES, FREE_RECORD_BYTES},
    off_cpu::{BLOCK_RECORD_BYTES, END_RECORD_BYTES, HALF_HEADER_BYTES},
    space::SPACE_RECORD_BYTES,
};

/// Decoding of one record of the kernel half: any bytes.
pub fn record(bytes: &[u8]) {
    let Ok(record) = decode(bytes) else { return };
    let of_stack = |stack: Stack<'_>| stack.user.len() + stack.kernel.len();
    let (header, words) = match record {
        Record::Sample(stack) | Record::AllocationStack(stack) | Record::Fault(stack) => {
            (STACK_HEADER_BYTES, of_stack(stack))
        }
        Record::Copy(piece) => (COPY_HEADER_BYTES, piece.words.len()),
        Record::UserStack(half)
        | Record::KernelStack(half)
        | Record::WakerUser(half)
        | Record::WakerKernel(half) => (HALF_HEADER_BYTES, of_stack(half.stack)),
        Record::Block(_) => (BLOCK_RECORD_BYTES, 0),
        Record::ThreadEnd(_) => (END_RECORD_BYTES, 0),
        Record::Allocation(_) => (ALLOCATION_RECORD_BYTES, 0),
        Record::Free(_) => (FREE_RECORD_BYTES, 0),
        Record::Space(_) => (SPACE_RECORD_BYTES, 0),
    };
    // A record uses all of the bytes, or is an error.
    assert_eq!(header + 8 * words, bytes.len());
}

/// Above the kernel's maximum PID (2^22): `/proc` must not matter.
const PID_MIN: u32 = 1 << 23;

/// The recorder: any sequence of records and events.
///
/// The input is split into pieces, each after a byte with its length in words and one for its kind:
/// a record in the kernel half's format, or an event.
pub fn recorder(bytes: &[u8]) {
    let mut recorder = BenchRecorder::default();
    let mut samples = 0;
    let mut rest = bytes;
    while let [words, kind, tail @ ..] = rest {
        let (piece, next) = tail.split_at(tail.len().min(8 * usize::from(*words)));
        rest = next;
        if let Some(kind) = event(*kind, piece) {
            recorder.event(Event { time_ns: u64::from(*words), kind });
        } else if let Ok(mut record) = decode(piece) {
            match &mut record {
                Record::Sample(stack) => {
                    own(&mut stack.header);
                    samples += 1;
                }
                Record::Copy(piece) => piece.header.tid = pid(piece.header.tid),
                Record::UserStack(half)
                | Record::KernelStack(half)
                | Record::WakerUser(half)
                | Record::WakerKernel(half) => own(&mut half.stack.header),
                Record::Block(block) => (block.pid, block.tid) = (pid(block.pid), pid(block.tid)),
                Record::ThreadEnd(end) => (end.pid, end.tid) = (pid(end.pid), pid(end.tid)),
                Record::AllocationStack(stack) | Record::Fault(stack) => own(&mut stack.header),
                Record::Allocation(block) => {
                    (block.pid, block.tid) = (pid(block.pid), pid(block.tid));
                }
                Record::Free(block) => block.pid = pid(block.pid),
                Record::Space(call) => (call.pid, call.tid) = (pid(call.pid), pid(call.tid)),
            }
            recorder.record(record);
        }
    }
    assert_eq!(recorder.counts().0, samples);
}

/// The event with this number, with its data from the piece; `None` for a record.
fn event(kind: u8, piece: &[u8]) -> Option<EventKind> {
    let (words, _) = piece.as_chunks();
    let word = |index: usize| words.get(index).copied().map_or(0, u64::from_le_bytes);
    let (pid, tid) = (pid(word(0) as u32), pid((word(0) >> 32) as u32));
    Some(match kind {
        1 => {
            // A nonexistent device, so that no file is opened by its path. The last binary is this
            // program: it has unwind tables.
            let (inode, path) = match word(4) % 4 {
                0 => (0, String::new()),
                1 => (0, "[vdso]".to_owned()),
                2 => (word(4), "/none".to_owned()),
                _ => program(),
            };
            let file = MappedFile {
                start: word(1),
                end: word(2),
                offset: word(3),
                device: (0, 99),
                inode,
                path,
            };
            EventKind::Map { pid, file }
        }
        2 => EventKind::Name { pid, tid, name: "a".to_owned(), exec: false },
        3 => EventKind::Name { pid, tid, name: "b".to_owned(), exec: true },
        4 => EventKind::Fork { pid, tid, parent: tid, creator: tid },
        5 => EventKind::Fork { pid, tid, parent: pid, creator: tid },
        6 => EventKind::Exit { pid, tid },
        _ => return None,
    })
}

fn own(header: &mut StackHeader) {
    (header.pid, header.tid) = (pid(header.pid), pid(header.tid));
}

/// One of 16 numbers, so that they repeat.
fn pid(any: u32) -> u32 {
    PID_MIN + any % 16
}

/// Inode and path of the running program.
fn program() -> (u64, String) {
    static PROGRAM: OnceLock<(u64, String)> = OnceLock::new();
    let find = || {
        let inode = fs::metadata("/proc/self/exe").map_or(0, |data| data.ino());
        (inode, "/proc/self/exe".to_owned())
    };
    PROGRAM.get_or_init(find).clone()
}
