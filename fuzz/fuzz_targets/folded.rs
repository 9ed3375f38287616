//! Collapsed stacks, and drawing the parsed stacks: any bytes.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use wingbeat_profiler::diff::{Scaling, differential_svg, functions};

fuzz_target!(|bytes: &[u8]| {
    let files = [("fuzz.folded", bytes), ("fuzz.folded", bytes)];
    let Ok((explanation, _)) = functions(files) else { return };
    assert!(explanation.whole().after > 0.0);
    let drawn = differential_svg(files, Scaling::ToAfter, &mut io::sink());
    assert!(drawn.is_ok(), "cannot draw what was read: {drawn:?}");
});
