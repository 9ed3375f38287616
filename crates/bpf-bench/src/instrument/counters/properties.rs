//! Generated programs, run with and without counters: results and writes must match, and counts
//! must match the executed instructions.

use proptest::{prelude::*, test_runner::TestCaseError};
use wingbeat_bpf_loader::code::{Code, FunctionInfo, Insn, LineInfo, op};
use wingbeat_bpf_testing::model::{HELPER_LOOP, KFUNC_THROW, Model, ModelOutcome, Write, run};

use super::*;
use crate::instrument::graph::jump_target;
use wingbeat_bpf_testing::{
    assemble::{Assembler, assembled, listing, load},
    generate::{Entry, program},
};

fn model(entry: Entry, packet: &[u8], value_size: u32) -> Model {
    match entry {
        Entry::Xdp => Model::of_xdp(packet, value_size as usize),
        Entry::SocketFilter | Entry::Model => Model::of_socket_filter(packet, value_size as usize),
    }
}

fn throwing(code: &Code) -> BTreeSet<usize> {
    let is_throw = |insn: &Insn| {
        insn.opcode == op::CALL
            && insn.src() == op::PSEUDO_KFUNC_CALL
            && insn.immediate == KFUNC_THROW
    };
    let insns = code.insns.iter().enumerate();
    insns.filter(|(_, insn)| is_throw(insn)).map(|(index, _)| index).collect()
}

/// Writes by instructions of the original.
fn writes(outcome: &ModelOutcome, origins: &[Option<usize>]) -> Vec<Write> {
    let of_original = |write: &Write| Some(Write { index: origins[write.index]?, ..*write });
    outcome.writes.iter().filter_map(of_original).collect()
}

fn check(entry: Entry, code: &Code, packet: &[u8]) -> Result<(), TestCaseError> {
    let options = Options { may_throw: throwing(code), ..Options::default() };
    let counted = instrument(code, &options).expect("instrumented");
    let plan = &counted.plan;
    let plain = run(code, model(entry, packet, 8)).expect("the original runs");
    let value_size = plan.value_size_bytes();
    let outcome = run(&counted.program.code, model(entry, packet, value_size));
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(fault) => {
            return Err(TestCaseError::fail(format!(
                "{fault:?}\n{}",
                listing(&counted.program.code)
            )));
        }
    };
    prop_assert_eq!(outcome.result, plain.result);
    prop_assert_eq!(writes(&outcome, &counted.program.origins), plain.writes);

    let counters = plan.counters(&outcome.value);
    prop_assert_eq!(plan.insn_counts(&counters), plain.counts.clone());
    let blocks = plan.graph().blocks.iter().zip(plan.block_counts(&counters));
    for (block, count) in blocks {
        prop_assert_eq!(plain.counts[block.insns.start], count, "{:?}", block);
    }
    // Cross-checks with the instruction map.
    for (new, origin) in counted.program.origins.iter().enumerate() {
        if let Some(origin) = *origin {
            prop_assert_eq!(outcome.counts[new], plain.counts[origin], "{}", new);
            prop_assert!(counted.program.places[origin] == new, "{} is now {}", origin, new);
        }
    }
    Ok(())
}

fn check_one(build: impl FnOnce(&mut Assembler)) {
    let code = assembled(build);
    if let Err(error) = check(Entry::Model, &code, &[0; 14]) {
        panic!("{error}\n{}", listing(&code));
    }
}

/// Cases that the generator does not cover.
#[test]
fn loops_side_by_side() {
    // The exit edge of the first loop is the entry edge of the second, which counts in the same register.
    check_one(|it| {
        let (first, second) = (it.label(), it.label());
        it.mov(0, 0).mov(2, 5).mov(3, 7);
        it.bind(first).add(0, 3).add(2, -1).branch(op::JNE, 2, 0, first);
        it.bind(second).add(0, 5).add(3, -1).branch(op::JNE, 3, 0, second).exit();
    });
}

#[test]
fn a_loop_in_one_that_does_not_end() {
    // The inner loop's counter must not be held across the outer loop, which throws in its fifth iteration.
    check_one(|it| {
        let (outer, inner, callee) = (it.label(), it.label(), it.label());
        it.mov(6, 5).bind(outer).add(6, -1).mov(7, 9);
        // The call leaves only registers that could be held across the outer loop as well.
        it.bind(inner);
        (1..6).for_each(|register| _ = it.mov(register, 0));
        it.call_function(callee).add(7, -1).branch(op::JNE, 7, 0, inner);
        it.copy(1, 6).call_kfunc(KFUNC_THROW).branch(op::JNE, 6, 0, outer).mov(0, 0).exit();
        it.bind(callee).function("callee").mov(0, 0).exit();
    });
}

#[test]
fn a_function_that_begins_with_a_loop() {
    check_one(|it| {
        let callee = it.label();
        it.mov(1, 4).call_function(callee).mov(1, 2).call_function(callee).exit();
        it.bind(callee).function("callee");
        it.add(1, -1).mov(0, 1).branch(op::JNE, 1, 0, callee).exit();
    });
}

#[test]
fn a_loop_with_two_entries() {
    check_one(|it| {
        let (middle, top) = (it.label(), it.label());
        it.mov(0, 9).emit(load(op::W, 2, 1, 0)).branch(op::JEQ, 2, 0, middle);
        it.bind(top).add(0, -1).bind(middle).add(0, -1).branch(op::JSGT, 0, 0, top).exit();
    });
}

#[test]
fn a_callback_that_is_called_too() {
    check_one(|it| {
        let callback = it.label();
        it.mov(1, 3).load_function(2, callback).mov(3, 0).mov(4, 0).call(HELPER_LOOP);
        it.call_function(callback).exit();
        it.bind(callback).function("callback").mov(0, 0).exit();
    });
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 14..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn socket_filters(program in program(Entry::SocketFilter), packet in packet()) {
        check(Entry::SocketFilter, &program.code(), &packet)?;
    }

    #[test]
    fn xdp_programs(program in program(Entry::Xdp), packet in packet()) {
        check(Entry::Xdp, &program.code(), &packet)?;
    }

    #[test]
    fn calls_that_do_not_return(program in program(Entry::Model), packet in packet()) {
        check(Entry::Model, &program.code(), &packet)?;
    }

    /// Invalid files cause nothing worse than an error.
    #[test]
    fn nonsense_does_no_harm(code in nonsense(), depth in any::<u32>(), counter in any::<u64>()) {
        let options = Options {
            may_throw: BTreeSet::from([0, 3]),
            stack_depths_bytes: vec![depth; 2],
            ..Options::default()
        };
        if let Ok(counted) = instrument(&code, &options) {
            let counters = vec![counter; counted.plan.slots()];
            prop_assert_eq!(counted.plan.insn_counts(&counters).len(), code.insns.len());
            prop_assert_eq!(counted.plan.edge_counts(&counters).len(), counted.plan.graph().edges.len());
            let throws = |new: usize| {
                counted.program.origins[new].is_some_and(|old| options.may_throw.contains(&old))
            };
            Graph::new(&counted.program.code, &throws).expect("as good as before");
        }
    }
}

/// Instructions in random order, most of them valid, with jumps and calls that sometimes have a valid target.
fn nonsense() -> impl Strategy<Value = Code> {
    let opcodes = vec![
        op::ALU64 | op::MOV | op::X,
        op::ALU64 | op::ADD,
        op::LDX | op::MEM | op::DW,
        op::STX | op::MEM | op::DW,
        op::STX | op::ATOMIC | op::DW,
        op::JMP | op::JEQ,
        op::JMP32 | op::JSET,
        op::JA,
        op::JA32,
        op::JCOND,
        op::CALL,
        op::EXIT,
        op::LD | op::ABS | op::W,
    ];
    let opcode = prop_oneof![30 => prop::sample::select(opcodes), 1 => any::<u8>()];
    let distance = -8..8_i32;
    let insn = (opcode, 0..11_u8, 0..3_u8, distance.clone(), distance).prop_map(
        |(opcode, dst, src, offset, immediate)| {
            vec![Insn::new(opcode, dst, src, offset as i16, immediate)]
        },
    );
    let double = (0..6_u8, -8..8_i32)
        .prop_map(|(kind, low)| vec![Insn::new(op::LDIMM64, 1, kind, 0, low), Insn::default()]);
    let insns = prop::collection::vec(prop_oneof![8 => insn, 1 => double], 0..24);
    let starts = prop::collection::btree_set(0..30_u32, 0..3);
    let is_mended = prop::bool::weighted(0.8);
    (insns, starts.clone(), starts, is_mended).prop_map(|(insns, functions, lines, is_mended)| {
        let mut insns = insns.concat();
        insns.extend([Insn::new(op::EXIT, 0, 0, 0, 0); 2]);
        if is_mended {
            mend(&mut insns);
        }
        let function = |insn_index| FunctionInfo { insn_index, name: "f".into(), type_id: None };
        let line =
            |insn_index| LineInfo { insn_index, file_offset: 0, text_offset: 0, line_column: 0 };
        let functions = functions.into_iter().filter(|&start| !is_mended || start == 0);
        Code {
            insns,
            functions: functions.map(function).collect(),
            lines: lines.into_iter().map(line).collect(),
        }
    })
}

/// Redirects invalid jumps to the next instruction, and invalid calls to the last one.
fn mend(insns: &mut [Insn]) {
    let len = insns.len();
    let halves: Vec<bool> = insns.iter().map(|insn| insn.opcode == 0).collect();
    for (index, insn) in insns.iter_mut().enumerate() {
        let last = (len - index) as i32 - 2;
        let target = jump_target(index, *insn).map(|target| target as usize);
        let is_double = insn.is_ldimm64();
        match insn.opcode {
            op::JA32 if target.is_some_and(|it| it >= len - 1 || halves[it]) => insn.immediate = 0,
            _ if target.is_some_and(|it| it >= len - 1 || halves[it]) => insn.offset = 0,
            op::CALL if insn.is_local_call() => insn.immediate = last,
            _ if is_double && insn.src() == op::PSEUDO_FUNC => insn.immediate = last,
            _ if insn.opcode == op::STX | op::ATOMIC | op::DW => insn.immediate = op::FETCH,
            _ => {}
        }
    }
}
