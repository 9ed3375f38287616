//! Go's table of functions: an ELF file with one, or the table alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_unwind::GoTable;

/// Number of lookup addresses, spread over the range.
const ADDRESSES: u64 = 64;

fuzz_target!(|bytes: &[u8]| {
    let alone = || GoTable::parse(bytes, 0, bytes.len() as u64);
    let Some(table) = GoTable::find(bytes).or_else(alone) else { return };
    let Some(range) = table.range() else { return };
    let step = ((range.end - range.start) / ADDRESSES).max(1);
    for number in 0..ADDRESSES {
        let address = range.start.saturating_add(number * step);
        if let Some(location) = table.location(address) {
            assert!(range.contains(&address) && !location.function.is_empty());
        }
    }
});
