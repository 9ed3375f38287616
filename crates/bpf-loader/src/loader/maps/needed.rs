//! Determines used maps, and replaces unused ones that the kernel rejects: a program must not fail
//! because of another program's map.

use std::collections::BTreeSet;

use super::sizes::possible_cpus;
use crate::{
    code::{Code, op},
    spec::{MapSpec, MapType, Slot},
};

/// Size of keys and values from which on an unused map is not created.
const BULKY_BYTES: u64 = 1 << 20;

/// The smallest valid map, to replace an unused one.
pub(super) fn stand_in() -> MapSpec {
    MapSpec::plain("missing", MapType::ARRAY, (4, 4), 1)
}

/// Whether creating it takes noticeable time and memory: some objects have gigabytes of maps, of
/// which each program uses a few.
pub(super) fn is_bulky(spec: &MapSpec) -> bool {
    let copies = if spec.r#type.is_per_cpu() { possible_cpus() as u64 } else { 1 };
    let entry = u64::from(spec.key_size) + copies * u64::from(spec.value_size);
    u64::from(spec.entries_max).saturating_mul(entry) > BULKY_BYTES
}

/// Numbers of the maps that code refers to, and of their inner maps.
pub(in crate::loader) fn used(specs: &[MapSpec], codes: &[&Code]) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    for code in codes {
        let mut insns = code.insns.iter();
        while let Some(insn) = insns.next() {
            if !insn.is_ldimm64() {
                continue;
            }
            if matches!(insn.src(), op::PSEUDO_MAP_FD | op::PSEUDO_MAP_VALUE) {
                used.extend(usize::try_from(insn.immediate));
            }
            // The second half.
            insns.next();
        }
    }
    let tables = || used.iter().filter_map(|number| specs.get(*number));
    let slots = tables().flat_map(|map| &map.slots).filter_map(|(_, slot)| match slot {
        Slot::Map(name) => Some(name),
        Slot::Program(_) => None,
    });
    let put_in = tables().flat_map(|map| &map.put_in).map(|(_, name)| name);
    let position = |name: &String| specs.iter().position(|map| map.name == *name);
    let inner: Vec<usize> = slots.chain(put_in).filter_map(position).collect();
    used.extend(inner);
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Insn;

    #[test]
    fn bulky_maps() {
        let check = |entries, expected| {
            let spec = MapSpec::plain("m", MapType::HASH, (8, 8), entries);
            assert_eq!(is_bulky(&spec), expected, "{entries}");
        };
        check(1 << 16, false);
        check((1 << 16) + 1, true);
        check(u32::MAX, true);
    }

    #[test]
    fn maps_that_code_uses() {
        let load = |source: u8, number: i32| {
            [Insn::new(op::LDIMM64, 1, source, 0, number), Insn::default()]
        };
        let plain = |name: &str| MapSpec::plain(name, MapType::ARRAY, (4, 4), 1);
        let outer = MapSpec { slots: vec![(0, Slot::Map("c".into()))], ..plain("b") };
        let filled = MapSpec { put_in: vec![(vec![7], "a".into())], ..plain("d") };
        let specs = [plain("a"), outer, plain("c"), filled];
        let check = |insns: &[Insn], expected: &[usize]| {
            let code = Code { insns: insns.to_vec(), ..Code::default() };
            assert_eq!(used(&specs, &[&code]), expected.iter().copied().collect(), "{insns:?}");
        };
        check(&[], &[]);
        check(&load(op::PSEUDO_MAP_FD, 0), &[0]);
        check(&load(op::PSEUDO_MAP_VALUE, 2), &[2]);
        check(&load(op::PSEUDO_MAP_FD, 1), &[1, 2]);
        check(&load(0, 1), &[]);
        check(&load(op::PSEUDO_MAP_FD, 3), &[0, 3]);
        // The verifier will reject half an instruction.
        check(&load(op::PSEUDO_MAP_FD, 0)[..1], &[0]);
    }
}
