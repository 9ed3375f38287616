//! Decoding of one record of the kernel half: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_profile::wire::{Record, decode};
use wingbeat_profile_common::{
    SAMPLE_HEADER_BYTES, TAIL_HEADER_BYTES,
    off_cpu::{BLOCK_RECORD_BYTES, END_RECORD_BYTES},
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = decode(bytes) else { return };
    let (header, words) = match record {
        Record::Sample(sample)
        | Record::UserStack(sample)
        | Record::KernelStack(sample)
        | Record::WakerUser(sample)
        | Record::WakerKernel(sample) => {
            (SAMPLE_HEADER_BYTES, sample.user.len() + sample.kernel.len())
        }
        Record::Tail(tail) => (TAIL_HEADER_BYTES, tail.words.len()),
        Record::Block(_) => (BLOCK_RECORD_BYTES, 0),
        Record::ThreadEnd(_) => (END_RECORD_BYTES, 0),
    };
    // A record holds all of the bytes, or it is an error.
    assert_eq!(header + 8 * words, bytes.len());
});
