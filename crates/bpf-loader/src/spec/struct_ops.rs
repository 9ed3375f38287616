//! struct_ops programs: resolves which member of which kernel structure they implement.
//!
//! The section's name does not define this. A variable in `.struct_ops` is such a structure with
//! initial values: a relocation assigns a program to a member. The object's definition of the
//! structure provides the member's name, which is looked up in the kernel's definition, where
//! offsets may differ (tools/lib/bpf/libbpf.c, `bpf_object__collect_st_ops_relos`, Linux 6.12).

use std::collections::BTreeMap;

use super::{
    functions::{Functions, within},
    section::{Attachment, ProgramSpec},
    survey::{Place, Relocation, Role, Section, Survey},
};
use crate::btf::table::{Type, TypeKind, TypeTable};
use crate::program_type::ProgramType;

/// Sets the attach targets of programs of this type. Programs that no structure refers to have none.
pub(super) fn attach(
    programs: &mut [(ProgramSpec, usize)],
    survey: &Survey<'_>,
    types: Option<&TypeTable>,
    functions: &Functions,
) {
    let Some(types) = types else { return };
    let members = members(survey, types, functions);
    for (program, number) in programs {
        if program.r#type == ProgramType::STRUCT_OPS {
            program.attachment = members.get(number).cloned();
        }
    }
}

/// Members implemented by functions, by function number. A function in several structures uses the first, as in libbpf.
fn members(
    survey: &Survey<'_>,
    types: &TypeTable,
    functions: &Functions,
) -> BTreeMap<usize, Attachment> {
    let variables = types.all().filter(|found| found.kind == TypeKind::VAR);
    let variables: BTreeMap<_, _> = variables.map(|it| (types.name(it), it.link)).collect();
    let mut found = BTreeMap::new();
    for (index, section) in survey.with_role(Role::StructOps) {
        for symbol in survey.symbols_in(index) {
            let structure = variables.get(symbol.name).and_then(|&id| types.resolve(id));
            let Some(structure) = structure.filter(|it| it.kind == TypeKind::STRUCT) else {
                continue;
            };
            let members = by_offset(structure);
            let range = symbol.value..symbol.value.saturating_add(symbol.size);
            for relocation in within(&section.relocations, &range, |it| it.offset) {
                let name = members.get(&(relocation.offset - symbol.value));
                let name = name.and_then(|&name| types.text(name));
                let function = function(survey, functions, section, relocation);
                if let (Some(function), Some(member)) = (function, name) {
                    found.entry(function).or_insert_with(|| Attachment::Member {
                        structure: without_flavour(types.name(structure)).to_owned(),
                        member: member.to_owned(),
                    });
                }
            }
        }
    }
    found
}

/// Names of the members other than bit-fields, by their offsets in bytes.
fn by_offset(structure: Type<'_>) -> BTreeMap<u64, u32> {
    let members = structure.triples().filter_map(|&[name, _, offset]| {
        let (bits, width) = structure.member_bits(offset);
        (width == 0).then(|| (u64::from(bits / 8), name))
    });
    members.collect()
}

/// The function that a relocation refers to. The addend in its place is added to the symbol's offset.
fn function(
    survey: &Survey<'_>,
    functions: &Functions,
    section: &Section<'_>,
    relocation: &Relocation,
) -> Option<usize> {
    let symbol = survey.symbols.get(relocation.symbol)?;
    let Place::Section(target) = symbol.place else { return None };
    let at = usize::try_from(relocation.offset).ok()?;
    let addend = section.data.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    functions.at(target, symbol.value.checked_add(addend)?)
}

/// Strips the suffix after three underscores, which distinguishes variants of a structure.
fn without_flavour(name: &str) -> &str {
    match name.split_once("___") {
        Some((plain, _)) if !plain.is_empty() => plain,
        _ => name,
    }
}
