//! Kernel symbols that objects use by name, and invalid ones.

use wingbeat_bpf_loader::{
    code::op,
    spec::{ExternKind, Setting, SettingForm},
};
use wingbeat_bpf_testing::object::{
    Object, STB_WEAK,
    btf::{BOOL, EXTERN, SIGNED, Types, UNSIGNED},
    insns::{EXIT, address, call, give, linked},
};

use super::support::{link, link_refusal, main, parse};

/// An object with externs in the data section `list`, declared by the types that `declare` returns.
fn object(list: &str, names: &[&str], declare: impl Fn(&mut Types, &str) -> u32) -> Object {
    let (mut object, _) = main(&give(0));
    let mut types = Types::new();
    let declared: Vec<_> = names.iter().map(|name| [declare(&mut types, name), 0, 4]).collect();
    types.data_section(list, 0, &declared);
    for name in names {
        object.undefined(name);
    }
    object.note(".BTF", &types.bytes());
    object
}

fn kinds(object: &Object) -> Vec<ExternKind> {
    parse(&object.write()).externs().iter().map(|found| found.kind.clone()).collect()
}

const NO_SETTING: &str = "its type is not one for settings: bool, char, an integer, an array of \
                          char, or enum libbpf_tristate";

#[test]
fn settings_by_their_types() {
    #[track_caller]
    fn check(r#type: impl Fn(&mut Types) -> u32, expected: Option<(u32, SettingForm)>) {
        let object = object(".kconfig", &["CONFIG_X"], |types, name| {
            let id = r#type(types);
            types.variable(name, EXTERN, id)
        });
        let expected = match expected {
            Some((size, form)) => ExternKind::Setting(Setting { offset: 0, size, form }),
            None => ExternKind::Unclear(NO_SETTING.to_owned()),
        };
        assert_eq!(kinds(&object), [expected]);
    }
    let integer = |is_signed| SettingForm::Integer { is_signed };
    check(|types| types.integer("int", 4, SIGNED), Some((4, integer(true))));
    check(|types| types.integer("unsigned long", 8, UNSIGNED), Some((8, integer(false))));
    check(|types| types.integer("short", 2, SIGNED), Some((2, integer(true))));
    check(|types| types.integer("char", 1, SIGNED), Some((1, SettingForm::Char)));
    check(|types| types.integer("_Bool", 1, BOOL), Some((1, SettingForm::Bool)));
    check(|types| types.integer("_Bool", 4, BOOL), None);
    check(|types| types.integer("__int128", 16, SIGNED), None);
    let constant = |types: &mut Types| {
        let int = types.integer("int", 4, SIGNED);
        let int = types.typedef("s32", int);
        types.constant(int)
    };
    check(constant, Some((4, integer(true))));
    let text = |types: &mut Types, len| {
        let char = types.integer("char", 1, SIGNED);
        types.array(char, len)
    };
    check(|types| text(types, 20), Some((20, SettingForm::Text)));
    check(|types| text(types, 0), None);
    check(|types| text(types, 1 << 20), None);
    let numbers = |types: &mut Types| {
        let int = types.integer("int", 4, SIGNED);
        types.array(int, 2)
    };
    check(numbers, None);
    let values = [("TRI_NO", 0), ("TRI_YES", 1), ("TRI_MODULE", 2)];
    check(|types| types.enumeration("libbpf_tristate", &values), Some((4, SettingForm::Tristate)));
    check(|types| types.enumeration("other", &values), None);
    check(|types| types.pointer(0), None);
    check(|types| types.structure("s", 4, &[]), None);
    check(|_| 0, None);
}

#[test]
fn settings_lie_at_multiples_of_their_sizes() {
    let names = ["CONFIG_A", "CONFIG_B", "CONFIG_C"];
    let object = object(".kconfig", &names, |types, name| {
        let id = match name {
            "CONFIG_B" => types.integer("long", 8, SIGNED),
            _ => types.integer("char", 1, SIGNED),
        };
        types.variable(name, EXTERN, id)
    });
    let spec = parse(&object.write());
    let offset = |kind: &ExternKind| match kind {
        ExternKind::Setting(setting) => setting.offset,
        other => panic!("{other:?}"),
    };
    let offsets: Vec<_> = spec.externs().iter().map(|found| offset(&found.kind)).collect();
    assert_eq!(offsets, [0, 8, 16]);
    assert_eq!(spec.maps()[0].value_size, 17);
}

#[test]
fn symbols_of_the_kernel_by_their_declarations() {
    #[track_caller]
    fn check(declare: impl Fn(&mut Types, &str) -> u32, expected: ExternKind) {
        assert_eq!(kinds(&object(".ksyms", &["runqueues"], declare)), [expected]);
    }
    let variable = |types: &mut Types, name: &str| {
        let id = types.structure("rq", 8, &[]);
        types.variable(name, EXTERN, id)
    };
    check(variable, ExternKind::Variable);
    let address = |types: &mut Types, name: &str| {
        let id = types.constant(0);
        types.variable(name, EXTERN, id)
    };
    check(address, ExternKind::Address);
    let function = |types: &mut Types, name: &str| {
        let id = types.prototype(0);
        types.function(name, EXTERN, id)
    };
    check(function, ExternKind::Function);
    let other_name = |types: &mut Types, _: &str| types.variable("other", EXTERN, 0);
    let unclear = |reason: &str| ExternKind::Unclear(reason.to_owned());
    let reason = "no other object was linked that has it, and it is not declared as the kernel's";
    check(other_name, unclear(reason));
    let reason = "no other object was linked that has it, and it is declared neither as __ksym \
                  nor as __kconfig";
    let other = object(".elsewhere", &["runqueues"], variable);
    assert_eq!(kinds(&other), [unclear(reason)]);
}

/// A program that calls the kernel function `f` and takes the address of `v`.
fn user(binding: u8) -> Object {
    let [first, second] = address(1, 0);
    let mut object = object(".ksyms", &["f", "v"], |types, name| match name {
        "f" => {
            let id = types.prototype(0);
            types.function(name, EXTERN, id)
        }
        _ => types.variable(name, EXTERN, 0),
    });
    object.at(1).data.clear();
    let [function, variable] =
        ["f", "v"].map(|name| object.symbols.iter().position(|s| s.name == name).expect("it"));
    object.symbols[function].binding = binding;
    object.symbols.remove(0);
    object.function(1, "main", &[first, second, call(-1), EXIT]);
    object.refer(1, 0, variable - 1);
    object.call(1, 2, function - 1);
    object
}

#[test]
fn references_hold_the_numbers_of_externs() {
    let found = link(&user(1).write(), "main");
    assert_eq!(found.code.insns[..2], linked(1, op::PSEUDO_BTF_ID, 1, 0));
    assert_eq!((found.code.insns[2].src(), found.code.insns[2].immediate), (2, 0));
    assert!(!found.kfuncs[0].is_weak);
    let spec = parse(&user(STB_WEAK).write());
    assert!(spec.externs()[0].is_weak && !spec.externs()[1].is_weak);
    assert!(spec.link_program("main", None).unwrap().kfuncs[0].is_weak);
}

#[test]
fn programs_that_throw() {
    let mut object = user(1);
    let symbol = object.symbols.iter_mut().find(|symbol| symbol.name == "f").expect("it");
    symbol.name = "bpf_throw".to_owned();
    let text = link_refusal(&object.write(), "main");
    assert!(text.contains("it calls bpf_throw: no other object was linked"), "{text}");
    let mut types = Types::new();
    let prototype = types.prototype(0);
    let throw = types.function("bpf_throw", EXTERN, prototype);
    let variable = types.variable("v", EXTERN, 0);
    types.data_section(".ksyms", 0, &[[throw, 0, 0], [variable, 0, 0]]);
    object.at(2).data = types.bytes();
    let found = link(&object.write(), "main");
    assert_eq!(found.throwing_calls().collect::<Vec<_>>(), [2]);
}

#[test]
fn variables_are_not_called() {
    let mut object = user(1);
    let variable = object.symbols.iter().position(|symbol| symbol.name == "v").expect("it");
    object.at(1).relocations[1].symbol = variable;
    let text = link_refusal(&object.write(), "main");
    assert_eq!(text, "a.o: cannot link main: it calls v, which is not a function");
}
