//! A perf map of a JIT compiler: any text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_profiler::fuzzing::perf_map(bytes));
