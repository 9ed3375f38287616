//! Lists of debuginfod servers: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_profiler::fuzzing::debuginfod_settings(bytes));
