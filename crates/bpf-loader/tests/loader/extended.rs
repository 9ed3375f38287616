//! Programs that replace a function of another program (freplace).

use std::os::fd::AsFd as _;

use wingbeat_bpf_loader::{
    ProgramType,
    loader::{Extended, ExtendedError, LoadError, Loaded, Loader, LoaderOptions},
    probe::{self, FindingStatus},
    spec::Spec,
};
use wingbeat_bpf_testing::object::{
    btf::GLOBAL,
    typed::{Function, ObjectFile},
};

use crate::{
    bytecode::{asm, give},
    support::{can_load, load as load_program, program},
};

/// `int name(int number)`.
fn with_type(file: &mut ObjectFile, name: &str) -> u32 {
    let int = file.types.int("int", 4);
    file.types.taking(name, GLOBAL, int, &[("number", int)])
}

/// An XDP program that calls its global function `inner`.
fn target() -> Loaded {
    let mut file = ObjectFile::new();
    let (main, inner) = (file.types.program("main"), with_type(&mut file, "inner"));
    let (calls, called) = (asm("r1 = 5; call +1; exit"), asm("r0 = r1; exit"));
    let inner = Function::global("inner", &called, inner);
    file.code("xdp", &[Function::global("main", &calls, main), inner]);
    loaded(&file.spec(), "main", None).expect("the target loads")
}

/// A replacement in a section with this name.
fn replacement(section: &str) -> Spec {
    let mut file = ObjectFile::new();
    let type_id = with_type(&mut file, "inner");
    file.code(section, &[Function::global("inner", &give(2), type_id)]);
    file.spec()
}

fn loaded(spec: &Spec, name: &str, target: Option<&Loaded>) -> Result<Loaded, LoadError> {
    let mut loader = Loader::new(spec, LoaderOptions::default()).expect("a loader");
    assert!(loader.has_types(), "the kernel takes the types");
    if let Some(target) = target {
        loader.extend(Extended::new(target.as_fd()).expect("it has types"));
    }
    let linked = spec.link_program(name, None).expect("it is linked");
    loader.load(&linked.program, &linked.code, &[])
}

#[test]
fn functions_are_replaced_or_the_kernel_says_why_not() {
    let Some(()) = can_load() else { return };
    let fentry = probe::findings().into_iter().find(|finding| finding.id == "fentry");
    let works = fentry.expect("it is looked for").status == FindingStatus::Works;
    let target = target();
    // A section called just `freplace` refers to the function of the same name.
    for section in ["freplace/inner", "freplace"] {
        match loaded(&replacement(section), "inner", Some(&target)) {
            Ok(extension) => {
                assert!(works, "freplace works here, which the probe of fentry denies");
                assert_eq!(extension.info.r#type, ProgramType::EXT);
                assert_eq!(extension.verifier.processed_instructions, Some(2));
            }
            Err(error) => {
                assert!(!works, "the kernel has fentry, but: {error}");
                let text = error.to_string();
                assert!(text.contains("this kernel forbids programs of this kind"), "{text}");
            }
        }
    }
}

#[test]
fn what_is_to_be_replaced_has_to_be_there() {
    let Some(()) = can_load() else { return };
    let target = target();
    let check = |section: &str, target: Option<&Loaded>, expected: &str| {
        let error = loaded(&replacement(section), "inner", target).expect_err(section);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("freplace/inner", None, "replaces the function inner of another program, which was not");
    check("freplace", None, "the program that has it with --target");
    check("freplace/outer", Some(&target), "the program to extend has no such function");
    let untyped = load_program(&program(ProgramType::XDP), &give(0), &[]).expect("it loads");
    let error = Extended::new(untyped.as_fd()).expect_err("it has no types");
    assert!(matches!(error, ExtendedError::NoTypes), "{error}");
}
