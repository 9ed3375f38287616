//! Decodes a sample and formats it as a log line.

use std::fmt;

use profiler_common::{SAMPLE_BYTES, STACK_BYTES_MAX, SampleHeader};
use thiserror::Error;

/// A decoded sample, which does not borrow from the ring buffer.
///
/// Its [`Display`](fmt::Display) form is made for line-based tools: `key=value` fields, the stack
/// last, so that what follows `stack=` is the same for equal stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Thread and time.
    pub header: SampleHeader,
    /// Addresses in user space, innermost frame first. All but the first are return addresses.
    pub stack: Vec<u64>,
}

/// Why bytes are not a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SampleError {
    /// The two halves of the profiler are from different builds.
    #[error(
        "a sample has {SAMPLE_BYTES} bytes, this one has {0}: \
         the two halves of the profiler are of different builds"
    )]
    Size(usize),
    /// The stack length exceeds the maximum.
    #[error("a stack has at most {STACK_BYTES_MAX} bytes, this one claims {0}")]
    StackTooLong(u64),
    /// The stack length is not a multiple of an address.
    #[error("a stack has 8 bytes per frame, this one claims {0} bytes in all")]
    StackUneven(u64),
}

impl Sample {
    /// Decodes a sample of the kernel half, in native byte order.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SampleError> {
        let wrong_size = SampleError::Size(bytes.len());
        if bytes.len() != SAMPLE_BYTES {
            return Err(wrong_size);
        }
        let (header, room) = decode_header(bytes).ok_or(wrong_size)?;
        let stack = usize::try_from(header.stack_len)
            .ok()
            .and_then(|stack_len| room.get(..stack_len))
            .ok_or(SampleError::StackTooLong(header.stack_len))?;
        let (addresses, rest) = stack.as_chunks();
        if !rest.is_empty() {
            return Err(SampleError::StackUneven(header.stack_len));
        }
        let stack = addresses.iter().map(|address| u64::from_ne_bytes(*address)).collect();
        Ok(Self { header, stack })
    }
}

/// Header, and the remaining bytes; `None` if there are too few.
fn decode_header(mut bytes: &[u8]) -> Option<(SampleHeader, &[u8])> {
    // Fields are evaluated in this order, which is their order in memory.
    let header = SampleHeader {
        ktime: u64::from_ne_bytes(take(&mut bytes)?),
        pid: u32::from_ne_bytes(take(&mut bytes)?),
        tid: u32::from_ne_bytes(take(&mut bytes)?),
        stack_len: u64::from_ne_bytes(take(&mut bytes)?),
    };
    Some((header, bytes))
}

/// Splits off the first `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { header: SampleHeader { ktime, pid, tid, stack_len: _ }, stack } = self;
        write!(f, "sample ktime={ktime} pid={pid} tid={tid} stack=")?;
        for (depth, address) in stack.iter().enumerate() {
            let comma = if depth == 0 { "" } else { "," };
            write!(f, "{comma}{address:#x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use profiler_common::{SAMPLE_HEADER_BYTES, STACK_FRAMES_MAX};

    use super::*;

    /// Bytes of a sample with this declared stack length, and these addresses at its start.
    fn sample_bytes(stack_len: u64, stack: &[u64]) -> Vec<u8> {
        let mut bytes = 123_456_789_u64.to_ne_bytes().to_vec();
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(8_u32.to_ne_bytes());
        bytes.extend(stack_len.to_ne_bytes());
        bytes.extend(stack.iter().flat_map(|address| address.to_ne_bytes()));
        // Like a ring buffer that has wrapped around: stale bytes, not zeros.
        bytes.resize(SAMPLE_BYTES, 0xa5);
        bytes
    }

    fn check_line(bytes: &[u8], expected: &str) {
        assert_eq!(Sample::decode(bytes).unwrap().to_string(), expected);
    }

    fn check_error(bytes: &[u8], expected: SampleError) {
        assert_eq!(Sample::decode(bytes), Err(expected));
    }

    #[test]
    fn a_sample_is_one_line() {
        let stack = [0x5555_0000_1234, 0x7fff_0000_0001];
        check_line(&sample_bytes(0, &stack), "sample ktime=123456789 pid=7 tid=8 stack=");
        check_line(
            &sample_bytes(8, &stack),
            "sample ktime=123456789 pid=7 tid=8 stack=0x555500001234",
        );
        check_line(
            &sample_bytes(16, &stack),
            "sample ktime=123456789 pid=7 tid=8 stack=0x555500001234,0x7fff00000001",
        );
    }

    #[test]
    fn a_full_stack_is_kept_whole() {
        let stack: Vec<u64> = (1..=STACK_FRAMES_MAX as u64).collect();
        let sample = Sample::decode(&sample_bytes(STACK_BYTES_MAX as u64, &stack)).unwrap();
        assert_eq!(sample.stack, stack);
    }

    #[test]
    fn bytes_that_are_no_sample_are_an_error() {
        check_error(&[], SampleError::Size(0));
        check_error(&[0; SAMPLE_HEADER_BYTES], SampleError::Size(SAMPLE_HEADER_BYTES));
        let sample = sample_bytes(8, &[1]);
        check_error(&sample[1..], SampleError::Size(SAMPLE_BYTES - 1));
        check_error(&[sample, vec![0]].concat(), SampleError::Size(SAMPLE_BYTES + 1));
        check_error(&sample_bytes(1017, &[]), SampleError::StackTooLong(1017));
        check_error(&sample_bytes(u64::MAX, &[]), SampleError::StackTooLong(u64::MAX));
        check_error(&sample_bytes(12, &[1, 2]), SampleError::StackUneven(12));
    }
}
