//! Typed map definitions in a section `.maps`: the format of libbpf, and of newer Rust objects.
//!
//! A map is a variable whose structure has a member for each property; numbers are encoded as
//! lengths of arrays (tools/lib/bpf/libbpf.c, `parse_btf_map_def`, Linux 6.12). aya-obj 0.3
//! supports this too, but miscalculates the size of nested arrays, and rejects program tables and
//! 64-bit extras.

use super::{MapSpec, MapType, Placed, Slot, tables};
use crate::btf::table::{EXTERN, Type, TypeKind, TypeTable};
use crate::spec::{
    error::Flaw,
    functions::within,
    survey::{Place, Relocation, Section, Survey, Symbol},
};

/// The maps of the section `.maps`.
pub(super) fn maps(
    survey: &Survey<'_>,
    index: usize,
    section: &Section<'_>,
    types: Option<&TypeTable>,
) -> Result<Vec<Placed>, Flaw> {
    let flaw = |reason: String| Flaw::damaged(section.name, reason);
    let types = types.ok_or_else(|| {
        flaw(
            "its maps are described by types, and there is no .BTF; was the object stripped?"
                .into(),
        )
    })?;
    let Some(list) = types.find(TypeKind::DATASEC, section.name) else {
        return Err(flaw("its maps are described by types, and .BTF does not mention them".into()));
    };
    let mut found = Vec::new();
    for variable in list.triples().filter_map(|[id, ..]| types.get(*id)) {
        // Defined in another object, which was not linked with this one.
        if variable.linkage() == EXTERN {
            continue;
        }
        let name = types.name(variable);
        let symbol = survey.symbols_in(index).find(|symbol| symbol.name == name);
        let symbol = symbol.ok_or_else(|| flaw(format!("map {name} has no symbol")))?;
        let definition =
            types.resolve(variable.link).filter(|found| found.kind == TypeKind::STRUCT);
        let map = definition
            .ok_or_else(|| "its type is not a structure".to_owned())
            .and_then(|definition| read(types, definition, name, false))
            .map(|mut map| {
                map.slots = slots(survey, index, symbol, types, definition);
                if map.r#type == MapType::PROG_ARRAY {
                    map.slots.extend(tables::tagged(name, types));
                }
                map
            })
            .map_err(|reason| flaw(format!("map {name}: {reason}")))?;
        found.push((Some((index, symbol.value)), map));
    }
    Ok(found)
}

/// A map with the properties defined by its structure. The error is a reason.
fn read(
    types: &TypeTable,
    definition: Type<'_>,
    map: &str,
    is_inner: bool,
) -> Result<MapSpec, String> {
    let mut found = MapSpec::plain(map, MapType::UNSPEC, (0, 0), 0);
    let mut inner = None;
    for &[name, member, _] in definition.triples() {
        let name = types.text(name).unwrap_or("");
        let number = || {
            number(types, member).ok_or_else(|| format!("its {name} is not written as a number"))
        };
        let size = || {
            let pointed = types.resolve(member).filter(|found| found.kind == TypeKind::PTR);
            let pointed = pointed.map(|pointer| pointer.link);
            let size = pointed.and_then(|id| types.size(id));
            pointed.zip(size).ok_or_else(|| format!("its {name} has no size"))
        };
        match name {
            "type" => found.r#type = MapType(number()?),
            "max_entries" => found.entries_max = number()?,
            "map_flags" => found.flags = number()?,
            "map_extra" => {
                found.extra =
                    wide_number(types, member).map_or_else(|| number().map(u64::from), Ok)?;
            }
            "key_size" => found.key_size = number()?,
            "value_size" => found.value_size = number()?,
            "key" => (found.type_ids.0, found.key_size) = size()?,
            "value" => (found.type_ids.1, found.value_size) = size()?,
            "values" | "pinning" if is_inner => {
                return Err(format!("a map inside another one cannot have {name}"));
            }
            "values" => {
                found.value_size = 4;
                inner = values(types, member)?;
            }
            // Other loaders have their own modes besides libbpf's 0 and 1, such as cilium/ebpf's 16
            // for a pin that is replaced. Maps are private here, so it makes no difference.
            "pinning" => found.is_pinned_by_name = number()? != 0,
            // Such as `numa_node`, which does not affect measurements.
            _ => {}
        }
    }
    if found.r#type == MapType::UNSPEC {
        return Err("it has no type".into());
    }
    if let Some(inner) = inner {
        let inner = read(types, inner, &format!("{map}.inner"), true);
        found.inner = Some(Box::new(inner.map_err(|reason| format!("the maps in it: {reason}"))?));
    }
    Ok(found)
}

/// `int (*name)[NUMBER]`.
fn number(types: &TypeTable, member: u32) -> Option<u32> {
    let pointer = types.resolve(member).filter(|found| found.kind == TypeKind::PTR)?;
    let array = types.resolve(pointer.link).filter(|found| found.kind == TypeKind::ARRAY)?;
    array.tail.get(2).copied()
}

/// `enum { unique = NUMBER } name`, for 64-bit numbers.
fn wide_number(types: &TypeTable, member: u32) -> Option<u64> {
    let found = types.resolve(member)?;
    match found.kind {
        TypeKind::ENUM => found.pairs().next().map(|[_, value]| u64::from(*value)),
        TypeKind::ENUM64 => {
            found.triples().next().map(|[_, low, high]| u64::from(*high) << 32 | u64::from(*low))
        }
        _ => None,
    }
}

/// `struct inner *values[]`, or `void (*values[])(void)` in a program table.
fn values(types: &TypeTable, member: u32) -> Result<Option<Type<'_>>, String> {
    let array = types.resolve(member).filter(|found| found.kind == TypeKind::ARRAY);
    let element = array.and_then(|array| types.resolve(*array.tail.first()?));
    let pointed = element
        .filter(|element| element.kind == TypeKind::PTR)
        .and_then(|pointer| types.resolve(pointer.link))
        .ok_or("its values are not an array of pointers")?;
    match pointed.kind {
        TypeKind::STRUCT => Ok(Some(pointed)),
        TypeKind::FUNC_PROTO => Ok(None),
        _ => Err("its values are neither maps nor programs".into()),
    }
}

/// Entries in the initializer of `values`: each is a relocation.
fn slots(
    survey: &Survey<'_>,
    index: usize,
    map: &Symbol<'_>,
    types: &TypeTable,
    definition: Option<Type<'_>>,
) -> Vec<(u32, Slot)> {
    let values = definition.and_then(|definition| {
        definition.triples().copied().find(|[name, ..]| types.text(*name) == Some("values"))
    });
    let Some([_, _, bits]) = values else { return Vec::new() };
    let start = map.value.saturating_add(u64::from(bits / 8));
    let end = map.value.saturating_add(map.size);
    let relocations = survey.sections.get(index).map_or(&[][..], |section| &section.relocations);
    let slot = |relocation: &Relocation| {
        let number = u32::try_from((relocation.offset - start) / 8).ok()?;
        let symbol = survey.symbols.get(relocation.symbol)?;
        let name = symbol.name.to_owned();
        let slot = match symbol.place {
            Place::Section(section) if section == index => Slot::Map(name),
            Place::Section(_) if symbol.is_function => Slot::Program(name),
            // A function that is only declared: programs that jump there get an error.
            Place::Undefined => Slot::Program(name),
            _ => return None,
        };
        Some((number, slot))
    };
    within(relocations, &(start..end), |it| it.offset).iter().filter_map(slot).collect()
}
