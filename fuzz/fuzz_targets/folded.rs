//! Collapsed stacks, and drawing the parsed stacks: any bytes.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use wingbeat_profiler::diff::{Scaling, differential_svg, read_stacks};

fuzz_target!(|bytes: &[u8]| {
    let Ok(stacks) = read_stacks("fuzz.folded", bytes) else { return };
    assert_eq!(stacks.counts.values().sum::<u64>(), stacks.total);
    assert!(stacks.total > 0);
    let drawn = differential_svg(&stacks, &stacks, Scaling::ToAfter, &mut io::sink());
    assert!(drawn.is_ok(), "cannot draw what was read: {drawn:?}");
});
