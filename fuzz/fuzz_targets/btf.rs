//! The kernel's type information: any bytes. Looks up the names of the seeds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_bpf_loader::KernelTypes;

fuzz_target!(|bytes: &[u8]| {
    let Ok(types) = KernelTypes::parse(bytes) else { return };
    assert!(types.len() <= bytes.len());
    for (structure, member) in [("s", "a"), ("s", "b"), ("u", "a"), ("", ""), ("s", "c")] {
        let _ = types.member_offset_bytes(structure, member);
    }
    let _ = (types.function_id("f"), types.typedef_id("t"));
});
