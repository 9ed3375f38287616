//! The baseline: an empty program for each measured type. Its figures are the overhead of measuring.

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, FunctionInfo, Insn, op},
    spec::{Linked, ProgramSpec},
};

/// Name of the empty program.
pub(super) const BASELINE: &str = "wingbeat_empty";

/// An empty program of the type of `like`, with its attach type and flags.
pub(super) fn empty_program(like: &ProgramSpec) -> Linked {
    let name = BASELINE.to_owned();
    // `r0 = value; exit`
    let insns = vec![
        Insn::new(0xb7, 0, 0, 0, harmless_value(like.r#type)),
        Insn::new(op::EXIT, 0, 0, 0, 0),
    ];
    let functions = vec![FunctionInfo { insn_index: 0, name: name.clone(), type_id: None }];
    let program = ProgramSpec { name, insn_count: insns.len(), attachment: None, ..like.clone() };
    Linked { program, code: Code { insns, functions, lines: Vec::new() }, kfuncs: Vec::new() }
}

/// An empty program for each type that occurs.
pub(super) fn baselines<'a>(wanted: impl Iterator<Item = &'a Linked>) -> Vec<Linked> {
    let mut baselines: Vec<Linked> = Vec::new();
    for linked in wanted {
        if baselines.iter().all(|baseline| baseline.program.r#type != linked.program.r#type) {
            baselines.push(empty_program(&linked.program));
        }
    }
    baselines
}

/// A return value that passes the packet, for types where the verifier restricts it.
pub(super) fn harmless_value(r#type: ProgramType) -> i32 {
    match r#type {
        // XDP_PASS
        ProgramType::XDP => 2,
        // SK_PASS, NF_ACCEPT, and "allow".
        ProgramType::SK_LOOKUP | ProgramType::NETFILTER | ProgramType::CGROUP_SKB => 1,
        _ => 0,
    }
}
