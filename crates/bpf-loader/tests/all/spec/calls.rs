//! Calls between functions of an object, and callbacks.

use wingbeat_bpf_loader::code::{Insn, op};
use wingbeat_bpf_testing::object::{
    Object,
    insns::{EXIT, address, call, give, linked, set},
};

use super::support::{link, link_refusal, main, parse};

/// The program `main` with functions in `.text`, each of which calls others by their symbols.
fn calling(functions: &[(&str, &[&str])]) -> Object {
    let mut object = Object::new();
    let (text, xdp) = (object.code(".text"), object.code("xdp"));
    let mut calls = Vec::new();
    let mut symbols = Vec::new();
    for &(name, callees) in functions {
        let section = if name == "main" { xdp } else { text };
        let start = object.at(section).data.len() as u64 / 8;
        let insns: Vec<Insn> = callees.iter().map(|_| call(-1)).chain([EXIT]).collect();
        symbols.push((name, object.function(section, name, &insns)));
        calls.extend((start..).zip(callees).map(|(at, callee)| (section, at, *callee)));
    }
    for (section, at, callee) in calls {
        let symbol = symbols.iter().find(|(name, _)| *name == callee).expect("a function").1;
        object.call(section, at, symbol);
    }
    object
}

/// Names of functions in order, each with its callees, according to the linked instructions.
fn called(bytes: &[u8]) -> Vec<(String, Vec<String>)> {
    let code = link(bytes, "main").code;
    let at = |index: usize| {
        let found = code.functions.iter().rfind(|f| f.insn_index as usize <= index).expect("one");
        found.name.clone()
    };
    let mut found: Vec<(String, Vec<String>)> =
        code.functions.iter().map(|function| (function.name.clone(), Vec::new())).collect();
    for (index, insn) in code.insns.iter().enumerate().filter(|(_, insn)| insn.is_local_call()) {
        let callee = (index as i64 + 1 + i64::from(insn.immediate)) as usize;
        assert!(code.functions.iter().any(|function| function.insn_index as usize == callee));
        let caller = found.iter_mut().find(|(name, _)| *name == at(index)).expect("a caller");
        caller.1.push(at(callee));
    }
    found
}

#[test]
fn functions_follow_in_the_order_in_which_they_are_called() {
    #[track_caller]
    fn check(functions: &[(&str, &[&str])], expected: &[&str]) {
        let found = called(&calling(functions).write());
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected);
        for (name, callees) in &found {
            let wanted = functions.iter().find(|(other, _)| other == name).expect("a function").1;
            assert_eq!(callees, wanted, "{name}");
        }
    }
    check(&[("main", &[])], &["main"]);
    check(&[("a", &[]), ("main", &["a"])], &["main", "a"]);
    // Called twice, included once; and one that is never called.
    check(&[("a", &[]), ("b", &[]), ("main", &["b", "b"])], &["main", "b"]);
    // A chain, against the order of the file.
    check(&[("c", &[]), ("b", &["c"]), ("a", &["b"]), ("main", &["a"])], &["main", "a", "b", "c"]);
    // A diamond.
    check(
        &[("c", &[]), ("a", &["c"]), ("b", &["c"]), ("main", &["b", "a"])],
        &["main", "b", "a", "c"],
    );
    // Recursion, which the verifier rejects, but linking allows.
    check(&[("a", &["a"]), ("main", &["a"])], &["main", "a"]);
    check(&[("a", &["b"]), ("b", &["a"]), ("main", &["a", "b"])], &["main", "a", "b"]);
    check(&[("a", &["main"]), ("main", &["a"])], &["main", "a"]);
}

#[test]
fn the_section_tells_functions_at_the_same_offset_apart() {
    let mut object = Object::new();
    let (text, other, xdp) = (object.code(".text"), object.code(".text.other"), object.code("xdp"));
    let one = object.function(text, "one", &give(1));
    let two = object.static_function(other, "two", &give(2));
    object.function(xdp, "main", &[call(-1), call(-1), EXIT]);
    object.call(xdp, 0, two);
    object.call(xdp, 1, one);
    let code = link(&object.write(), "main").code;
    let expected = [[call(2), call(3), EXIT].as_slice(), &give(2), &give(1)].concat();
    assert_eq!(code.insns, expected);
}

#[test]
fn programs_of_a_section_may_call_each_other() {
    let mut object = Object::new();
    let xdp = object.code("xdp");
    object.static_function(xdp, "inner", &give(1));
    object.function(xdp, "one", &[call(-3), EXIT]);
    object.function(xdp, "two", &[call(-3), call(-6), EXIT]);
    let spec = parse(&object.write());
    let names: Vec<_> = spec.programs().iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    let found = spec.link(None).unwrap();
    assert_eq!(found[0].code.insns, [[call(1), EXIT].as_slice(), &give(1)].concat());
    let expected = [[call(2), call(3), EXIT].as_slice(), &[call(1), EXIT], &give(1)].concat();
    assert_eq!(found[1].code.insns, expected);
}

#[test]
fn callbacks_are_functions_too() {
    let mut object = Object::new();
    let (text, xdp) = (object.code(".text"), object.code("xdp"));
    object.static_function(text, "one", &give(1));
    object.static_function(text, "two", &give(2));
    // By section and distance in bytes; the same function twice, and also called.
    let [load_0, load_1] = address(2, 16);
    object.function(xdp, "main", &[load_0, load_1, call(1), load_0, load_1, EXIT]);
    let section = object.section_symbol(text);
    object.refer(xdp, 0, section);
    object.call(xdp, 2, section);
    object.refer(xdp, 3, section);
    let code = link(&object.write(), "main").code;
    let expected = [
        linked(2, op::PSEUDO_FUNC, 5, 0).as_slice(),
        &[call(3)],
        &linked(2, op::PSEUDO_FUNC, 2, 0),
        &[EXIT],
        &give(2),
    ]
    .concat();
    assert_eq!(code.insns, expected);
}

#[test]
fn programs_may_be_longer_than_any_jump() {
    const LEN: usize = 70_000;
    let mut object = Object::new();
    let (text, xdp) = (object.code(".text"), object.code("xdp"));
    let callee = object.function(text, "callee", &give(1));
    let mut insns = vec![set(0, 0); LEN];
    (insns[0], insns[LEN - 1]) = (call(-1), EXIT);
    object.function(xdp, "main", &insns);
    object.call(xdp, 0, callee);
    let code = link(&object.write(), "main").code;
    assert_eq!(code.insns.len(), LEN + 2);
    assert_eq!(code.insns[0], call(LEN as i32 - 1));
}

#[test]
fn helpers_are_left_as_they_are() {
    let helper = Insn::new(op::CALL, 0, 0, 0, 5);
    let (object, _) = main(&[helper, EXIT]);
    assert_eq!(link(&object.write(), "main").code.insns, [helper, EXIT]);
}

/// The instruction determines the meaning of a relocation; libbpf does not check its type either.
#[test]
fn types_of_relocations_do_not_matter() {
    let mut object = calling(&[("a", &[]), ("main", &["a"])]);
    let expected = link(&object.write(), "main").code;
    for kind in [0, 1, 4, 99, u32::MAX] {
        object.at(2).relocations[0].kind = kind;
        assert_eq!(link(&object.write(), "main").code, expected, "{kind}");
    }
}

#[test]
fn calls_that_lead_nowhere() {
    #[track_caller]
    fn check(insns: &[Insn], change: impl Fn(&mut Object, usize), expected: &str) {
        let (mut object, xdp) = main(insns);
        change(&mut object, xdp);
        let text = link_refusal(&object.write(), "main");
        assert_eq!(text, format!("a.o: cannot link main: {expected}"));
    }
    let no_change = |_: &mut Object, _: usize| {};
    let gone = |object: &mut Object, xdp| {
        let symbol = object.undefined("gone");
        object.call(xdp, 0, symbol);
    };
    check(&[call(-1), EXIT], gone, "it calls gone: the object has no type information");
    let nowhere = |what: &str, place: &str| {
        format!("it refers to {what} as a function, in section {place}, where none begins")
    };
    check(&[call(1), EXIT], no_change, &nowhere("something", "xdp at offset 16"));
    check(&[call(i32::MIN), EXIT], no_change, &nowhere("something", "xdp"));
    let middle_of_a_function = |object: &mut Object, xdp| {
        let text = object.code(".text");
        object.static_function(text, "whole", &give(1));
        let section = object.section_symbol(text);
        object.call(xdp, 0, section);
    };
    let expected = nowhere("something", ".text at offset 8");
    check(&[call(0), EXIT], middle_of_a_function, &expected);
    let variable = |object: &mut Object, xdp| {
        let data = object.data(".data", &[0; 8]);
        let symbol = object.variable(data, "number", 0, 8);
        object.call(xdp, 0, symbol);
    };
    check(&[call(-1), EXIT], variable, &nowhere("number", ".data at offset 0"));
    let main_0 = |object: &mut Object, xdp| object.call(xdp, 0, 0);
    check(&[set(0, 1), EXIT], main_0, "instruction 0 cannot hold main");
    let [first, second] = address(1, 0);
    let main_1 = |object: &mut Object, xdp| object.refer(xdp, 1, 0);
    let expected = "main would be written into the middle of an instruction, at 1";
    check(&[first, second, EXIT], main_1, expected);
    check(&[EXIT, first], no_change, "it ends within an instruction");
}

#[test]
fn what_fails_in_a_callee_names_it() {
    let mut object = calling(&[("a", &["b"]), ("b", &[]), ("main", &["a"])]);
    object.symbols.retain(|symbol| symbol.name != "b");
    object.at(1).relocations.clear();
    object.at(1).data[..8].copy_from_slice(&call(0).to_bytes());
    let text = link_refusal(&object.write(), "main");
    let expected = "in a: it refers to something as a function, in section .text at offset 8, \
                    where none begins";
    assert_eq!(text, format!("a.o: cannot link main: {expected}"));
}

#[test]
fn one_that_cannot_be_linked_does_not_matter_to_others() {
    let (mut object, xdp) = main(&give(2));
    object.function(xdp, "broken", &[call(7), EXIT]);
    let spec = parse(&object.write());
    assert!(spec.link_program("main", None).is_ok());
    assert!(spec.link_program("broken", None).is_err());
    assert!(spec.link(None).is_err());
}
