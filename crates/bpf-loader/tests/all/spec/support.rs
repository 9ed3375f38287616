//! Builds objects byte by byte, and helpers to read them.

use wingbeat_bpf_loader::{
    KernelTypes,
    code::Insn,
    spec::{Linked, Spec},
};
use wingbeat_bpf_testing::object::{Object, sample};

/// Name of the file in messages.
pub(crate) const FILE: &str = "a.o";

#[track_caller]
pub(crate) fn parse(bytes: &[u8]) -> Spec {
    Spec::parse(FILE, bytes).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub(crate) fn refusal(bytes: &[u8]) -> String {
    match Spec::parse(FILE, bytes) {
        Ok(_) => panic!("the object was read"),
        Err(error) => error.to_string(),
    }
}

/// An object with the XDP program `main`, and the number of its section.
pub(crate) fn main(insns: &[Insn]) -> (Object, usize) {
    let mut object = Object::new();
    let section = object.code("xdp");
    object.function(section, "main", insns);
    (object, section)
}

/// Links a program of an object that does not depend on a kernel.
#[track_caller]
pub(crate) fn link(bytes: &[u8], program: &str) -> Linked {
    parse(bytes).link_program(program, None).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub(crate) fn link_refusal(bytes: &[u8], program: &str) -> String {
    match parse(bytes).link_program(program, Some(&kernel())) {
        Ok(_) => panic!("the program was linked"),
        Err(error) => error.to_string(),
    }
}

/// The kernel of [`sample`].
pub(crate) fn kernel() -> KernelTypes {
    KernelTypes::parse(&sample::kernel().bytes()).unwrap_or_else(|reason| panic!("{reason}"))
}

/// Runs all operations on an object that need no kernel. Errors are fine, as long as they have a message.
pub(crate) fn exercise(bytes: &[u8], kernel: &KernelTypes) {
    let spec = match Spec::parse(FILE, bytes) {
        Ok(spec) => spec,
        Err(error) => {
            assert!(error.to_string().starts_with(FILE), "{error}");
            return;
        }
    };
    let types = spec.types();
    for program in spec.programs() {
        match spec.link_program(&program.name, Some(kernel)) {
            Ok(linked) => {
                let len = linked.code.insns.len();
                assert!(linked.code.functions.iter().all(|f| (f.insn_index as usize) < len));
                assert!(linked.code.lines.iter().all(|line| (line.insn_index as usize) < len));
                for line in &linked.code.lines {
                    assert!(types.string(line.text_offset).is_some());
                }
            }
            Err(error) => assert!(error.to_string().starts_with(FILE), "{error}"),
        }
    }
    _ = spec.link(None);
    if !types.bytes().is_empty() {
        KernelTypes::parse(types.bytes())
            .unwrap_or_else(|reason| panic!("its own types: {reason}"));
    }
}
