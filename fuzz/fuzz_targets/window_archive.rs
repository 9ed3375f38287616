//! The name of a window in an archive, and its `labels.json`: any text, any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_agent::fuzzing::window_archive(bytes));
