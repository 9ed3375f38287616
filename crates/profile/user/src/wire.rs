//! Decodes the records of the kernel half. Pure: any bytes in, a record or an error out.

use thiserror::Error;
use wingbeat_profile_common::{
    RecordKind, SAMPLE_HEADER_BYTES, Stop, TAIL_CHECKS, TAIL_HEADER_BYTES,
    off_cpu::{BLOCK_RECORD_BYTES, BlockRecord, BlockState, END_RECORD_BYTES, EndRecord},
};

/// A decoded record, borrowing the bytes it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    Sample(Sample<'a>),
    /// Raw stack of a thread.
    Tail(Tail<'a>),
    /// Half of a stack that a thread went off the CPU with; its `cpu` tells the place.
    UserStack(Sample<'a>),
    KernelStack(Sample<'a>),
    /// The user half of a stack that woke a thread.
    WakerUser(Sample<'a>),
    /// The kernel half, which comes first.
    WakerKernel(Sample<'a>),
    Block(BlockRecord),
    /// The account of a thread that ended.
    ThreadEnd(EndRecord),
}

impl Record<'_> {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Sample(sample)
            | Self::UserStack(sample)
            | Self::KernelStack(sample)
            | Self::WakerUser(sample)
            | Self::WakerKernel(sample) => sample.time_ns,
            Self::Block(block) => block.end_ns,
            Self::ThreadEnd(end) => end.end_ns,
            Self::Tail(tail) => tail.time_ns,
        }
    }
}

/// A sample as it crossed the border. Field by field as in
/// [`SampleHeader`](wingbeat_profile_common::SampleHeader).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Why the walk of the user stack ended.
    pub stop: Stop,
    pub cpu: u16,
    pub pid: u32,
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Stack pointer at the end of the walk.
    pub stop_sp: u64,
    pub stop_bp: u64,
    /// The two words at the stack pointer of the innermost user frame.
    pub leaf: [u64; 2],
    /// Checks of the stack where the walk ended: which tail belongs to it.
    pub tail_checks: [u16; TAIL_CHECKS],
    /// User frames, innermost first.
    pub user: Words<'a>,
    /// Kernel frames, innermost first.
    pub kernel: Words<'a>,
}

/// Raw stack, as in [`TailHeader`](wingbeat_profile_common::TailHeader).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail<'a> {
    pub pid: u32,
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Address of the first word.
    pub sp: u64,
    /// The samples that it belongs to carry the same.
    pub checks: [u16; TAIL_CHECKS],
    pub words: Words<'a>,
}

/// A list of 64-bit words in bytes that need not be aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<'a>(&'a [[u8; 8]]);

impl<'a> Words<'a> {
    /// Number of words.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// No words?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        self.0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Shorter than the header of its kind.
    #[error("record of {len} bytes is shorter than its header of {header} bytes")]
    Short { len: usize, header: usize },
    /// The first byte is no kind.
    #[error("unknown kind of record: {0}")]
    Kind(u8),
    /// The stop reason is none.
    #[error("unknown reason for the end of a stack: {0}")]
    Stop(u8),
    /// The state of a thread is none.
    #[error("unknown state of a thread: {0}")]
    State(u8),
    /// The length does not fit the number of words that the header tells.
    #[error("record holds {found} words where its header tells {told}")]
    Words { found: usize, told: usize },
}

/// Decodes one record.
pub fn decode(bytes: &[u8]) -> Result<Record<'_>, DecodeError> {
    match bytes.first().copied().unwrap_or(0) {
        kind if kind == RecordKind::Sample as u8 => decode_sample(bytes).map(Record::Sample),
        kind if kind == RecordKind::Tail as u8 => decode_tail(bytes).map(Record::Tail),
        kind if kind == RecordKind::UserStack as u8 => decode_sample(bytes).map(Record::UserStack),
        kind if kind == RecordKind::KernelStack as u8 => {
            decode_sample(bytes).map(Record::KernelStack)
        }
        kind if kind == RecordKind::WakerUser as u8 => decode_sample(bytes).map(Record::WakerUser),
        kind if kind == RecordKind::WakerKernel as u8 => {
            decode_sample(bytes).map(Record::WakerKernel)
        }
        kind if kind == RecordKind::Block as u8 => decode_block(bytes).map(Record::Block),
        kind if kind == RecordKind::ThreadEnd as u8 => decode_end(bytes).map(Record::ThreadEnd),
        kind => Err(DecodeError::Kind(kind)),
    }
}

fn decode_sample(bytes: &[u8]) -> Result<Sample<'_>, DecodeError> {
    let (header, rest) = header::<SAMPLE_HEADER_BYTES>(bytes)?;
    let user_frames = usize::from(u16_at(header, 4));
    let kernel_frames = usize::from(u16_at(header, 6));
    let words = words(rest, user_frames + kernel_frames)?;
    let (user, kernel) = words.split_at(user_frames);
    let stop = header[1];
    Ok(Sample {
        stop: Stop::ALL.get(usize::from(stop)).copied().ok_or(DecodeError::Stop(stop))?,
        cpu: u16_at(header, 2),
        pid: u32_at(header, 8),
        tid: u32_at(header, 12),
        time_ns: u64_at(header, 16),
        stop_sp: u64_at(header, 24),
        stop_bp: u64_at(header, 32),
        leaf: [u64_at(header, 40), u64_at(header, 48)],
        tail_checks: checks_at(header, 56),
        user: Words(user),
        kernel: Words(kernel),
    })
}

fn decode_tail(bytes: &[u8]) -> Result<Tail<'_>, DecodeError> {
    let (header, rest) = header::<TAIL_HEADER_BYTES>(bytes)?;
    Ok(Tail {
        pid: u32_at(header, 4),
        tid: u32_at(header, 8),
        time_ns: u64_at(header, 16),
        sp: u64_at(header, 24),
        checks: checks_at(header, 32),
        words: Words(words(rest, usize::from(u16_at(header, 2)))?),
    })
}

fn decode_block(bytes: &[u8]) -> Result<BlockRecord, DecodeError> {
    let (header, rest) = header::<BLOCK_RECORD_BYTES>(bytes)?;
    words(rest, 0)?;
    let [kind, state, place, kernel_place, ..] = *header;
    if usize::from(state) >= BlockState::ALL.len() {
        return Err(DecodeError::State(state));
    }
    Ok(BlockRecord {
        kind,
        state,
        place,
        kernel_place,
        pid: u32_at(header, 4),
        tid: u32_at(header, 8),
        waker_tid: u32_at(header, 12),
        start_ns: u64_at(header, 16),
        end_ns: u64_at(header, 24),
        user_ns: u64_at(header, 32),
        kernel_ns: u64_at(header, 40),
        waker_ns: u64_at(header, 48),
    })
}

fn decode_end(bytes: &[u8]) -> Result<EndRecord, DecodeError> {
    let (header, rest) = header::<END_RECORD_BYTES>(bytes)?;
    words(rest, 0)?;
    Ok(EndRecord {
        kind: header[0],
        is_exec: header[1],
        reserved: [0; 2],
        pid: u32_at(header, 4),
        tid: u32_at(header, 8),
        below: u32_at(header, 12),
        begun_ns: u64_at(header, 16),
        end_ns: u64_at(header, 24),
        on_cpu_ns: u64_at(header, 32),
        below_ns: u64_at(header, 40),
    })
}

fn header<const SIZE: usize>(bytes: &[u8]) -> Result<(&[u8; SIZE], &[u8]), DecodeError> {
    bytes.split_first_chunk().ok_or(DecodeError::Short { len: bytes.len(), header: SIZE })
}

fn words(rest: &[u8], told: usize) -> Result<&[[u8; 8]], DecodeError> {
    let (words, left_over) = rest.as_chunks();
    if words.len() != told || !left_over.is_empty() {
        return Err(DecodeError::Words { found: words.len(), told });
    }
    Ok(words)
}

/// An integer inside a header; the offsets above are constants within its size.
fn u16_at<const SIZE: usize>(header: &[u8; SIZE], at: usize) -> u16 {
    u16::from_le_bytes([header[at], header[at + 1]])
}

fn checks_at<const SIZE: usize>(header: &[u8; SIZE], at: usize) -> [u16; TAIL_CHECKS] {
    std::array::from_fn(|index| u16_at(header, at + 2 * index))
}

fn u32_at<const SIZE: usize>(header: &[u8; SIZE], at: usize) -> u32 {
    u32::from(u16_at(header, at)) | u32::from(u16_at(header, at + 2)) << 16
}

fn u64_at<const SIZE: usize>(header: &[u8; SIZE], at: usize) -> u64 {
    u64::from(u32_at(header, at)) | u64::from(u32_at(header, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use proptest::prelude::*;
    use wingbeat_profile_common::{SampleHeader, TailHeader};

    use super::*;

    /// A sample with two user frames and one kernel frame, byte by byte.
    fn sample_bytes() -> Vec<u8> {
        let mut bytes = vec![RecordKind::Sample as u8, Stop::Unreadable as u8, 3, 0, 2, 0, 1, 0];
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(8u32.to_le_bytes());
        for word in
            [1_000_000_007_u64, 0x7ffe_0010, 5, 11, 12, 0x2_0001, 8 << 48, 0x4010, 0x4020, u64::MAX]
        {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn offsets_are_those_of_the_kernel_half() {
        assert_eq!(offset_of!(SampleHeader, user_frames), 4);
        assert_eq!(offset_of!(SampleHeader, pid), 8);
        assert_eq!(offset_of!(SampleHeader, time_ns), 16);
        assert_eq!(offset_of!(SampleHeader, stop_bp), 32);
        assert_eq!(offset_of!(SampleHeader, leaf), 40);
        assert_eq!(offset_of!(SampleHeader, tail_checks), 56);
        assert_eq!(offset_of!(TailHeader, words), 2);
        assert_eq!(offset_of!(TailHeader, tid), 8);
        assert_eq!(offset_of!(TailHeader, sp), 24);
        assert_eq!(offset_of!(TailHeader, checks), 32);
        assert_eq!(offset_of!(BlockRecord, kernel_place), 3);
        assert_eq!(offset_of!(BlockRecord, waker_tid), 12);
        assert_eq!(offset_of!(BlockRecord, start_ns), 16);
        assert_eq!(offset_of!(BlockRecord, waker_ns), 48);
        assert_eq!(offset_of!(EndRecord, below), 12);
        assert_eq!(offset_of!(EndRecord, below_ns), 40);
    }

    #[test]
    fn decodes_a_sample() {
        let bytes = sample_bytes();
        let Ok(Record::Sample(sample)) = decode(&bytes) else { panic!("not a sample") };
        assert_eq!((sample.stop, sample.cpu, sample.pid, sample.tid), (Stop::Unreadable, 3, 7, 8));
        assert_eq!(sample.time_ns, 1_000_000_007);
        assert_eq!((sample.stop_sp, sample.stop_bp, sample.leaf), (0x7ffe_0010, 5, [11, 12]));
        assert_eq!(sample.tail_checks, [1, 2, 0, 0, 0, 0, 0, 8]);
        assert_eq!(sample.user.iter().collect::<Vec<_>>(), [0x4010, 0x4020]);
        assert_eq!(sample.kernel.iter().collect::<Vec<_>>(), [u64::MAX]);
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let check = |change: fn(&mut Vec<u8>), expected: DecodeError| {
            let mut bytes = sample_bytes();
            change(&mut bytes);
            assert_eq!(decode(&bytes), Err(expected));
        };
        check(|bytes| bytes.clear(), DecodeError::Kind(0));
        check(|bytes| bytes[0] = 9, DecodeError::Kind(9));
        check(|bytes| bytes[1] = 77, DecodeError::Stop(77));
        check(|bytes| bytes.truncate(20), DecodeError::Short { len: 20, header: 72 });
        check(|bytes| bytes.truncate(88), DecodeError::Words { found: 2, told: 3 });
        check(|bytes| bytes.push(0), DecodeError::Words { found: 3, told: 3 });
        check(|bytes| bytes[4] = 200, DecodeError::Words { found: 3, told: 201 });
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_record_or_an_error(
            kind in 0u8..10, bytes in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let mut all = vec![kind];
            all.extend(bytes);
            let _ = decode(&all);
        }
    }
}
