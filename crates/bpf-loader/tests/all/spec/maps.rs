//! Typed and numeric map definitions.

use wingbeat_bpf_loader::{
    code::op,
    spec::{MapSpec, MapType, Slot},
};
use wingbeat_bpf_testing::object::{
    Object, R_BPF_64_ABS64, Relocation, Symbol,
    btf::{EXTERN, GLOBAL, STATIC, Types, bytes},
    insns::{EXIT, address, give, linked},
};

use super::support::{link, link_refusal, main, parse, refusal};

/// An object with one map `m`, 64 bytes long, defined by the type that `define` returns.
fn typed(define: impl FnOnce(&mut Types, u32) -> u32) -> Object {
    let (mut object, _) = main(&give(0));
    let maps = object.data(".maps", &[0; 64]);
    object.variable(maps, "m", 0, 64);
    let mut types = Types::new();
    let int = types.integer("int", 4, 1);
    let definition = define(&mut types, int);
    let variable = types.variable("m", GLOBAL, definition);
    types.data_section(".maps", 64, &[[variable, 0, 64]]);
    object.note(".BTF", &types.bytes());
    object
}

#[test]
fn numbers_are_lengths_of_arrays() {
    #[track_caller]
    fn check(numbers: &[(&str, u32)], expected: MapSpec) {
        let bytes = typed(|types, int| types.map(int, numbers)).write();
        assert_eq!(parse(&bytes).maps(), [expected], "{numbers:?}");
    }
    let plain = |r#type, sizes, entries_max| MapSpec::plain("m", r#type, sizes, entries_max);
    check(&[("type", 27), ("max_entries", 4096)], plain(MapType::RINGBUF, (0, 0), 4096));
    let sizes = [("type", 1), ("key_size", 4), ("value_size", 8), ("max_entries", 3)];
    check(&sizes, plain(MapType::HASH, (4, 8), 3));
    let flags = [("type", 11), ("map_flags", 1), ("pinning", 1), ("numa_node", 1)];
    let expected =
        MapSpec { flags: 1, is_pinned_by_name: true, ..plain(MapType::LPM_TRIE, (0, 0), 0) };
    check(&flags, expected.clone());
    // cilium/ebpf's mode for a pin that it replaces.
    check(&[("type", 11), ("map_flags", 1), ("pinning", 16)], expected);
    check(&[("type", 30), ("map_extra", 5)], MapSpec { extra: 5, ..plain(MapType(30), (0, 0), 0) });
    // The kernel decides about unknown properties.
    check(&[("type", 77), ("something_new", 9)], plain(MapType(77), (0, 0), 0));
}

#[test]
fn sizes_follow_from_types() {
    let object = typed(|types, int| {
        let number = types.number(int, 1);
        let key = types.structure("key", 12, &[("a", int, 0), ("b", int, 64)]);
        let key = types.typedef("key_t", key);
        let rows = types.array(int, 3);
        let value = types.array(rows, 5);
        let (key, value) = (types.pointer(key), types.pointer(value));
        types.structure("", 24, &[("type", number, 0), ("key", key, 64), ("value", value, 128)])
    });
    let spec = parse(&object.write());
    let map = &spec.maps()[0];
    assert_eq!((map.key_size, map.value_size), (12, 60));
    assert_eq!(map.type_ids, (5, 7));
}

#[test]
fn wide_numbers_are_values_of_an_enumeration() {
    let object = typed(|types, int| {
        let number = types.number(int, 33);
        let value = types.text("unique");
        let extra = types.add(19, "", 1, 8, &[value, 7, 1]);
        types.structure("", 24, &[("type", number, 0), ("map_extra", extra, 64)])
    });
    assert_eq!(parse(&object.write()).maps()[0].extra, 1 << 32 | 7);
}

/// A map of maps `m` whose values are declared by a pointer to the type that `inner` returns.
fn nested(inner: impl FnOnce(&mut Types, u32) -> u32) -> Object {
    typed(|types, int| {
        let (number, keys) = (types.number(int, 12), types.number(int, 4));
        let inner = inner(types, int);
        let inner = types.pointer(inner);
        let values = types.array(inner, 2);
        let members = [("type", number, 0), ("key_size", keys, 64), ("values", values, 128)];
        types.structure("", 32, &members)
    })
}

#[test]
fn maps_in_maps() {
    let inner = [("type", 2), ("key_size", 4), ("value_size", 8), ("max_entries", 1)];
    let mut object = nested(|types, int| types.map(int, &inner));
    // The second entry is a map, here the map itself.
    let symbol = object.symbols.iter().position(|symbol| symbol.name == "m").expect("the map");
    object.at(2).relocations.push(Relocation { offset: 24, symbol, kind: R_BPF_64_ABS64 });
    let expected = MapSpec {
        inner: Some(Box::new(MapSpec::plain("m.inner", MapType::ARRAY, (4, 8), 1))),
        slots: vec![(1, Slot::Map("m".to_owned()))],
        ..MapSpec::plain("m", MapType::ARRAY_OF_MAPS, (4, 4), 0)
    };
    assert_eq!(parse(&object.write()).maps(), [expected]);
}

#[test]
fn tables_of_programs() {
    let mut object = nested(|types, int| types.prototype(int));
    let symbol = object.symbols.iter().position(|symbol| symbol.name == "main").expect("it");
    object.at(2).relocations.push(Relocation { offset: 16, symbol, kind: R_BPF_64_ABS64 });
    let spec = parse(&object.write());
    assert_eq!(spec.maps()[0].slots, [(0, Slot::Program("main".to_owned()))]);
    assert_eq!((spec.maps()[0].value_size, &spec.maps()[0].inner), (4, &None));
    // A declared one is known by its name.
    let symbol = object.undefined("elsewhere");
    object.at(2).relocations[0].symbol = symbol;
    let spec = parse(&object.write());
    assert_eq!(spec.maps()[0].slots, [(0, Slot::Program("elsewhere".to_owned()))]);
}

/// An object with a program table `m` and a static function `target` with this tag.
fn tagged(text: &str) -> Object {
    let mut object = typed(|types, int| {
        let prototype = types.prototype(int);
        let function = types.function("target", STATIC, prototype);
        types.add(17, text, 0, function, &[u32::MAX]);
        types.map(int, &[("type", 3), ("key_size", 4), ("value_size", 4), ("max_entries", 9)])
    });
    object.static_function(1, "target", &give(1));
    object
}

#[test]
fn tables_of_programs_by_tags() {
    let check = |text: &str, expected: &[(u32, Slot)]| {
        let spec = parse(&tagged(text).write());
        assert_eq!(spec.maps()[0].slots, expected, "{text}");
        // A static function is a program if it is a tail call target.
        assert_eq!(spec.program("target").is_ok(), !expected.is_empty(), "{text}");
    };
    check("tail:m/7", &[(7, Slot::Program("target".to_owned()))]);
    check("tail:other/7", &[]);
    check("tail:m/seven", &[]);
    check("tail:m", &[]);
    check("m/7", &[]);
}

#[test]
fn tables_of_programs_by_names_of_sections() {
    let check = |section: &str, words: &[u32], expected: &[(u32, Slot)]| {
        let mut object = legacy("maps", &[("m", words)]);
        let code = object.code(section);
        object.function(code, "target", &give(1));
        assert_eq!(parse(&object.write()).maps()[0].slots, expected, "{section} {words:?}");
    };
    let target = |slot| [(slot, Slot::Program("target".to_owned()))];
    check("2/7", &[3, 4, 4, 16, 0, 2], &target(7));
    check("2/0x10", &[3, 4, 4, 16, 0, 2, 0, 0, 0], &target(16));
    check("3/7", &[3, 4, 4, 16, 0, 2], &[]);
    check("2/7", &[1, 4, 4, 16, 0, 2], &[]);
    check("2/7", &[3, 4, 4, 16, 0], &[]);
    check("2/x", &[3, 4, 4, 16, 0, 2], &[]);
}

#[test]
fn definitions_as_numbers_whose_symbols_have_no_size() {
    let mut object = legacy("maps", &[("a", &[1, 4, 8, 16, 0]), ("b", &[2, 4, 8, 1, 0, 0, 1])]);
    for symbol in &mut object.symbols {
        if ["a", "b"].contains(&symbol.name.as_str()) {
            symbol.size = 0;
        }
    }
    let b = MapSpec::plain("b", MapType::ARRAY, (4, 8), 1);
    let expected =
        [MapSpec::plain("a", MapType::HASH, (4, 8), 16), MapSpec { is_pinned_by_name: true, ..b }];
    assert_eq!(parse(&object.write()).maps(), expected);
}

#[test]
fn definitions_as_types_that_are_wrong() {
    #[track_caller]
    fn check(object: &Object, expected: &str) {
        assert_eq!(refusal(&object.write()), format!("a.o is damaged: section .maps: {expected}"));
    }
    let numbers = |numbers: &'static [(&str, u32)]| typed(|types, int| types.map(int, numbers));
    check(&numbers(&[("key_size", 4)]), "map m: it has no type");
    check(&typed(|_, int| int), "map m: its type is not a structure");
    check(&typed(|_, _| 0), "map m: its type is not a structure");
    let plain = typed(|types, int| types.structure("", 4, &[("type", int, 0)]));
    check(&plain, "map m: its type is not written as a number");
    let endless = |types: &mut Types, int| {
        let number = types.number(int, 1);
        let circle = types.len + 1;
        types.typedef("circle", circle);
        let key = types.pointer(circle);
        types.structure("", 16, &[("type", number, 0), ("key", key, 64)])
    };
    check(&typed(endless), "map m: its key has no size");
    let huge = |types: &mut Types, int| {
        let number = types.number(int, 1);
        let rows = types.array(int, 1 << 16);
        let rows = types.array(rows, 1 << 16);
        let value = types.pointer(rows);
        types.structure("", 16, &[("type", number, 0), ("value", value, 64)])
    };
    check(&typed(huge), "map m: its value has no size");
    let no_table = |types: &mut Types, int| types.structure("", 4, &[("values", int, 0)]);
    check(&typed(no_table), "map m: its values are not an array of pointers");
    check(&nested(|_, int| int), "map m: its values are neither maps nor programs");
    check(&nested(|_, _| 0), "map m: its values are not an array of pointers");
    let untyped = nested(|types, int| types.map(int, &[("key_size", 4)]));
    check(&untyped, "map m: the maps in it: it has no type");
    let deep = nested(|types, int| {
        let inner = types.map(int, &[("type", 2)]);
        let inner = types.pointer(inner);
        let values = types.array(inner, 1);
        types.structure("", 8, &[("values", values, 0)])
    });
    check(&deep, "map m: the maps in it: a map inside another one cannot have values");
    let pinned = nested(|types, int| types.map(int, &[("type", 2), ("pinning", 1)]));
    check(&pinned, "map m: the maps in it: a map inside another one cannot have pinning");
}

#[test]
fn maps_without_what_describes_them() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut Object), expected: &str) {
        let mut object = typed(|types, int| types.map(int, &[("type", 1)]));
        change(&mut object);
        assert_eq!(refusal(&object.write()), format!("a.o is damaged: section .maps: {expected}"));
    }
    check(
        |object| object.at(3).name = ".other".to_owned(),
        "its maps are described by types, and there is no .BTF; was the object stripped?",
    );
    check(
        |object| object.at(3).data = Types::new().bytes(),
        "its maps are described by types, and .BTF does not mention them",
    );
    check(|object| object.symbols[1].name = "n".to_owned(), "map m has no symbol");
    check(
        |object| object.symbols[1].size = 65,
        "symbol \"m\" (offset 0, 65 bytes) lies outside of it (64 bytes)",
    );
    check(
        |object| object.symbols[1].value = u64::MAX,
        "symbol \"m\" (offset 18446744073709551615, 64 bytes) lies outside of it (64 bytes)",
    );
}

#[test]
fn a_map_of_another_object_is_passed_over() {
    let (mut object, _) = main(&give(0));
    object.data(".maps", &[0; 8]);
    let mut types = Types::new();
    let variable = types.variable("m", EXTERN, 0);
    types.data_section(".maps", 0, &[[variable, 0, 0]]);
    object.note(".BTF", &types.bytes());
    assert_eq!(parse(&object.write()).maps(), []);
}

/// An object with numeric map definitions in a section: name, offset and words of each.
fn legacy(section: &str, maps: &[(&str, &[u32])]) -> Object {
    let (mut object, _) = main(&give(0));
    let section = object.data(section, &[]);
    for (name, words) in maps {
        let value = object.at(section).data.len() as u64;
        object.at(section).data.extend(bytes(words));
        object.variable(section, name, value, 4 * words.len() as u64);
    }
    object
}

#[test]
fn definitions_as_numbers() {
    #[track_caller]
    fn check(words: &[u32], expected: MapSpec) {
        for section in ["maps", "maps/m"] {
            let spec = parse(&legacy(section, &[("m", words)]).write());
            assert_eq!(spec.maps(), std::slice::from_ref(&expected), "{words:?}");
        }
    }
    let plain = MapSpec::plain("m", MapType::HASH, (4, 8), 16);
    let pinned = MapSpec { is_pinned_by_name: true, ..plain.clone() };
    check(&[1, 4, 8, 16, 0], plain.clone());
    check(&[1, 4, 8, 16, 2], MapSpec { flags: 2, ..plain.clone() });
    // iproute2's id, and its pinning mode.
    check(&[1, 4, 8, 16, 0, 99], plain.clone());
    check(&[1, 4, 8, 16, 0, 99, 0], plain);
    check(&[1, 4, 8, 16, 0, 0, 1], pinned.clone());
    check(&[1, 4, 8, 16, 0, 0, 2, 5, 5], pinned.clone());
    check(&[1, 4, 8, 16, 0, 0, 3], pinned);
}

#[test]
fn maps_in_maps_as_numbers() {
    let check = |inner: &[u32], outer: &[u32], expected: Option<&str>| {
        let object = legacy("maps", &[("inner", inner), ("outer", outer), ("x", &[1, 4, 4, 1, 0])]);
        let spec = parse(&object.write());
        let outer = spec.maps().iter().find(|map| map.name == "outer").expect("a map");
        let inner = outer.inner.as_ref().map(|inner| inner.name.as_str());
        assert_eq!(inner, expected, "{outer:?}");
    };
    // By id: of iproute2.
    let with_id = [2, 4, 8, 1, 0, 77, 0, 0, 0];
    check(&with_id, &[12, 4, 4, 9, 0, 1, 0, 77, 0], Some("inner"));
    check(&with_id, &[13, 4, 4, 9, 0, 1, 0, 78, 0], None);
    // Itself, or not a map of maps.
    check(&with_id, &[12, 4, 4, 9, 0, 1, 0, 1, 0], None);
    check(&with_id, &[1, 4, 4, 9, 0, 1, 0, 77, 0], None);
    // By index: the kernel's samples.
    check(&[2, 4, 8, 1, 0], &[12, 4, 4, 9, 0, 0, 0], Some("inner"));
    check(&[2, 4, 8, 1, 0], &[12, 4, 4, 9, 0, 2, 0], Some("x"));
    check(&[2, 4, 8, 1, 0], &[12, 4, 4, 9, 0, 1, 0], None);
    check(&[2, 4, 8, 1, 0], &[12, 4, 4, 9, 0, 3, 0], None);
    check(&[2, 4, 8, 1, 0], &[12, 4, 4, 9, 0], None);
}

#[test]
fn definitions_as_numbers_that_are_wrong() {
    #[track_caller]
    fn check(words: &[u32], expected: &str) {
        let text = refusal(&legacy("maps", &[("m", words)]).write());
        assert_eq!(text, format!("a.o is damaged: section maps: map m: {expected}"));
    }
    check(&[1, 4, 8, 16], "its definition has 16 bytes of at least 20");
    check(&[], "its definition has 0 bytes of at least 20");
}

#[test]
fn both_ways_in_one_object() {
    let mut object = typed(|types, int| types.map(int, &[("type", 27)]));
    let section = object.data("maps", &bytes(&[2, 4, 8, 1, 0]));
    object.variable(section, "a", 0, 20);
    let spec = parse(&object.write());
    let found: Vec<_> = spec.maps().iter().map(|map| (map.name.as_str(), map.r#type)).collect();
    assert_eq!(found, [("a", MapType::ARRAY), ("m", MapType::RINGBUF)]);
}

#[test]
fn code_refers_to_maps_by_their_place() {
    let words: &[u32] = &[1, 4, 8, 16, 0];
    #[track_caller]
    fn check(
        object: &Object,
        offset: i32,
        symbol: impl Fn(&mut Object) -> usize,
        expected: Result<i32, &str>,
    ) {
        let mut object = object.clone();
        let [first, second] = address(1, offset);
        object.at(1).data.clear();
        object.symbols.remove(0);
        object.function(1, "main", &[first, second, EXIT]);
        let symbol = symbol(&mut object);
        object.refer(1, 0, symbol);
        let bytes = object.write();
        match expected {
            Ok(map) => assert_eq!(
                link(&bytes, "main").code.insns[..2],
                linked(1, op::PSEUDO_MAP_FD, map, 0)
            ),
            Err(reason) => assert_eq!(
                link_refusal(&bytes, "main"),
                format!("a.o: cannot link main: it refers to {reason}, where there is no map")
            ),
        }
    }
    // By name `a` comes first, although it is second in the section.
    let object = legacy("maps", &[("b", words), ("a", words)]);
    check(&object, 0, |_| 0, Ok(1));
    check(&object, 0, |_| 1, Ok(0));
    check(&object, 20, |object| object.section_symbol(2), Ok(0));
    check(&object, 4, |_| 0, Err("b in section maps"));
    check(&object, 60, |object| object.section_symbol(2), Err("something in section maps"));
    let outside =
        |object: &mut Object| object.symbol(Symbol { value: 8, ..Symbol::global("inside", 2) });
    let object = typed(|types, int| types.map(int, &[("type", 27)]));
    check(&object, 0, |_| 0, Ok(0));
    check(&object, 0, outside, Err("inside in section .maps"));
}
