//! Decodes the records of the kernel half. Pure: any bytes in, a record or an error out.

use thiserror::Error;
use wingbeat_profiler_abi::{
    CopyHeader, RecordKind, StackHeader, Stop,
    heap::{AllocationRecord, FreeRecord},
    off_cpu::{BlockRecord, BlockState, EndRecord, HalfHeader},
    space::SpaceRecord,
};
use zerocopy::{FromBytes, TryFromBytes as _};

/// A decoded record, borrowing its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    Sample(Stack<'a>),
    /// A piece of a stack that follows.
    Copy(Piece<'a>),
    /// Half of the stack of a thread that left the CPU.
    UserStack(HalfStack<'a>),
    KernelStack(HalfStack<'a>),
    /// User half of a waker's stack.
    WakerUser(HalfStack<'a>),
    /// Kernel half of a waker's stack, sent first.
    WakerKernel(HalfStack<'a>),
    Block(BlockRecord),
    /// Account of an exited thread.
    ThreadEnd(EndRecord),
    /// Stack of an allocation that follows.
    AllocationStack(Stack<'a>),
    Allocation(AllocationRecord),
    Free(FreeRecord),
    /// An address space call.
    Space(SpaceRecord),
    /// A page fault.
    Fault(Stack<'a>),
}

impl Record<'_> {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Sample(stack) | Self::AllocationStack(stack) | Self::Fault(stack) => {
                stack.header.time_ns
            }
            Self::Copy(piece) => piece.header.time_ns,
            Self::UserStack(half)
            | Self::KernelStack(half)
            | Self::WakerUser(half)
            | Self::WakerKernel(half) => half.stack.header.time_ns,
            Self::Block(block) => block.end_ns,
            Self::ThreadEnd(end) => end.end_ns,
            Self::Allocation(allocation) => allocation.time_ns,
            Self::Free(free) => free.time_ns,
            Self::Space(call) => call.time_ns,
        }
    }
}

/// Common part of all stack records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    pub header: StackHeader,
    /// Why the walk of the user stack stopped.
    pub stop: Stop,
    /// User frames, innermost first.
    pub user: Words<'a>,
    /// Kernel frames, innermost first.
    pub kernel: Words<'a>,
}

/// A piece of a copied stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    pub header: CopyHeader,
    pub words: Words<'a>,
}

/// Half of the stack of a blocking or waking thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfStack<'a> {
    pub stack: Stack<'a>,
    /// Slot of the stack among those of the thread.
    pub slot: u8,
    /// Flags such as [`CHECK`](wingbeat_profiler_abi::off_cpu::CHECK).
    pub flags: u8,
}

/// A list of 64-bit words in possibly unaligned bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<'a>(&'a [[u8; 8]]);

impl<'a> Words<'a> {
    /// Number of words.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        self.0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// Why bytes are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Shorter than the header of its type.
    #[error("record of {len} bytes is shorter than its header of {header} bytes")]
    Short { len: usize, header: usize },
    /// Unknown record type.
    #[error("unknown kind of record: {0}")]
    Kind(u8),
    /// Unknown stop reason.
    #[error("unknown reason for the end of a stack: {0}")]
    Stop(u8),
    /// Unknown thread state.
    #[error("unknown state of a thread: {0}")]
    State(u8),
    /// The length does not match the header's number of words.
    #[error("record holds {found} words, and its header says {announced}")]
    Words { found: usize, announced: usize },
}

/// Decodes one record.
pub fn decode(bytes: &[u8]) -> Result<Record<'_>, DecodeError> {
    let kind = bytes.first().copied().unwrap_or(0);
    let known = RecordKind::try_read_from_bytes(&[kind]).map_err(|_| DecodeError::Kind(kind))?;
    Ok(match known {
        RecordKind::Sample => {
            let (header, rest) = header(bytes)?;
            Record::Sample(stack(header, rest)?)
        }
        RecordKind::Fault => {
            let (header, rest) = header(bytes)?;
            Record::Fault(stack(header, rest)?)
        }
        RecordKind::Copy => {
            let (header, rest): (CopyHeader, _) = header(bytes)?;
            let [words] = words(rest, [header.words])?;
            Record::Copy(Piece { header, words })
        }
        RecordKind::UserStack => Record::UserStack(decode_half(bytes)?),
        RecordKind::KernelStack => Record::KernelStack(decode_half(bytes)?),
        RecordKind::WakerUser => Record::WakerUser(decode_half(bytes)?),
        RecordKind::WakerKernel => Record::WakerKernel(decode_half(bytes)?),
        RecordKind::Block => Record::Block(decode_block(bytes)?),
        RecordKind::AllocationStack => {
            let (header, rest) = header(bytes)?;
            Record::AllocationStack(stack(header, rest)?)
        }
        RecordKind::Allocation => {
            let (allocation, rest) = header(bytes)?;
            words(rest, [])?;
            Record::Allocation(allocation)
        }
        RecordKind::Free => {
            let (free, rest) = header(bytes)?;
            words(rest, [])?;
            Record::Free(free)
        }
        RecordKind::Space => {
            let (call, rest) = header(bytes)?;
            words(rest, [])?;
            Record::Space(call)
        }
        RecordKind::ThreadEnd => {
            let (end, rest) = header(bytes)?;
            words(rest, [])?;
            Record::ThreadEnd(end)
        }
    })
}

fn decode_half(bytes: &[u8]) -> Result<HalfStack<'_>, DecodeError> {
    let (half, rest): (HalfHeader, _) = header(bytes)?;
    Ok(HalfStack { stack: stack(half.stack, rest)?, slot: half.slot, flags: half.flags })
}

fn stack(header: StackHeader, rest: &[u8]) -> Result<Stack<'_>, DecodeError> {
    let StackHeader { user_frames, kernel_frames, .. } = header;
    let [user, kernel] = words(rest, [user_frames, kernel_frames])?;
    let stop =
        Stop::try_read_from_bytes(&[header.stop]).map_err(|_| DecodeError::Stop(header.stop))?;
    Ok(Stack { header, stop, user, kernel })
}

fn decode_block(bytes: &[u8]) -> Result<BlockRecord, DecodeError> {
    let (block, rest): (BlockRecord, _) = header(bytes)?;
    words(rest, [])?;
    match BlockState::try_read_from_bytes(&[block.state]) {
        Ok(_) => Ok(block),
        Err(_) => Err(DecodeError::State(block.state)),
    }
}

fn header<Header: FromBytes>(bytes: &[u8]) -> Result<(Header, &[u8]), DecodeError> {
    Header::read_from_prefix(bytes)
        .map_err(|_| DecodeError::Short { len: bytes.len(), header: size_of::<Header>() })
}

/// Splits the bytes after a header into lists of the header's lengths.
fn words<const LISTS: usize>(
    rest: &[u8],
    lens: [u16; LISTS],
) -> Result<[Words<'_>; LISTS], DecodeError> {
    let (mut words, left_over) = rest.as_chunks();
    let announced = lens.iter().map(|&len| usize::from(len)).sum();
    if words.len() != announced || !left_over.is_empty() {
        return Err(DecodeError::Words { found: words.len(), announced });
    }
    Ok(lens.map(|len| {
        let (list, others) = words.split_at(usize::from(len));
        words = others;
        Words(list)
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

    /// A sample with two user frames and one kernel frame, byte by byte.
    fn sample_bytes() -> Vec<u8> {
        let mut bytes = vec![RecordKind::Sample as u8, Stop::Unreadable as u8, 3, 0, 2, 0, 1, 0];
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(8u32.to_le_bytes());
        let words = [1_000_000_007_u64, 0x7ffe_0010, 5, 0, 77, 0x4010, 0x4020, u64::MAX];
        bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
        bytes
    }

    #[test]
    fn decodes_a_sample() {
        let bytes = sample_bytes();
        let Ok(Record::Sample(stack)) = decode(&bytes) else { panic!("not a sample") };
        let Stack { header, stop, user, kernel } = stack;
        assert_eq!((stop, header.cpu, header.pid, header.tid), (Stop::Unreadable, 3, 7, 8));
        assert_eq!((header.time_ns, header.cgroup), (1_000_000_007, 77));
        assert_eq!((header.stop_sp, header.stop_fp), (0x7ffe_0010, 5));
        assert_eq!((header.is_interrupted, header.is_fp_lost), (0, 0));
        assert_eq!(user.iter().collect::<Vec<_>>(), [0x4010, 0x4020]);
        assert_eq!(kernel.iter().collect::<Vec<_>>(), [u64::MAX]);
    }

    #[test]
    fn decodes_half_a_stack() {
        let mut header = HalfHeader::new_zeroed();
        header.stack.kind = RecordKind::UserStack as u8;
        header.stack.user_frames = 1;
        (header.slot, header.flags) = (2, 1);
        let bytes = [header.as_bytes(), [0x4010_u64].as_bytes()].concat();
        let Ok(Record::UserStack(half)) = decode(&bytes) else { panic!("not half a stack") };
        assert_eq!((half.stack.stop, half.slot, half.flags), (Stop::End, 2, 1));
        assert_eq!(half.stack.user.iter().collect::<Vec<_>>(), [0x4010]);
        assert!(half.stack.kernel.is_empty());
    }

    #[test]
    fn decodes_a_piece_of_a_copy() {
        let mut header = CopyHeader::new_zeroed();
        header.kind = RecordKind::Copy as u8;
        (header.words, header.tid, header.address) = (2, 8, 0x7ffe_0010);
        let bytes = [header.as_bytes(), [1_u64, 2].as_bytes()].concat();
        let Ok(Record::Copy(piece)) = decode(&bytes) else { panic!("not a piece") };
        assert_eq!(piece.header, header);
        assert_eq!(piece.words.iter().collect::<Vec<_>>(), [1, 2]);
        let short = decode(&bytes[..bytes.len() - 8]);
        assert_eq!(short, Err(DecodeError::Words { found: 1, announced: 2 }));
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let check = |change: fn(&mut Vec<u8>), expected: DecodeError| {
            let mut bytes = sample_bytes();
            change(&mut bytes);
            assert_eq!(decode(&bytes), Err(expected));
        };
        check(|bytes| bytes.clear(), DecodeError::Kind(0));
        check(|bytes| bytes[0] = 14, DecodeError::Kind(14));
        check(|bytes| bytes[1] = 77, DecodeError::Stop(77));
        check(|bytes| bytes.truncate(20), DecodeError::Short { len: 20, header: 56 });
        check(|bytes| bytes.truncate(72), DecodeError::Words { found: 2, announced: 3 });
        check(|bytes| bytes.push(0), DecodeError::Words { found: 3, announced: 3 });
        check(|bytes| bytes[4] = 200, DecodeError::Words { found: 3, announced: 201 });
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_record_or_an_error(
            kind in 0u8..13, bytes in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let mut all = vec![kind];
            all.extend(bytes);
            let _ = decode(&all);
        }
    }
}
