//! An eBPF object: parses it and links every program, for a kernel with the object's own types.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_bpf_loader::{KernelTypes, spec::Spec};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut spec) = Spec::parse("object", bytes) else { return };
    let types = spec.types();
    let kernel = match types.bytes() {
        [] => None,
        bytes => Some(KernelTypes::parse(bytes).expect("types for the kernel hold together")),
    };
    for program in spec.programs() {
        let Ok(linked) = spec.link_program(&program.name, kernel.as_ref()) else { continue };
        let len = linked.code.insns.len();
        assert_eq!(linked.code.functions[0].name, program.name);
        assert!(linked.code.functions.iter().all(|found| (found.insn_index as usize) < len));
        assert!(linked.code.lines.is_sorted_by_key(|line| line.insn_index));
        for line in &linked.code.lines {
            assert!((line.insn_index as usize) < len);
            assert!(types.string(line.file_offset).is_some());
            assert!(types.string(line.text_offset).is_some());
        }
        for call in &linked.kfuncs {
            assert_eq!(linked.kfunc_at(call.insn_index), Some(call));
        }
    }
    for map in spec.maps() {
        assert!(map.initial.as_ref().is_none_or(|value| value.len() == map.value_size as usize));
    }
    let _ = spec.set_global("limit", &[1; 4]);
    let _ = (spec.externs(), spec.other_code(), spec.license(), spec.kernel_version());
});
