//! Segments, build id and unwind rules of an ELF file: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_profiler::fuzzing::elf(bytes));
