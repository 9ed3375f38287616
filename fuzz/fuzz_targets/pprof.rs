//! pprof profiles, packed or not: any bytes. Bytes that are text are collapsed stacks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_profile::diff::read_stacks;

fuzz_target!(|bytes: &[u8]| {
    let Ok(stacks) = read_stacks("fuzz.pb.gz", bytes) else { return };
    assert_eq!(stacks.counts.values().sum::<u64>(), stacks.total);
    assert!(stacks.total > 0);
});
