//! Capture files, and other inputs: any bytes.
#![no_main]

use std::{collections::HashSet, path::Path};

use libfuzzer_sys::fuzz_target;
use wingbeat_bpf_bench::input::{capture::is_capture, parse};

const PACKETS_MAX: usize = 8;

fuzz_target!(|bytes: &[u8]| {
    let read = parse(Path::new("fuzz"), "fuzz", bytes, PACKETS_MAX)
        .inspect_err(|error| assert!(!error.to_string().is_empty()));
    let Ok(loaded) = read else { return };
    let names: HashSet<_> = loaded.inputs.iter().map(|input| &input.name).collect();
    assert_eq!(names.len(), loaded.inputs.len());
    assert!((1..=PACKETS_MAX).contains(&names.len()));
    // Each packet is in the file, after its own header.
    let data: usize = loaded.inputs.iter().map(|input| input.data.len()).sum();
    assert!(data + if is_capture(bytes) { 40 } else { 0 } <= bytes.len());
    assert!(loaded.warnings.iter().all(|warning| !warning.to_string().is_empty()));
});
