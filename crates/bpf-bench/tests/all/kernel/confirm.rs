//! Confirms counts of a real object: counters against the interpreter, and both against the kernel.

use wingbeat_bpf_bench::{
    input::Input,
    measure::{Confirmation, Difference, confirm},
    plan::Plan,
};
use wingbeat_bpf_loader::{code::op, spec::Spec};
use wingbeat_bpf_testing::assemble::assembled;

use wingbeat_bpf_testing::object::typed::Program;

use super::support::{can_load, plan};

/// Confirms a program on all inputs; returns executed instructions of each.
fn confirmed(spec: &Spec, program: &str, plan: &Plan) -> Vec<u64> {
    let found = confirm(spec, program, plan).expect("it is counted");
    let found = found.into_iter().map(|found| found.expect("the interpreter knows all of it"));
    found
        .map(|found| {
            assert!(found.agrees(), "{program}: {found:#?}");
            found.counted
        })
        .collect()
}

/// Variants of the default packet: other senders and ports, truncated, and other protocols than UDP.
fn packets() -> Vec<Vec<u8>> {
    let packet = Input::default_packet().data;
    let with = |at: usize, bytes: &[u8]| {
        let mut packet = packet.clone();
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        packet
    };
    let mut packets =
        vec![packet.clone(), with(12, &[0x86, 0xdd]), with(12, &[8, 6]), with(23, &[6])];
    packets.extend((1..=15).map(|last| with(29, &[last])));
    packets.extend([14, 20, 33, 34, 41, 42, 60].map(|len| packet[..len].to_vec()));
    packets
}

#[test]
fn all_versions_of_fun_xdp() {
    let Some(()) = can_load() else { return };
    let spec = Spec::parse("fun-xdp", fun_xdp::OBJECT).expect("an object");
    let plan = plan(&packets());
    for program in spec.programs() {
        let counts = confirmed(&spec, &program.name, &plan);
        let ways: std::collections::BTreeSet<_> = counts.iter().collect();
        // The first version does nothing, the others read the packet.
        assert!(ways.len() > 2 || program.name.ends_with("v0"), "{}: {counts:?}", program.name);
    }
}

#[test]
fn what_the_interpreter_does_not_know_is_named() {
    let Some(()) = can_load() else { return };
    const GET_PRANDOM_U32: i32 = 7;
    let insns = assembled(|it| it.call(GET_PRANDOM_U32).alu_immediate(op::AND, 0, 1).exit()).insns;
    let program =
        Program { name: "program", section: "xdp", insns: &insns, lines: &[], statics: &[] };
    let spec = Spec::parse("program.o", &program.object()).expect("an object");
    let found = confirm(&spec, "program", &plan(&packets()[..1])).expect("one input");
    let error = found.into_iter().next().expect("one input").expect_err("nobody can foresee it");
    assert!(error.to_string().contains("at instruction 0: bpf_get_prandom_u32"), "{error}");
}

#[test]
fn any_difference_is_no_agreement() {
    let check = |difference: Option<Difference>, return_values, is_packet_same, expected| {
        let found = Confirmation {
            input: "default".to_owned(),
            counted: 5,
            interpreted: 5,
            difference,
            return_values,
            is_packet_same,
        };
        assert_eq!(found.agrees(), expected, "{found:?}");
    };
    check(None, [2, 2, 2], true, true);
    check(None, [2, 2, 1], true, false);
    check(None, [1, 2, 2], true, false);
    check(None, [2, 2, 2], false, false);
    check(Some(Difference { index: 3, counted: 1, interpreted: 2 }), [2; 3], true, false);
}
