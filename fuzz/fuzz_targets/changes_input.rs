//! Series in CSV or JSON, as read by `wingbeat changes`: any bytes.
//!
//! The parser belongs to the binary, which is not a library, so its file is compiled in here.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wingbeat/src/changes"]
mod changes {
    pub(crate) mod input;
}

use changes::input::{Input, parse};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Input { series, labels, .. }) = parse(bytes, &[]) else {
        return;
    };
    assert!(!series.is_empty());
    for (at, one) in series.iter().enumerate() {
        assert!(!one.name.is_empty());
        assert!(series.iter().skip(at + 1).all(|other| other.name != one.name));
        assert!(one.values.iter().all(|value| value.is_finite() || value.is_nan()));
        // A value takes at least a byte.
        assert!(one.values.len() <= bytes.len());
        assert!(labels.as_ref().is_none_or(|labels| labels.len() == one.values.len()));
    }
});
