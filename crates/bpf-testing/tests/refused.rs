//! Errors of the interpreter and their messages.

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, FunctionInfo, Insn, op},
    spec::{Linked, ProgramSpec},
};
use wingbeat_bpf_testing::world::{Contents, Surroundings, run};

const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);
const R0_IS_0: Insn = Insn::new(op::ALU64 | op::MOV, 0, 0, 0, 0);

/// No maps.
struct Nothing;

impl Contents for Nothing {
    fn lookup(&mut self, _: usize, _: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    fn queue(&mut self, _: usize) -> Result<Vec<Vec<u8>>, String> {
        Ok(Vec::new())
    }
}

fn call(helper: i32) -> Insn {
    Insn::new(op::CALL, 0, 0, 0, helper)
}

fn load(size: u8, dst: u8, base: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | size, dst, base, offset, 0)
}

/// Runs instructions as a program of this type on an all-zero packet; checks the error, if any.
#[track_caller]
fn check(r#type: ProgramType, insns: &[Insn], packet_len: usize, expected: &str) {
    let functions = vec![FunctionInfo { insn_index: 0, name: "program".into(), type_id: None }];
    let program = ProgramSpec {
        name: "program".to_owned(),
        section: String::new(),
        r#type,
        attach_type: 0,
        flags: 0,
        attachment: None,
        insn_count: insns.len(),
    };
    let code = Code { insns: insns.to_vec(), functions, lines: Vec::new() };
    let linked = Linked { program, code, kfuncs: Vec::new() };
    let surroundings = Surroundings { cpu: 0, now_ns: 0 };
    let outcome = run(&linked, &[], &mut Nothing, &vec![0; packet_len], surroundings);
    let found = outcome.map_or_else(|error| error.to_string(), |outcome| format!("{outcome:?}"));
    assert!(found.contains(expected), "{found}");
}

#[test]
fn what_cannot_be_known() {
    let xdp = |insns: &[Insn], expected| check(ProgramType::XDP, insns, 20, expected);
    xdp(&[R0_IS_0, EXIT], "counts: [1, 1]");
    xdp(&[EXIT], "instruction 0: the end of a function without a result");
    xdp(&[load(op::DW, 0, 10, -8), EXIT], "instruction 0: stack that was never written");
    xdp(&[load(op::W, 0, 1, 20), EXIT], "a part of the context that is not known here, at 20");
    xdp(
        &[load(op::W, 1, 1, 0), load(op::W, 0, 1, 17), EXIT],
        "instruction 1: a read out of bounds",
    );
    xdp(&[call(7), EXIT], "bpf_get_prandom_u32 gives another number each time");
    xdp(&[call(69), EXIT], "the helper bpf_fib_lookup is not known to the interpreter");
    xdp(&[call(9999), EXIT], "helper 9999, which Linux 6.18 has not");
    xdp(&[Insn::new(op::JA, 0, 0, -1, 0)], "endless, or runs more than 10,000,000 instructions");
    xdp(&[R0_IS_0], "instruction 1: outside of the program");
}

#[test]
fn what_cannot_be_run() {
    let program = [R0_IS_0, EXIT];
    check(ProgramType::KPROBE, &program, 20, "programs of type kprobe are not known");
    check(ProgramType::XDP, &program, 13, "the packet has 13 bytes; the interpreter takes from 14");
    check(ProgramType::XDP, &program, 3521, "the packet has 3521 bytes");
    check(ProgramType::SCHED_CLS, &program, 3520, "return_value: 0");
}
