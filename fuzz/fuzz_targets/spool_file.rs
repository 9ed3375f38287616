//! A file of the agent's spool for an engine: any bytes, and any message with a valid checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_agent::fuzzing::spool_file(bytes));
