//! The kubelet's list of pods: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wingbeat_agent::fuzzing::kubelet_pods(bytes));
