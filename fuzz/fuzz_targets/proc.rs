//! Mappings and processes in `/proc`: any text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_profiler::fuzzing::proc_text(bytes));
