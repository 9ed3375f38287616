//! Metadata of code in `.BTF.ext`: function types and lines.

use wingbeat_bpf_loader::code::Code;
use wingbeat_bpf_testing::object::{
    Object,
    btf::{Extension, Types},
    insns::{EXIT, call, give},
    sample::{BTF, EXTENSION, Sample, TEXT, XDP},
};

use crate::support::{link, parse, refusal};

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
