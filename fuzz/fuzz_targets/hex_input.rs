//! Hexadecimal text: any bytes. Parsed bytes must survive a round trip through plain text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_bpf_bench::input::hex::parse;

fuzz_target!(|text: &[u8]| {
    let read = parse(text).inspect_err(|error| assert!(!error.to_string().is_empty()));
    let Ok(bytes) = read else { return };
    assert!(!bytes.is_empty() && 2 * bytes.len() <= text.len());
    let plain: Vec<_> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    assert_eq!(parse(plain.join(" ").as_bytes()), Ok(bytes));
});
