//! A small object with every feature, from its file to linked programs.

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, LineInfo, op},
    spec::{ExternKind, KfuncCall, MapSpec, MapType, Setting, SettingForm, SpecError},
};
use wingbeat_bpf_testing::object::{
    insns::{EXIT, call, give, linked, load, set},
    sample::Sample,
};

use super::support::{kernel, parse};

fn bytes() -> Vec<u8> {
    Sample::new().bytes()
}

#[test]
fn programs_and_what_is_known_of_them() {
    let spec = parse(&bytes());
    let names: Vec<_> = spec.programs().iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    for program in spec.programs() {
        assert_eq!((program.section.as_str(), program.r#type), ("xdp", ProgramType::XDP));
        assert_eq!((program.attach_type, program.flags, program.insn_count), (37, 0, 8));
    }
    assert_eq!(spec.license(), Some(c"Dual MIT/GPL"));
    assert_eq!(spec.kernel_version(), None);
    assert!(spec.other_code().is_empty());
    assert!(spec.needs_target_types());
}

#[test]
fn maps_are_sorted_by_name_and_data_is_among_them() {
    let spec = parse(&bytes());
    let data = |name, words: &[u32], is_constant| MapSpec {
        initial: Some(words.iter().flat_map(|word| word.to_le_bytes()).collect()),
        is_constant,
        flags: if is_constant { 1 << 7 } else { 0 },
        ..MapSpec::plain(name, MapType::ARRAY, (4, 4 * words.len() as u32), 1)
    };
    let expected = [
        data(".bss", &[0], false),
        data(".data", &[7, 3], false),
        data(".kconfig", &[0], true),
        data(".rodata", &[5, 6], true),
        MapSpec { type_ids: (1, 2), ..MapSpec::plain("counts", MapType::HASH, (4, 12), 8) },
    ];
    assert_eq!(spec.maps(), expected);
}

#[test]
fn what_is_wanted_from_the_kernel() {
    let spec = parse(&bytes());
    let setting = Setting { offset: 0, size: 4, form: SettingForm::Integer { is_signed: true } };
    let found: Vec<_> = spec.externs().iter().map(|e| (e.name.as_str(), &e.kind)).collect();
    let expected =
        [("CONFIG_HZ", &ExternKind::Setting(setting)), ("measure", &ExternKind::Function)];
    assert_eq!(found, expected);
}

/// Names of functions and their starts.
fn functions(code: &Code) -> Vec<(&str, u32)> {
    code.functions.iter().map(|found| (found.name.as_str(), found.insn_index)).collect()
}

#[test]
fn calls_and_maps_are_linked() {
    let code = parse(&bytes()).link_program("first", None).unwrap().code;
    // `counts` is the fifth map. `count` is called twice, and included once.
    let expected = [
        linked(1, op::PSEUDO_MAP_FD, 4, 0).as_slice(),
        &[call(5), call(4)],
        &linked(2, op::PSEUDO_FUNC, 5, 0),
        &[set(0, 2), EXIT, call(1), EXIT],
        &give(1),
    ]
    .concat();
    assert_eq!(code.insns, expected);
    assert_eq!(functions(&code), [("first", 0), ("count", 8), ("add", 10)]);
}

#[test]
fn data_settings_and_functions_of_the_kernel_are_linked() {
    let spec = parse(&bytes());
    let found = spec.link_program("second", Some(&kernel())).unwrap();
    let mut kfunc = call(1);
    kfunc.registers = op::PSEUDO_KFUNC_CALL << 4;
    let expected = [
        // Byte 4 of `.data`.
        linked(1, op::PSEUDO_MAP_VALUE, 1, 4).as_slice(),
        // The offset of `pid` in that kernel.
        &[load(2, 1, 12)],
        &linked(3, op::PSEUDO_MAP_VALUE, 2, 0),
        &[kfunc, set(0, 2), EXIT],
    ]
    .concat();
    assert_eq!(found.code.insns, expected);
    let name = "measure".to_owned();
    assert_eq!(found.kfuncs, [KfuncCall { insn_index: 5, name, is_weak: false }]);
    assert_eq!(found.kfunc_at(5).map(|call| call.is_weak), Some(false));
    assert_eq!(found.kfunc_at(6), None);
}

#[test]
fn accesses_take_the_types_of_a_kernel() {
    let spec = parse(&bytes());
    let error = spec.link_program("second", None).unwrap_err();
    assert!(matches!(error, SpecError::NoTargetTypes { .. }), "{error}");
    assert!(spec.link(None).is_err());
    assert_eq!(spec.link(Some(&kernel())).unwrap().len(), 2);
}

#[test]
fn lines_and_types_go_with_their_functions() {
    let spec = parse(&bytes());
    let code = spec.link_program("first", None).unwrap().code;
    let types = spec.types();
    let text = |line: &LineInfo| types.string(line.text_offset).unwrap().into_owned();
    let file = |line: &LineInfo| types.string(line.file_offset).unwrap().into_owned();
    assert!(code.lines.iter().all(|line| file(line) == "sample.c" && line.column() == 3));
    let found: Vec<_> =
        code.lines.iter().map(|line| (line.insn_index, line.line(), text(line))).collect();
    let [one, two] = ["  count();", "  return XDP_PASS;"].map(String::from);
    let expected = [(0, 10, one.clone()), (6, 11, two), (8, 40, one.clone()), (10, 30, one)];
    assert_eq!(found, expected);
    assert!(code.functions.iter().all(|function| function.type_id.is_some()));
}

#[test]
fn the_same_file_gives_the_same_code() {
    let link = || parse(&bytes()).link(Some(&kernel())).unwrap();
    let (one, other) = (link(), link());
    assert!(one.iter().map(|l| &l.code).eq(other.iter().map(|l| &l.code)));
}
