//! The name of a window in a ring, and its `labels.json`: any text, any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_push::fuzzing::ring(bytes));
