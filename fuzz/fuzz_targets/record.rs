//! Decoding of one record of the kernel half: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_profile::wire::{HalfStack, Record, Sample, decode};
use wingbeat_profile_common::{
    SAMPLE_HEADER_BYTES, TAIL_HEADER_BYTES,
    off_cpu::{BLOCK_RECORD_BYTES, END_RECORD_BYTES, HALF_HEADER_BYTES},
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = decode(bytes) else { return };
    let (header, words) = match record {
        Record::Sample(Sample { stack, .. }) => {
            (SAMPLE_HEADER_BYTES, stack.user.len() + stack.kernel.len())
        }
        Record::UserStack(half)
        | Record::KernelStack(half)
        | Record::WakerUser(half)
        | Record::WakerKernel(half) => {
            let HalfStack { stack, near, .. } = half;
            (HALF_HEADER_BYTES, stack.user.len() + stack.kernel.len() + near.len())
        }
        Record::Tail(tail) => (TAIL_HEADER_BYTES, tail.words.len()),
        Record::Block(_) => (BLOCK_RECORD_BYTES, 0),
        Record::ThreadEnd(_) => (END_RECORD_BYTES, 0),
    };
    // A record holds all of the bytes, or it is an error.
    assert_eq!(header + 8 * words, bytes.len());
});
