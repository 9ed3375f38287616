//! Rules of the agent: any text gives rules, or a one-line error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_agent::Rules;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Rules::read(&text) {
        Ok(rules) => assert!(rules.len() <= text.len()),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
