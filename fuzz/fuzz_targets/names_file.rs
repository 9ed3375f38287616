//! A file of names by build id: any bytes, and any message with a valid checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_profiler::fuzzing::names_file(bytes));
