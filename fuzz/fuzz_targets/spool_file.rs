//! A file of the spool that the agent keeps for an engine: any bytes, and any message with the right sum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_push::fuzzing::spool_file(bytes));
