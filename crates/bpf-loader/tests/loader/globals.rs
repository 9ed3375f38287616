//! Global variables set before loading change the behaviour of a program.

use wingbeat_bpf_loader::{
    loader::{Alarm, Loader, LoaderOptions, ResetError},
    spec::Spec,
};
use wingbeat_bpf_testing::object::typed::{Function, TypedObject};

use crate::support::{asm, can_load, load_linked, value};

/// `return FACTOR * offset`, of a constant in `.rodata` and the second variable in `.data`.
fn object() -> Spec {
    let mut file = TypedObject::new();
    let constants = file.data(".rodata", &6_u32.to_le_bytes());
    let factor = file.variable("FACTOR", constants, 0, 4);
    let variables = file.data(".data", &[1_u32.to_le_bytes(), 7_u32.to_le_bytes()].concat());
    file.variable("first", variables, 0, 4);
    let second = file.variable("second", variables, 4, 4);
    let insns = asm("r1 = value 0; r0 = *(u32 *)(r1 + 0); r1 = value 0; r2 = *(u32 *)(r1 + 0); \
                     r0 *= r2; exit");
    let code = file.code("xdp", &[Function::global("product", &insns, 0)]);
    file.refer(code, 0, factor);
    file.refer(code, 3, second);
    file.spec()
}

/// Return value of the program with these variables set.
fn product(set: &[(&str, u32)]) -> u32 {
    let mut spec = object();
    for (name, number) in set {
        spec.set_global(name, &number.to_le_bytes()).expect("it is set");
    }
    value(&load_linked(&spec, "product", false).expect("it loads").0)
}

#[test]
fn values_that_are_set() {
    let Some(()) = can_load() else { return };
    let check = |set: &[(&str, u32)], expected| assert_eq!(product(set), expected, "{set:?}");
    check(&[], 42);
    check(&[("FACTOR", 100)], 700);
    check(&[("second", 3)], 18);
    check(&[("FACTOR", 0xffff_ffff), ("second", 1)], 0xffff_ffff);
    // Its neighbour is another variable.
    check(&[("first", 99)], 42);
}

#[test]
fn constants_cannot_be_written() {
    let Some(()) = can_load() else { return };
    let spec = object();
    let loader = Loader::new(&spec, LoaderOptions::default()).expect("a loader");
    let mut maps = loader.create_maps().expect("maps");
    let constants = maps.get_mut(".rodata").expect("constants");
    assert_eq!(constants.lookup(&[0; 4]).expect("read"), Some(6_u32.to_le_bytes().to_vec()));
    let error =
        constants.fill(&[(vec![0; 4], vec![9; 4])], &Alarm::never()).expect_err("it is frozen");
    let ResetError::Map(error) = error else { panic!("{error}") };
    assert_eq!(error.source.raw_os_error(), Some(libc::EPERM), "{error}");
    maps.reset(&Alarm::never()).expect("nothing to be done for it");
}
