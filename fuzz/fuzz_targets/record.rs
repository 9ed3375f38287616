//! Decoding of one record of the kernel half: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_profiler::wire::{Record, Stack, decode};
use wingbeat_profiler_abi::{
    COPY_HEADER_BYTES, STACK_HEADER_BYTES,
    heap::{ALLOCATION_RECORD_BYTES, FREE_RECORD_BYTES},
    off_cpu::{BLOCK_RECORD_BYTES, END_RECORD_BYTES, HALF_HEADER_BYTES},
    space::SPACE_RECORD_BYTES,
};

fuzz_target!(|bytes: &[u8]| {
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
});
