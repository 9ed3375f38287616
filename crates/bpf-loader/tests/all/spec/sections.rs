//! Sections: meaning of names, ignored sections, licence and version.

use wingbeat_bpf_loader::{
    ProgramType,
    spec::{Attachment, OtherCode, SectionType, Spec, SpecError},
};
use wingbeat_bpf_testing::object::{
    Object, Relocation, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_RELA, STB_LOCAL, STB_WEAK,
    STT_NOTYPE, Symbol,
    btf::{Extension, GLOBAL, Types},
    field,
    insns::give,
    patch_section,
};

use super::support::{FILE, main, parse, refusal};

#[test]
fn programs_of_any_section() {
    let mut object = Object::new();
    let sections = ["xdp", "?tc", "tracepoint/sched/sched_switch", "xdp/cpumap", ".text", "odd"];
    for (number, section) in sections.into_iter().enumerate() {
        let section = object.code(section);
        object.function(section, &format!("p{number}"), &give(0));
    }
    let spec = parse(&object.write());
    let found: Vec<_> =
        spec.programs().iter().map(|p| (p.name.as_str(), p.section.as_str(), p.r#type)).collect();
    let expected = [
        ("p0", "xdp", ProgramType::XDP),
        ("p1", "?tc", ProgramType::SCHED_CLS),
        ("p2", "tracepoint/sched/sched_switch", ProgramType::TRACEPOINT),
        ("p3", "xdp/cpumap", ProgramType::XDP),
    ];
    assert_eq!(found, expected);
    let (section, functions) = ("odd".to_owned(), vec!["p5".to_owned()]);
    assert_eq!(spec.other_code(), [OtherCode::UnknownType { section, functions }]);
}

#[test]
fn programs_that_are_asked_for_and_not_there() {
    let (mut object, xdp) = main(&give(0));
    object.static_function(xdp, "inner", &give(1));
    let odd = object.code("odd");
    object.function(odd, "strange", &give(1));
    let spec = parse(&object.write());
    let check = |name: &str, expected: &str| {
        assert_eq!(spec.program(name).unwrap_err().to_string(), expected, "{name}");
    };
    check("mian", "a.o has no program \"mian\"; did you mean \"main\"?");
    check("inner", "a.o has no program \"inner\"; it has main");
    check("", "a.o has no program \"\"; it has main");
    let types = "set it with --type odd=TYPE, or use a section name of libbpf, such as \"xdp\", \"tc\" or \
                 \"tracepoint/syscalls/sys_enter_open\"";
    let expected =
        format!("a.o: \"strange\" is in section \"odd\", which has no known program type; {types}");
    check("strange", &expected);
    let empty = parse(&Object::new().write());
    assert!(empty.programs().is_empty() && empty.link(None).unwrap().is_empty());
    let error = empty.link_program("main", None).unwrap_err();
    assert!(matches!(error, SpecError::NoSuchProgram { .. }));
    assert_eq!(error.to_string(), "a.o has no program \"main\"; it has no programs at all");
}

#[test]
fn types_that_are_given() {
    let mut object = Object::new();
    for (number, section) in ["odd", "maps", ".text", "xdp"].into_iter().enumerate() {
        let section = object.code(section);
        object.function(section, &format!("p{number}"), &give(0));
    }
    let bytes = object.write();
    let check = |given: &[&str], expected: &[(&str, ProgramType)]| {
        let types: Vec<SectionType> =
            given.iter().map(|given| given.parse().expect("a type")).collect();
        let spec = Spec::parse_with(FILE, &bytes, &types).expect("an object");
        let found: Vec<_> = spec.programs().iter().map(|p| (&*p.name, p.r#type)).collect();
        assert_eq!(found, expected, "{given:?}");
        spec.check(&types).map_err(|error| error.to_string())
    };
    let (odd, xdp) = (("p0", ProgramType::SCHED_CLS), ("p3", ProgramType::XDP));
    assert_eq!(check(&[], &[xdp]), Ok(()));
    assert_eq!(check(&["odd=sched_cls"], &[odd, xdp]), Ok(()));
    let maps = ("p1", ProgramType::KPROBE);
    assert_eq!(check(&["odd=tc", "maps=kprobe"], &[odd, maps, xdp]), Ok(()));
    // Given types override the name, and later ones earlier ones.
    let given = ["xdp=tc", "xdp=socket_filter"];
    assert_eq!(check(&given, &[("p3", ProgramType::SOCKET_FILTER)]), Ok(()));
    let expected = "a.o has no code in a section \"eve\", for which a type is given; there is some in \
                    odd, maps, xdp";
    assert_eq!(check(&["eve=xdp"], &[xdp]), Err(expected.to_owned()));
    assert!(check(&[".text=xdp"], &[xdp]).is_err());
}

#[test]
fn code_without_functions_is_told() {
    let mut object = Object::new();
    let xdp = object.code("xdp");
    object.at(xdp).data = vec![0; 16];
    object.code("tc");
    object.code(".text");
    let spec = parse(&object.write());
    assert_eq!(spec.other_code(), [OtherCode::NoFunctions { section: "xdp".to_owned() }]);
}

#[test]
fn functions_of_old_compilers() {
    let (mut object, xdp) = main(&give(1));
    object.function(xdp, "second", &[give(2), give(3)].concat());
    for symbol in &mut object.symbols {
        (symbol.kind, symbol.size) = (STT_NOTYPE, 0);
    }
    // A label, and one at the end.
    let label = Symbol { value: 24, binding: STB_LOCAL, ..Symbol::global("LBB0_1", xdp) };
    object.symbol(label);
    object.symbol(Symbol { value: 48, ..Symbol::global("end", xdp) });
    let spec = parse(&object.write());
    let found: Vec<_> =
        spec.programs().iter().map(|program| (&*program.name, program.insn_count)).collect();
    assert_eq!(found, [("main", 2), ("second", 4)]);
}

#[test]
fn of_two_symbols_for_one_function_the_visible_is_kept() {
    let (mut object, xdp) = main(&give(0));
    let mut alias = object.symbols[0].clone();
    (alias.name, alias.binding) = ("alias".to_owned(), STB_LOCAL);
    object.symbols.insert(0, alias);
    let weak = object.function(xdp, "weak", &give(1));
    object.symbols[weak].binding = STB_WEAK;
    let spec = parse(&object.write());
    let names: Vec<_> = spec.programs().iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["main", "weak"]);
}

#[test]
fn what_is_not_for_programs_is_passed_over() {
    let (mut object, xdp) = main(&give(0));
    let expected = parse(&object.write());
    for name in [".debug_info", ".llvm_addrsig", ".symtab.old", ".datafile", "note", ".data", ""] {
        object.note(name, b"any bytes");
    }
    object.section(".bpf", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, &[]);
    object.section(".group", 17, 0, &[1, 0, 0, 0]);
    // Relocations of ignored sections may be invalid.
    object.at(2).relocations.push(Relocation { offset: u64::MAX, symbol: 99, kind: 3 });
    let spec = parse(&object.write());
    assert_eq!(spec.programs(), expected.programs());
    assert!(spec.maps().is_empty() && spec.other_code().is_empty());
    assert_eq!(object.at(xdp).name, "xdp");
}

#[test]
fn empty_sections_of_data_are_no_maps() {
    let (mut object, _) = main(&give(0));
    object.data(".data", &[]);
    object.data(".rodata", &[1]);
    let spec = parse(&object.write());
    let names: Vec<_> = spec.maps().iter().map(|map| map.name.as_str()).collect();
    assert_eq!(names, [".rodata"]);
}

/// The object with one more section.
fn with_note(name: &str, bytes: &[u8]) -> Vec<u8> {
    let (mut object, _) = main(&give(0));
    object.note(name, bytes);
    object.write()
}

#[test]
fn the_licence() {
    let with = |bytes: &[u8]| with_note("license", bytes);
    assert_eq!(parse(&main(&give(0)).0.write()).license(), None);
    assert_eq!(parse(&with(b"MIT\0")).license(), Some(c"MIT"));
    assert_eq!(parse(&with(b"GPL\0\0\0more")).license(), Some(c"GPL"));
    assert_eq!(parse(&with(b"\0")).license(), Some(c""));
    let expected = "a.o is damaged: section license: its text has no terminator";
    assert_eq!(refusal(&with(b"GPL")), expected);
    assert_eq!(refusal(&with(b"")), expected);
}

#[test]
fn the_version_of_the_kernel() {
    let with = |bytes: &[u8]| with_note("version", bytes);
    let check = |version: u32, expected| {
        assert_eq!(parse(&with(&version.to_le_bytes())).kernel_version(), expected);
    };
    check(0x0006_0c01, Some(0x0006_0c01));
    check(0, Some(0));
    check(0xffff_fffe, None);
    let expected = "a.o is damaged: section version: a version has 4 bytes, and it has 3";
    assert_eq!(refusal(&with(&[1, 2, 3])), expected);
}

#[test]
fn relocations_with_addends() {
    let (mut object, _) = main(&give(0));
    let entry: Vec<u8> =
        [0_u64, 1 << 32 | 1, 5].iter().flat_map(|word| word.to_le_bytes()).collect();
    let section = object.section(".relaxdp", SHT_RELA, 0, &entry);
    let mut bytes = object.write();
    // Of symbols of the table, for the first section; an entry has 24 bytes.
    patch_section(&mut bytes, section, field::LINK, &[3, 0, 0, 0, 1, 0, 0, 0]);
    patch_section(&mut bytes, section, field::ENTRY_LEN, &[24]);
    let expected = "a.o: section xdp: its relocations have addends of their own (RELA), which no \
                    compiler for eBPF writes";
    assert_eq!(refusal(&bytes), expected);
}

// Extensions without their target program.

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
