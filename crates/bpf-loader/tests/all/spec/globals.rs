//! Global variables: references in code, and values set before loading.

use wingbeat_bpf_loader::{code::op, spec::Spec};
use wingbeat_bpf_testing::object::{
    Object, SHF_ALLOC, SHT_NOBITS, STB_LOCAL, STT_OBJECT, Symbol,
    btf::{GLOBAL, SIGNED, Types, UNSIGNED},
    insns::{EXIT, address, linked},
    sample::Sample,
};

use super::support::{link, link_refusal, main, parse};

fn value<'a>(spec: &'a Spec, map: &str) -> &'a [u8] {
    let map = spec.maps().iter().find(|found| found.name == map).expect("a map");
    map.initial.as_deref().expect("global data")
}

#[test]
fn values_are_put_into_their_places() {
    let mut spec = parse(&Sample::new().bytes());
    spec.set_global("limit", &9_u32.to_le_bytes()).unwrap();
    spec.set_global("total", &[1, 2, 3, 4]).unwrap();
    spec.set_global("table", &[0xff; 8]).unwrap();
    assert_eq!(value(&spec, ".data"), [7, 0, 0, 0, 9, 0, 0, 0]);
    assert_eq!(value(&spec, ".bss"), [1, 2, 3, 4]);
    assert_eq!(value(&spec, ".rodata"), [0xff; 8]);
    spec.set_global("limit", &[0; 4]).unwrap();
    assert_eq!(value(&spec, ".data"), [7, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_cannot_be_set() {
    let mut spec = parse(&Sample::new().bytes());
    let before = spec.maps().to_vec();
    let mut check = |name: &str, value: &[u8], expected: &str| {
        let text = spec.set_global(name, value).unwrap_err().to_string();
        assert_eq!(text, format!("a.o: cannot set the global {name:?}: {expected}"));
    };
    check("limits", &[0; 4], "the object has no such variable; did you mean \"limit\"?");
    let all = "the object has no such variable; it has total, start, limit, table";
    check("", &[0; 4], all);
    check("limit", &[0; 8], "it has 4 bytes, and 8 were given");
    check("limit", &[], "it has 4 bytes, and 0 were given");
    // A map, a function, a kernel configuration setting.
    check("counts", &[0; 32], all);
    check("first", &[0; 64], all);
    check("CONFIG_HZ", &[0; 4], all);
    assert_eq!(spec.maps(), before);
}

#[test]
fn values_are_written_by_type() {
    let spec = parse(&Sample::new().bytes());
    let set = |settings: &[&str]| {
        let settings: Vec<_> = settings.iter().map(|it| it.parse().expect("a setting")).collect();
        spec.with_globals(&settings)
    };
    let changed = set(&["limit=-2", "total=0x01020304", "table=hex:0102030405060708"]).unwrap();
    assert_eq!(value(&changed, ".data"), [7, 0, 0, 0, 254, 255, 255, 255]);
    assert_eq!(value(&changed, ".bss"), [4, 3, 2, 1]);
    assert_eq!(value(&changed, ".rodata"), [1, 2, 3, 4, 5, 6, 7, 8]);
    // The last one counts, and the spec itself does not change.
    assert_eq!(value(&set(&["limit=1", "limit=2"]).unwrap(), ".data")[4..], [2, 0, 0, 0]);
    assert_eq!(value(&spec, ".bss"), [0; 4]);
    let check = |setting: &str, expected: &str| {
        let text = set(&[setting]).unwrap_err().to_string();
        assert!(text.starts_with("a.o: cannot set the global "), "{text}");
        assert!(text.contains(expected), "{text}");
    };
    check("limt=1", "did you mean \"limit\"?");
    check("limit=4294967296", "4294967296 does not fit");
    check("table=x", "\"x\" is not a number");
    check("table=hex:00", "it has 8 bytes, and 1 were given");
}

/// An object with `struct { u32 a; struct { u16 b[3]; char c; }; u32 d : 4; } st[2]` in `.data`,
/// followed by `char name[8]`.
fn with_parts() -> Spec {
    let (mut object, _) = main(&[EXIT]);
    let data = object.data(".data", &[0; 40]);
    object.variable(data, "st", 0, 32);
    object.variable(data, "name", 32, 8);
    let mut types = Types::new();
    let [u32, u16, char] = [("u32", 4), ("u16", 2), ("char", 1)]
        .map(|(name, size)| types.integer(name, size, if size == 1 { SIGNED } else { UNSIGNED }));
    let b = types.array(u16, 3);
    let unnamed = types.structure("", 8, &[("b", b, 0), ("c", char, 48)]);
    let tail = [("a", u32, 0), ("", unnamed, 32), ("d", u32, 4 << 24 | 96)];
    let tail = tail.map(|(name, id, bits)| [types.text(name), id, bits]);
    let st = types.add(4, "st", 1 << 31 | 3, 16, tail.as_flattened());
    let st = types.typedef("st_t", st);
    let (st, name) = (types.array(st, 2), types.array(char, 8));
    types.enumeration("which", &[("FIRST", 0), ("SECOND", 1)]);
    let st = types.variable("st", GLOBAL, st);
    let name = types.variable("name", GLOBAL, name);
    types.data_section(".data", 40, &[[st, 0, 32], [name, 32, 8]]);
    object.note(".BTF", &types.bytes());
    parse(&object.write())
}

#[test]
fn parts_of_variables() {
    let spec = with_parts();
    let set = |setting: &str| spec.with_globals(&[setting.parse().expect("a setting")]);
    let check = |setting: &str, at: usize, expected: &[u8]| {
        let changed = set(setting).unwrap_or_else(|error| panic!("{error}"));
        let mut all = [0; 40];
        all[at..at + expected.len()].copy_from_slice(expected);
        assert_eq!(value(&changed, ".data"), all, "{setting}");
    };
    check("st[1].a=0x01020304", 16, &[4, 3, 2, 1]);
    check("st[0].b[2] = 7", 8, &[7, 0]);
    check("st[ SECOND ].c=-1", 26, &[255]);
    check("st[1].b=hex:010002000300", 20, &[1, 0, 2, 0, 3, 0]);
    check("name=hello", 32, b"hello\0");
    check("name[3]=9", 35, &[9]);
    let refuse = |setting: &str, expected: &str| {
        let text = set(setting).unwrap_err().to_string();
        let reason = text.split_once(": ").and_then(|(_, rest)| rest.split_once(": "));
        assert_eq!(reason.expect("a reason").1, expected, "{setting}");
    };
    refuse("st[2].a=1", "it has 2 elements, counted from 0, and none with index 2");
    refuse("st[-1].a=1", "it has 2 elements, counted from 0, and none with index -1");
    refuse("st[1].b[3]=1", "in [1].b: it has 3 elements, counted from 0, and none with index 3");
    refuse("st[0].e=1", "in [0]: it has no member \"e\"; it has a, b, c, d");
    refuse("st[x].a=1", "\"x\" is not an index");
    refuse("st.a=1", ".a selects a member, but it is not a structure");
    refuse("st[0].a.x=1", "in [0].a: .x selects a member, but it is not a structure");
    refuse("st[0=1", "a bracket is not closed");
    refuse(
        "st[0]a=1",
        "in [0]: \"a\" is neither an element, such as [2], nor a member, such as .size",
    );
    let all = "write all of the structure as hex:";
    refuse("st[0].d=1", &format!("in [0]: d is a bit-field, which cannot be set alone; {all}"));
    let bytes = "write them as hex:0a0b…, in the order of memory";
    let part = "set a member by NAME.MEMBER=VALUE (a, b, c, d), or";
    refuse("st[0]=1", &format!("it is a structure of 16 bytes; {part} {bytes}"));
    refuse(
        "st=1",
        &format!("it is an array of 32 bytes; set an element by NAME[INDEX]=VALUE, or {bytes}"),
    );
    refuse("sp[0].a=1", "the object has no such variable; did you mean \"st\"?");
}

#[test]
fn static_variables_of_one_name() {
    let (mut object, _) = main(&[EXIT]);
    let data = object.data(".data", &[1, 2, 3]);
    let hidden = |value| {
        let (kind, binding) = (STT_OBJECT, STB_LOCAL);
        Symbol { value, size: 1, kind, binding, ..Symbol::global("same", data) }
    };
    object.symbol(hidden(0));
    object.symbol(hidden(1));
    let mut spec = parse(&object.write());
    let text = spec.set_global("same", &[9]).unwrap_err().to_string();
    let reason = "the object has 2 static variables of this name";
    assert_eq!(text, format!("a.o: cannot set the global \"same\": {reason}"));
    // A global one takes precedence.
    object.variable(data, "same", 2, 1);
    let mut spec = parse(&object.write());
    spec.set_global("same", &[9]).unwrap();
    assert_eq!(value(&spec, ".data"), [1, 2, 9]);
}

#[test]
fn code_refers_to_bytes_of_a_section() {
    #[track_caller]
    fn check(name: &str, offset: i32, symbol: impl Fn(&mut Object, usize) -> usize, expected: i32) {
        let [first, second] = address(4, offset);
        let (mut object, xdp) = main(&[first, second, EXIT]);
        let data = object.section(name, SHT_NOBITS, SHF_ALLOC, &[]);
        object.at(data).absent = 64;
        let symbol = symbol(&mut object, data);
        object.refer(xdp, 0, symbol);
        let expected = linked(4, op::PSEUDO_MAP_VALUE, 0, expected);
        assert_eq!(link(&object.write(), "main").code.insns[..2], expected, "{name}");
    }
    check(".bss", 0, |object, data| object.section_symbol(data), 0);
    check(".bss", 24, |object, data| object.section_symbol(data), 24);
    check(".bss", 0, |object, data| object.variable(data, "a", 8, 8), 8);
    check(".bss", 4, |object, data| object.variable(data, "a", 8, 8), 12);
    // Compilers fold the lower bound of an array that does not begin with 0.
    check(".bss", -8, |object, data| object.variable(data, "a", 8, 8), 0);
    check(".bss.percpu_like", 1, |object, data| object.section_symbol(data), 1);
    check(".rodata.str1.1", 3, |object, data| object.section_symbol(data), 3);
}

#[test]
fn references_that_lead_nowhere() {
    #[track_caller]
    fn check(offset: i32, symbol: impl Fn(&mut Object) -> usize, expected: &str) {
        let [first, second] = address(4, offset);
        let (mut object, xdp) = main(&[first, second, EXIT]);
        let symbol = symbol(&mut object);
        object.refer(xdp, 0, symbol);
        let text = link_refusal(&object.write(), "main");
        assert_eq!(text, format!("a.o: cannot link main: {expected}"));
    }
    let in_data = |object: &mut Object| {
        let data = object.data(".data", &[0; 8]);
        object.variable(data, "number", 0, 8)
    };
    check(-1, in_data, "it refers to a place before the beginning of section .data");
    let in_note = |object: &mut Object| {
        let note = object.note(".note", &[0; 8]);
        object.variable(note, "number", 0, 8)
    };
    check(0, in_note, "it refers to number in section .note, which is not supported");
    let gone = |object: &mut Object| object.undefined("gone");
    check(0, gone, "it refers to gone: the object has no type information");
    let absolute = |object: &mut Object| {
        object.symbol(Symbol { section: 0xfff1, ..Symbol::global("absolute", 0) })
    };
    check(0, absolute, "it refers to \"absolute\", which is not defined");
    let common = |object: &mut Object| {
        object.symbol(Symbol { section: 0xfff2, ..Symbol::global("common", 0) })
    };
    check(
        0,
        common,
        "it refers to \"common\", which has no place in the file, because it is not initialised: \
         initialise it (= {}), or compile with -fno-common",
    );
}

/// An object with these arenas, and a program that refers to the second variable of one.
fn in_arena(arenas: &[&str]) -> Object {
    let [first, second] = address(4, 4);
    let (mut object, xdp) = main(&[first, second, EXIT]);
    let mut types = Types::new();
    let int = types.integer("int", 4, SIGNED);
    let maps = object.data(".maps", &vec![0; 8 * arenas.len()]);
    let mut entries = Vec::new();
    for (at, name) in (0..).step_by(8).zip(arenas) {
        object.variable(maps, name, u64::from(at), 8);
        let map = types.map(int, &[("type", 33)]);
        entries.push([types.variable(name, GLOBAL, map), at, 8]);
    }
    types.data_section(".maps", 8 * arenas.len() as u32, &entries);
    object.note(".BTF", &types.bytes());
    let variables = object.data(".addr_space.1", &[1, 2, 3, 4, 5, 6, 7, 8]);
    object.variable(variables, "last", 4, 4);
    let section = object.section_symbol(variables);
    object.refer(xdp, 0, section);
    object
}

#[test]
fn variables_of_an_arena() {
    let bytes = in_arena(&["arena"]).write();
    let expected = linked(4, op::PSEUDO_MAP_VALUE, 0, 4);
    assert_eq!(link(&bytes, "main").code.insns[..2], expected);
    let mut spec = parse(&bytes);
    spec.set_global("last", &[9; 4]).unwrap();
    assert_eq!(value(&spec, "arena"), [1, 2, 3, 4, 9, 9, 9, 9]);
}

#[test]
fn variables_of_nobody_knows_which_arena() {
    let check = |arenas: &[&str]| {
        let bytes = in_arena(arenas).write();
        let text = link_refusal(&bytes, "main");
        let expected = "it refers to something in an arena, and the object has none in section .maps, \
                        or more than one";
        assert_eq!(text, format!("a.o: cannot link main: {expected}"));
    };
    check(&[]);
    check(&["a", "b"]);
}
