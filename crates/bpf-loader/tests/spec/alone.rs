//! Extensions without their target program.

use wingbeat_bpf_loader::{ProgramType, spec::Attachment};
use wingbeat_bpf_testing::object::{
    Object,
    btf::{Extension, GLOBAL, Types},
    insns::give,
};

use crate::support::parse;

/// An object with the extension `own` in a section of that name, whose arguments are pointers to
/// these structures, and an XDP program of another name.
fn object(section: &str, arguments: &[&str], other: &str) -> Vec<u8> {
    let (mut object, mut types) = (Object::new(), Types::new());
    let int = types.integer("int", 4, 1);
    let mut tail = Vec::new();
    for &argument in arguments {
        let context = types.structure(argument, 4, &[("data", int, 0)]);
        let name = types.text("ctx");
        tail.extend([name, types.pointer(context)]);
    }
    let prototype = types.add(13, "", arguments.len() as u32, int, &tail);
    let own = types.function("own", GLOBAL, prototype);
    let (code, xdp) = (object.code(section), object.code("xdp"));
    object.function(code, "own", &give(0));
    object.function(xdp, other, &give(2));
    let functions = vec![(types.text(section), vec![[0, own]])];
    object.note(".BTF", &types.bytes());
    object.note(".BTF.ext", &Extension { functions, ..Extension::default() }.bytes());
    object.write()
}

#[test]
fn extensions_are_what_their_argument_says() {
    let check = |section: &str, argument: &str, expected: ProgramType| {
        let spec = parse(&object(section, &[argument], "main"));
        assert_eq!(spec.program("own").unwrap().r#type, ProgramType::EXT);
        let changed = spec.with_extensions_alone().expect("it is one");
        let program = changed.program("own").unwrap();
        assert_eq!(
            (program.r#type, &program.attachment),
            (expected, &None),
            "{section} {argument}"
        );
        assert!(program.is_extension_alone() && program.section == section);
        assert!(!changed.program("main").unwrap().is_extension_alone());
    };
    check("freplace/replaced", "xdp_md", ProgramType::XDP);
    check("freplace", "xdp_md", ProgramType::XDP);
    check("freplace/replaced", "__sk_buff", ProgramType::SCHED_CLS);
    check("freplace/replaced", "bpf_sock_addr", ProgramType::CGROUP_SOCK_ADDR);
}

#[test]
fn extensions_that_stay_what_they_are() {
    let check = |section: &str, arguments: &[&str], other: &str| {
        let spec = parse(&object(section, arguments, other));
        assert!(spec.with_extensions_alone().is_none(), "{section} {arguments:?} {other}");
    };
    // The object contains its target.
    check("freplace/main", &["xdp_md"], "main");
    // It cannot be run.
    check("freplace/replaced", &[], "main");
    check("freplace/replaced", &["unknown"], "main");
    check("freplace/replaced", &["xdp_md", "xdp_md"], "main");
    check("xdp/more", &["xdp_md"], "main");
    let spec = parse(&object("freplace/main", &["xdp_md"], "main"));
    let expected = Some(Attachment::Program("main".to_owned()));
    assert_eq!(spec.program("own").unwrap().attachment, expected);
}
