//! Contents of program tables that loaders other than libbpf derive from names in the object.
//!
//! Cilium tags the function: `__attribute__((btf_decl_tag("tail:MAP/SLOT")))`
//! (bpf/include/bpf/tailcall.h, Cilium 1.17). iproute2 parses the name of the function's section,
//! `ID/SLOT`, with the ID of the map's definition (lib/bpf_legacy.c, `bpf_fill_prog_arrays`,
//! iproute2 6.1). The kernel rejects slots that the table does not have.

use super::Slot;
use crate::btf::table::{TypeKind, TypeTable};
use crate::spec::survey::{Role, Survey, Symbol};

/// Functions with a tag for the table `map`.
pub(super) fn tagged(map: &str, types: &TypeTable) -> Vec<(u32, Slot)> {
    let tags = types.all().filter(|found| found.kind == TypeKind::DECL_TAG);
    let slots = tags.filter_map(|tag| {
        let (table, slot) = types.name(tag).strip_prefix("tail:")?.rsplit_once('/')?;
        let function = types.get(tag.link).filter(|found| found.kind == TypeKind::FUNC)?;
        let slot = slot.parse().ok().filter(|_| table == map)?;
        Some((slot, Slot::Program(types.name(function).to_owned())))
    });
    slots.collect()
}

/// Functions in sections whose names refer to the table with this id.
pub(super) fn in_sections(id: u32, survey: &Survey<'_>) -> Vec<(u32, Slot)> {
    let mut slots = Vec::new();
    for (index, section) in survey.with_role(Role::Code { is_text: false }) {
        let place = section.name.split_once('/');
        let place = place.and_then(|(table, slot)| Some((number(table)?, number(slot)?)));
        let Some((_, slot)) = place.filter(|(table, _)| *table == id) else { continue };
        // Old compilers do not mark symbols as functions.
        let is_entry = |symbol: &&Symbol<'_>| symbol.is_function || !symbol.is_local;
        let entry = survey.symbols_in(index).find(is_entry);
        slots.extend(entry.map(|it| (slot, Slot::Program(it.name.to_owned()))));
    }
    slots
}

/// A number in iproute2's syntax: `7`, `0x1010`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_of_sections() {
        let check = |text: &str, expected| assert_eq!(number(text), expected, "{text}");
        check("7", Some(7));
        check("0x1010", Some(0x1010));
        check("", None);
        check("0x", None);
        check("x", None);
        check("4294967296", None);
    }
}
