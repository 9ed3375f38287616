//! Generates eBPF programs for tests: by hand with an [assembler](assemble), or [at random](generate).

pub mod assemble;
pub mod generate;

use wingbeat_bpf::{
    ProgramType,
    code::Code,
    spec::{Linked, ProgramSpec},
};

/// A linked program of this code, without an object and maps.
pub fn linked(name: &str, r#type: ProgramType, code: Code) -> Linked {
    let program = ProgramSpec {
        name: name.to_owned(),
        section: r#type.name().to_owned(),
        r#type,
        attach_type: 0,
        flags: 0,
        attachment: None,
        insn_count: code.insns.len(),
    };
    Linked { program, code, kfuncs: Vec::new() }
}
