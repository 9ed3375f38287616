//! Programs loaded differently than the object says: without a licence, or with types that the kernel rejects.

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, FunctionInfo, LineInfo},
    loader::{Alarm, Effort, Explained, LoadError, Loader, LoaderOptions, Remarks},
    spec::Spec,
};
use wingbeat_bpf_testing::object::typed::TypedObject;

use crate::support::{asm, can_load, give, program, since, value};

/// Loads a program of an object without maps.
fn load(loader: &Loader, spec: &Spec, name: &str) -> Result<(), LoadError> {
    let linked = spec.link_program(name, None).expect("it is linked");
    loader.load(&linked.program, &linked.code, &[]).map(drop)
}

/// `free` in section xdp, and in tc `bound`, which calls a GPL-only helper.
fn two_programs(mut file: TypedObject) -> Spec {
    file.program("xdp", "free", &give(2));
    let print = "*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8; r2 = 8; call trace_printk; exit";
    file.program("tc", "bound", &asm(print));
    file.spec()
}

#[test]
fn an_object_without_a_licence_has_none_unless_it_needs_one() {
    let Some(()) = can_load() else { return };
    let as_gpl = |file: TypedObject| {
        let spec = two_programs(file);
        let loader = Loader::new(&spec, LoaderOptions::default()).expect("a loader");
        load(&loader, &spec, "free").expect("it is free");
        assert_eq!(loader.remarks(), Remarks::default());
        // Again, like other forms of a program.
        let bound = load(&loader, &spec, "bound").and_then(|()| load(&loader, &spec, "bound"));
        bound.map(|()| loader.remarks().as_gpl)
    };
    assert_eq!(as_gpl(TypedObject::unlicensed()).expect("it is loaded"), ["bound"]);
    assert_eq!(as_gpl(TypedObject::new()).expect("it is loaded"), [""; 0]);
    let mut other = TypedObject::unlicensed();
    other.data("license", b"Apache\0");
    let error = as_gpl(other).expect_err("it is declared otherwise").to_string();
    assert!(error.contains("from non-GPL compatible program"), "{error}");
}

#[test]
fn types_that_the_kernel_refuses_are_left_out() {
    let Some(()) = can_load() else { return };
    let mut file = TypedObject::new();
    file.program("xdp", "main", &give(2));
    file.types.structure("no name", 0, &[]);
    let spec = file.spec();
    let loader = Loader::new(&spec, LoaderOptions::default()).expect("a loader");
    load(&loader, &spec, "main").expect("it is loaded without");
    assert!(!loader.has_types());
    assert!(loader.remarks().types_refused.is_some());
    if !since(6, 8, "a context as an argument of a function") {
        return;
    }
    // The image then gets generated types: neither ids nor lines of the object are valid.
    let function = |insn_index, type_id| FunctionInfo {
        insn_index,
        name: format!("function_{insn_index}"),
        type_id,
    };
    let code = Code {
        insns: [asm("call +1; exit"), give(7)].concat(),
        functions: vec![function(0, None), function(2, Some(3))],
        lines: vec![LineInfo {
            insn_index: 0,
            file_offset: 1,
            text_offset: 1,
            line_column: 1 << 10,
        }],
    };
    let effort = Effort { alarm: &Alarm::never(), explained: Explained::Whole };
    let image = loader.load_image(&program(ProgramType::XDP), &code, &[1], &[], effort);
    assert_eq!(value(&image.expect("it is loaded")), 7);
}
