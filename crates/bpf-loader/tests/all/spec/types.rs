//! Type information (`.BTF`): rejected input, and the result for the kernel.

use wingbeat_bpf_loader::{KernelTypes, code::Code};
use wingbeat_bpf_testing::object::{
    Object, STB_LOCAL,
    btf::{EXTERN, Extension, GLOBAL, STATIC, Types},
    insns::{EXIT, call, give},
    sample::{BTF, EXTENSION, Sample, TEXT, XDP},
};

use super::support::{link, main, parse, refusal};

/// The object with one program and this type information.
fn object(types: &[u8]) -> Vec<u8> {
    let (mut object, _) = main(&give(0));
    object.note(".BTF", types);
    object.write()
}

#[test]
fn types_that_contradict_themselves() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut types = Types::new();
        types.integer("int", 4, 1);
        let mut bytes = types.bytes();
        change(&mut bytes);
        let expected_of_object = format!("a.o is damaged: section .BTF: {expected}");
        assert_eq!(refusal(&object(&bytes)), expected_of_object);
        // Kernel types are parsed by the same code.
        let error = KernelTypes::parse(&bytes).unwrap_err().to_string();
        assert_eq!(error, format!("the types are damaged: {expected}"));
    }
    check(Vec::clear, "it ends within its header");
    check(|bytes| bytes.truncate(23), "it ends within its header");
    let magic = "it does not begin with the magic number of BTF";
    check(|bytes| bytes[0] = 0, magic);
    check(|bytes| bytes.swap(0, 1), magic);
    check(|bytes| bytes[4] = 20, "its header gives its length as 20 bytes, which is too short");
    check(|bytes| bytes[4..8].fill(0xff), "its types reach beyond its end");
    check(|bytes| bytes[12] = 0xff, "its types reach beyond its end");
    check(|bytes| bytes[8..16].fill(0xff), "its types reach beyond its end");
    check(|bytes| bytes[16] = 0xff, "its strings reach beyond its end");
    check(|bytes| bytes[20..24].fill(0xff), "its strings reach beyond its end");
    check(|bytes| bytes.truncate(bytes.len() - 1), "its strings reach beyond its end");
    let ends = "its strings do not begin and end with a terminator";
    check(|bytes| bytes[20] = 0, ends);
    check(|bytes| bytes[40] = 1, ends);
    check(|bytes| *bytes.last_mut().unwrap() = b'x', ends);
    check(|bytes| bytes[12] = 15, "its types are not made of whole words");
    check(|bytes| bytes[12] = 12, "type 1 reaches beyond the end of the types");
    check(|bytes| bytes[12] = 4, "type 1 reaches beyond the end of the types");
    check(|bytes| bytes[24] = 99, "type 1: its name, at 99, is not in the strings");
    check(|bytes| bytes[31] = 0, "type 1 is of kind 0, which is not known here");
    check(|bytes| bytes[31] = 20, "type 1 is of kind 20, which is not known here");
    check(|bytes| bytes[31] = 31, "type 1 is of kind 31, which is not known here");
}

#[test]
fn ids_and_names_that_lead_nowhere() {
    #[track_caller]
    fn check(add: impl FnOnce(&mut Types), expected: &str) {
        let mut types = Types::new();
        types.integer("int", 4, 1);
        add(&mut types);
        let expected = format!("a.o is damaged: section .BTF: type 2: {expected}");
        assert_eq!(refusal(&object(&types.bytes())), expected);
    }
    let beyond = "it refers to type 9, of 2";
    check(|types| _ = types.pointer(9), beyond);
    check(|types| _ = types.array(9, 1), beyond);
    check(|types| _ = types.structure("s", 4, &[("a", 9, 0)]), beyond);
    check(|types| _ = types.typedef("t", 9), beyond);
    check(|types| _ = types.prototype(9), beyond);
    check(|types| _ = types.add(13, "", 1, 0, &[0, 9]), beyond);
    check(|types| _ = types.variable("v", GLOBAL, 9), beyond);
    check(|types| _ = types.variable("v", 7, 1), "its linkage is 7, which does not exist");
    let kind = "it refers to type 1, which is of the wrong kind";
    check(|types| _ = types.function("f", GLOBAL, 1), kind);
    check(|types| _ = types.data_section(".data", 4, &[[1, 0, 4]]), kind);
    check(|types| _ = types.add(6, "e", 1, 4, &[99, 1]), "its name, at 99, is not in the strings");
}

/// Cycles are valid, since structures are full of them; nothing may follow them forever.
#[test]
fn circles_of_types() {
    let mut types = Types::new();
    let int = types.integer("int", 4, 1);
    types.structure("list", 8, &[("next", 3, 0)]);
    types.pointer(2);
    types.typedef("a", 5);
    types.typedef("b", 4);
    types.array(6, 2);
    types.structure("itself", 8, &[("", 7, 0)]);
    let variable = types.variable("v", STATIC, 4);
    types.data_section(".data", 0, &[[variable, 0, 0]]);
    types.data_section(".ksyms", 0, &[[variable, 0, 0]]);
    let prototype = types.len + 1;
    types.add(13, "", 1, prototype, &[0, prototype]);
    let spec = parse(&object(&types.bytes()));
    assert!(KernelTypes::parse(spec.types().bytes()).is_ok());
    assert_eq!(int, 1);
}

/// The word at an index of the types, in the section for the kernel.
fn words(bytes: &[u8]) -> Vec<u32> {
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let words = bytes[24..24 + len].as_chunks().0;
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

#[test]
fn the_kernel_gets_sizes_and_offsets_of_data() {
    let (mut object, _) = main(&give(0));
    let data = object.data(".data", &[0; 24]);
    for (name, value) in [("a", 16), ("b", 4), ("c", 0)] {
        object.variable(data, name, value, 4);
    }
    object.symbols[3].binding = STB_LOCAL;
    let mut types = Types::new();
    let int = types.integer("int", 4, 1);
    let [a, b] = ["a", "b"].map(|name| types.variable(name, GLOBAL, int));
    let c = types.variable("c", STATIC, int);
    let before = types.words.len();
    // Compilers only know the offsets of static variables.
    types.data_section(".data", 0, &[[a, 0, 4], [b, 0, 4], [c, 8, 4]]);
    object.note(".BTF", &types.bytes());
    let found = words(parse(&object.write()).types().bytes());
    assert_eq!(found[before + 2..], [24, b, 4, 4, c, 8, 4, a, 16, 4]);
}

#[test]
fn the_kernel_gets_names_that_it_takes() {
    let mut types = Types::new();
    let int = types.integer("int", 4, 1);
    types.add(2, "*const u8", 0, int, &[]);
    types.add(13, "", 2, int, &[0, int, 0, 0]);
    types.data_section("maps/counts", 0, &[]);
    let spec = parse(&object(&types.bytes()));
    let (ready, found) = (spec.types(), words(spec.types().bytes()));
    let name = |at: usize| ready.string(found[at]).expect("a name").into_owned();
    // The integer has four words, the pointer three.
    assert_eq!(found[4], 0);
    // A parameter must have a name, and `...` must not.
    assert_eq!((name(10).as_str(), found[12..14].to_vec()), ("argument", vec![0, 0]));
    assert_eq!(name(14), "maps.counts");
}

#[test]
fn the_kernel_gets_linkage_that_it_takes() {
    let (mut object, xdp) = main(&give(0));
    let hidden = object.function(xdp, "hidden", &give(1));
    object.symbols[hidden].visibility = 2;
    let mut types = Types::new();
    let prototype = types.prototype(0);
    for (name, linkage) in [
        ("main", GLOBAL),
        ("hidden", GLOBAL),
        ("memcpy", GLOBAL),
        ("inner", STATIC),
        ("kernel", EXTERN),
    ] {
        types.function(name, linkage, prototype);
    }
    object.note(".BTF", &types.bytes());
    let found = words(parse(&object.write()).types().bytes());
    let linkages: Vec<_> = found[3..].chunks(3).map(|words| words[1] & 0xffff).collect();
    assert_eq!(linkages, [GLOBAL, STATIC, STATIC, STATIC, GLOBAL]);
}

#[test]
fn the_kernel_gets_variables_for_what_it_has_itself() {
    let spec = parse(&Sample::new().bytes());
    let ready = KernelTypes::parse(spec.types().bytes());
    assert!(ready.is_ok());
    let (before, after) = (Sample::new().types, words(spec.types().bytes()));
    // Ids do not change: existing types keep their positions, and two types are added.
    assert_eq!(after.len(), before.words.len() + 8);
    let added = &after[before.words.len()..];
    let name = |offset| spec.types().string(offset).expect("a name").into_owned();
    assert_eq!((name(added[0]).as_str(), name(added[4]).as_str()), ("int", "dummy_ksym"));
}

// Metadata of code in `.BTF.ext`: function types and lines.

/// Instruction and line number of each line.
fn lines(code: &Code) -> Vec<(u32, u32)> {
    code.lines.iter().map(|line| (line.insn_index, line.line())).collect()
}

/// A program `main` of four instructions followed by a function, with lines: instruction, number.
fn with_lines(given: &[(u32, u32)]) -> Object {
    let mut object = Object::new();
    let xdp = object.code("xdp");
    object.function(xdp, "main", &[call(2), call(1), EXIT]);
    object.static_function(xdp, "callee", &give(0));
    let mut types = Types::new();
    let section = types.text("xdp");
    let records = given.iter().map(|&(insn, line)| [8 * insn, section, section, line << 10]);
    let lines = vec![(section, records.collect())];
    object.note(".BTF", &types.bytes());
    object.note(".BTF.ext", &Extension { lines, ..Extension::default() }.bytes());
    object
}

#[test]
fn lines_ascend_and_each_instruction_has_one() {
    #[track_caller]
    fn check(given: &[(u32, u32)], expected: &[(u32, u32)]) {
        assert_eq!(lines(&link(&with_lines(given).write(), "main").code), expected);
    }
    check(&[(0, 1), (2, 2), (3, 9)], &[(0, 1), (2, 2), (3, 9)]);
    check(&[(3, 9), (2, 2), (0, 1)], &[(0, 1), (2, 2), (3, 9)]);
    // Of two for one instruction the first is kept.
    check(&[(0, 1), (0, 5), (2, 2)], &[(0, 1), (2, 2)]);
    // Lines of nonexistent code.
    check(&[(0, 1), (70, 2)], &[(0, 1)]);
    check(&[(0, 0)], &[(0, 0)]);
    check(&[(0, 0x3f_ffff)], &[(0, 0x3f_ffff)]);
    check(&[], &[]);
}

#[test]
fn lines_of_functions_that_are_not_called_are_left_out() {
    let mut sample = Sample::new();
    let code = link(&sample.bytes(), "first").code;
    assert_eq!(lines(&code), [(0, 10), (6, 11), (8, 40), (10, 30)]);
    // `first` makes no calls any more.
    sample.object.at(XDP).data[..64].fill(0);
    for insn in 0..8 {
        let exit = 8 * insn..8 * insn + 8;
        sample.object.at(XDP).data[exit].copy_from_slice(&EXIT.to_bytes());
    }
    sample.object.at(XDP).relocations.retain(|relocation| relocation.offset >= 64);
    let code = link(&sample.bytes(), "first").code;
    assert_eq!(lines(&code), [(0, 10), (6, 11)]);
}

#[test]
fn objects_without_type_information_have_neither() {
    let mut sample = Sample::new();
    let mut bare = |change: &dyn Fn(&mut Object)| {
        change(&mut sample.object);
        let spec = parse(&sample.bytes());
        let code = spec.link_program("first", None).unwrap().code;
        assert!(code.lines.is_empty());
        assert!(code.functions.iter().all(|function| function.type_id.is_none()));
        spec
    };
    let spec = bare(&|object| object.at(EXTENSION).name = ".other".to_owned());
    assert!(!spec.types().bytes().is_empty());
    // Without types `.BTF.ext` has no meaning. Maps would need them.
    let spec = bare(&|object| {
        object.at(EXTENSION).name = ".BTF.ext".to_owned();
        object.at(BTF).name = ".other".to_owned();
        let maps = object.sections.iter_mut().find(|section| section.name == ".maps");
        maps.expect("maps").name = ".bss.maps".to_owned();
    });
    assert!(spec.types().bytes().is_empty());
    assert_eq!(spec.types().string(0), None);
    assert!(!spec.needs_target_types());
}

#[test]
fn old_headers_without_accesses() {
    let mut sample = Sample::new();
    let mut bytes = sample.extension.bytes();
    // Length 24, and 8 bytes less before the parts.
    bytes[4] = 24;
    bytes.drain(24..32);
    sample.object.at(EXTENSION).name = ".other".to_owned();
    sample.object.note(".BTF.ext", &bytes);
    let spec = parse(&sample.bytes());
    assert!(!spec.needs_target_types());
    assert_eq!(spec.link(None).unwrap()[1].code.lines.len(), 2);
}

#[test]
fn longer_records_are_read_as_far_as_they_are_known() {
    let mut object = with_lines(&[]);
    let mut types = Types::new();
    let section = types.text("xdp");
    // Header, then lines of 20 bytes.
    let words = [0x0001_eb9f, 24, 0, 0, 0, 52, 20, section, 2];
    let records = [[0, section, section, 3 << 10, 77], [16, section, section, 4 << 10, 77]];
    let words: Vec<u32> = words.iter().chain(records.as_flattened()).copied().collect();
    object.at(2).data = types.bytes();
    object.at(3).data = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(lines(&link(&object.write(), "main").code), [(0, 3), (2, 4)]);
}

#[test]
fn records_that_are_wrong() {
    let mut sample = Sample::new();
    sample.extension.functions[0].1[0][0] = 4;
    let expected = "a.o is damaged: section .BTF.ext: its function records: one of section .text: it \
                    is for offset 4, within an instruction";
    assert_eq!(refusal(&sample.bytes()), expected);
}

/// Records belong to section names, so sections with the same name cannot have any.
#[test]
fn two_sections_of_code_with_one_name() {
    let mut sample = Sample::new();
    let second = sample.object.code("xdp");
    sample.object.function(second, "third", &give(0));
    let expected = "a.o: two sections with code are called \"xdp\", so .BTF.ext is ambiguous; link \
                    the object again (`ld.lld -r`, `bpftool gen object`)";
    assert_eq!(refusal(&sample.bytes()), expected);
    let text = sample.types.text(".text");
    sample.extension.functions.retain(|(name, _)| *name == text);
    sample.extension.lines.clear();
    sample.extension.accesses.clear();
    let spec = parse(&sample.bytes());
    assert_eq!(spec.programs().len(), 3);
    assert_eq!(sample.object.at(TEXT).name, ".text");
}
