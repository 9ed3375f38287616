//! Unwind rules from `.eh_frame` and its index: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_profile::fuzzing::unwind_tables(bytes));
