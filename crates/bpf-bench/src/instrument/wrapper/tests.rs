//! Wrapped code, and rejected programs.

use proptest::prelude::*;
use wingbeat_bpf_loader::code::disassemble::Listing;

use super::*;

fn function(insn_index: u32, name: &str, type_id: Option<u32>) -> FunctionInfo {
    FunctionInfo { insn_index, name: name.to_owned(), type_id }
}

fn line(insn_index: u32, number: u32) -> LineInfo {
    LineInfo { insn_index, file_offset: 1, text_offset: 2, line_column: number << 10 | 5 }
}

/// An entry that passes a callback's address and calls a local function.
fn code() -> Code {
    let insns = vec![
        Insn::new(op::LDIMM64, 2, op::PSEUDO_FUNC, 0, 3),
        Insn::default(),
        Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, 1),
        Insn::new(op::EXIT, 0, 0, 0, 0),
        Insn::new(op::ALU64 | op::MOV, 0, 0, 0, 2),
        Insn::new(op::EXIT, 0, 0, 0, 0),
    ];
    let functions = vec![function(0, "entry", Some(11)), function(4, "callee", Some(12))];
    Code { insns, functions, lines: vec![line(0, 7), line(3, 8), line(4, 3)] }
}

fn options(program_type: ProgramType) -> Options {
    Options { map_fd: 9, program_type, restored: None }
}

#[test]
fn the_clock_in_front_of_a_program() {
    let wrapped = wrap(&code(), options(ProgramType::XDP)).expect("wrappable");
    let listing = Listing::new(&wrapped).to_string();
    let lines: Vec<_> = listing.lines().collect();
    let begin = "\
wingbeat_wrapper:
    0: r6 = r1
    1: call bpf_ktime_get_ns
    2: r7 = r0
    3: r1 = r6
    4: call entry
    5: r6 = r0
    6: call bpf_ktime_get_ns
    7: r0 -= r7
    8: r3 = map[fd:9][0] + 0
   10: *(u64 *)(r3 + 24) = r0
   11: r0 = *(u64 *)(r3 + 24)
   12: r1 = *(u64 *)(r3 + 0)
   13: r1 += r0
   14: *(u64 *)(r3 + 0) = r1
   15: r4 = r0
   16: r5 = r3";
    assert_eq!(lines[..17].join("\n"), begin);
    let end = "   51: r0 <<= 3
   52: r5 += r0
   53: r1 = *(u64 *)(r5 + 32)
   54: r1 += 1
   55: *(u64 *)(r5 + 32) = r1
   56: r1 = *(u64 *)(r3 + 8)
   57: if r4 <= r1 goto +1 <59>
   58: *(u64 *)(r3 + 8) = r4
   59: r4 ^= -1
   60: r1 = *(u64 *)(r3 + 16)
   61: if r4 <= r1 goto +1 <63>
   62: *(u64 *)(r3 + 16) = r4
   63: r0 = r6
   64: exit
entry:
   65: r2 = func callee
   67: call callee
   68: exit
callee:
   69: r0 = 2
   70: exit";
    assert_eq!(lines[lines.len() - 21..].join("\n"), end);
}

#[test]
fn functions_and_lines_move_along() {
    let wrapped = wrap(&code(), options(ProgramType::XDP)).expect("wrappable");
    let expected = [
        function(0, WRAPPER_NAME, Some(11)),
        function(65, "entry", Some(11)),
        function(69, "callee", Some(12)),
    ];
    assert_eq!(wrapped.functions, expected);
    assert_eq!(wrapped.lines, [line(0, 7), line(65, 7), line(68, 8), line(69, 3)]);

    let without_lines = Code { lines: Vec::new(), ..code() };
    let wrapped = wrap(&without_lines, options(ProgramType::XDP)).expect("wrappable");
    assert_eq!(wrapped.lines, []);
}

#[test]
fn what_cannot_be_wrapped() {
    let check = |code: &Code, program_type, expected: Option<NotWrappable>| {
        assert_eq!(wrap(code, options(program_type)).err(), expected);
    };
    let with = |insn| {
        let mut code = code();
        code.insns[4] = insn;
        code
    };
    let without_types = |mut code: Code| {
        code.functions[1].type_id = None;
        code
    };
    let tail_call = Insn::new(op::CALL, 0, 0, 0, 12);
    let load_abs = Insn::new(op::LD | op::ABS | op::B, 0, 0, 0, 12);
    let load_ind = Insn::new(op::LD | op::IND | op::W, 0, 3, 0, 12);
    let needs_types = |what| Some(NotWrappable::NeedsTypes { insn_index: 4, what });
    let packet_load = "a packet load of classic BPF (LD_ABS or LD_IND)";

    check(&code(), ProgramType::SOCKET_FILTER, None);
    check(&without_types(code()), ProgramType::SYSCALL, None);
    check(&code(), ProgramType::STRUCT_OPS, Some(NotWrappable::StructOps));
    check(&code(), ProgramType::EXT, Some(NotWrappable::Extension));
    check(&with(tail_call), ProgramType::XDP, None);
    check(&with(load_abs), ProgramType::SOCKET_FILTER, None);
    check(&without_types(with(tail_call)), ProgramType::XDP, needs_types("a tail call"));
    check(&without_types(with(load_abs)), ProgramType::SCHED_CLS, needs_types(packet_load));
    check(&without_types(with(load_ind)), ProgramType::SCHED_CLS, needs_types(packet_load));

    check(&Code::default(), ProgramType::XDP, Some(NotWrappable::NoEntry));
    let nameless = Code { functions: Vec::new(), ..code() };
    check(&nameless, ProgramType::XDP, Some(NotWrappable::NoEntry));
    let headless = Code { functions: vec![function(4, "callee", None)], ..code() };
    check(&headless, ProgramType::XDP, Some(NotWrappable::NoEntry));
    let long = Code { insns: vec![Insn::default(); 999_990], ..code() };
    check(&long, ProgramType::XDP, Some(NotWrappable::TooLong { insn_count: 999_990 }));
}

/// The second half of a `ldimm64` is a number, whatever it looks like.
#[test]
fn numbers_are_not_taken_for_instructions() {
    let mut code = code();
    code.functions[0].type_id = None;
    code.insns[1] = Insn::new(op::CALL, 0, 0, 0, 12);
    assert!(wrap(&code, options(ProgramType::XDP)).is_ok());
}

#[test]
fn there_is_room_for_what_is_put_in_front() {
    assert!(timer(0).len() <= FRONT_INSNS_MAX);
}

fn any_code() -> impl Strategy<Value = Code> {
    let function = (any::<u32>(), "[a-z]{0,4}", any::<Option<u32>>())
        .prop_map(|(insn_index, name, type_id)| FunctionInfo { insn_index, name, type_id });
    let line = (any::<u32>(), 0_u32..9).prop_map(|(insn_index, number)| line(insn_index, number));
    let insns = prop::collection::vec(any::<[u8; 8]>().prop_map(Insn::from_bytes), 0..30);
    let functions = prop::collection::vec(function, 0..4);
    let lines = prop::collection::vec(line, 0..4);
    (insns, functions, lines, any::<bool>()).prop_map(|(insns, mut functions, lines, has_entry)| {
        if let Some(entry) = functions.first_mut().filter(|_| has_entry) {
            entry.insn_index = 0;
        }
        Code { insns, functions, lines }
    })
}

proptest! {
    #[test]
    fn the_program_itself_is_not_touched(code in any_code(), program_type in 0_u32..40) {
        let options = options(ProgramType(program_type));
        if let Ok(wrapped) = wrap(&code, options) {
            let entry = wrapped.functions[1].insn_index as usize;
            prop_assert_eq!(&wrapped.insns[entry..], &code.insns);
            prop_assert_eq!(wrapped.functions.len(), code.functions.len() + 1);
            let calls = wrapped.insns[..entry].iter().enumerate().filter(|(_, insn)| {
                insn.is_local_call()
            });
            for (index, call) in calls {
                prop_assert_eq!(index as i64 + 1 + i64::from(call.immediate), entry as i64);
            }
        }
    }
}
