//! Parts of variables by name, in C syntax: `array[2]`, `settings.limits[1]`.

use super::value::{listed, whole_number};
use crate::btf::table::{Type, TypeKind, TypeTable};

/// Maximum nesting of anonymous structures: more than any compiler emits.
const DEPTH_MAX: usize = 32;

/// A part of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Offset in the variable, in bytes.
    pub(super) offset: u64,
    pub(super) size: u64,
    /// Type id.
    pub(super) type_id: u32,
}

/// Possible splits of a text into the name of a variable, which may contain dots, and the path to a
/// part of it, which begins with a dot or a bracket.
pub(super) fn splits(text: &str) -> impl Iterator<Item = (&str, &str)> + Clone {
    text.match_indices(['.', '[']).filter(|(at, _)| *at > 0).map(|(at, _)| text.split_at(at))
}

/// Resolves a path in a variable of this type. The error is a reason.
pub(super) fn find(types: &TypeTable, type_id: u32, path: &str) -> Result<Part, String> {
    let (mut offset, mut id, mut rest) = (0_u64, type_id, path.trim_end());
    while !rest.is_empty() {
        let before = &path[..path.len() - rest.len()];
        let found = types.resolve(id).ok_or("its type has no parts")?;
        let at = if let Some(inside) = rest.strip_prefix('[') {
            let (index, after) = inside.split_once(']').ok_or("a bracket is not closed")?;
            rest = after.trim_start();
            element(types, found, index.trim())
        } else if let Some(named) = rest.strip_prefix('.') {
            let end = named.find(['.', '[']).unwrap_or(named.len());
            let (name, after) = named.split_at(end);
            rest = after;
            member(types, found, name.trim())
        } else {
            Err(format!("{rest:?} is neither an element, such as [2], nor a member, such as .size"))
        };
        let (distance, part) = at.map_err(|reason| match before {
            "" => reason,
            _ => format!("in {before}: {reason}"),
        })?;
        offset = offset.saturating_add(distance);
        id = part;
    }
    let size = types.size(id).ok_or("it has no size")?;
    Ok(Part { offset, size: size.into(), type_id: id })
}

/// Offset of an element in bytes, and its type.
fn element(types: &TypeTable, array: Type<'_>, index: &str) -> Result<(u64, u32), String> {
    let (TypeKind::ARRAY, &[element, _, len]) = (array.kind, array.tail) else {
        return Err(format!("[{index}] asks for an element, and it is no array"));
    };
    let number = whole_number(index).or_else(|| enumerator(types, index).map(i128::from));
    let number = number.ok_or_else(|| format!("{index:?} is no index"))?;
    match u64::try_from(number) {
        Ok(number) if number < len.into() => {
            let size = types.size(element).ok_or("its elements have no size")?;
            Ok((number.saturating_mul(size.into()), element))
        }
        _ => Err(format!("it has {len} elements, counted from 0, and none with index {index}")),
    }
}

/// Value of an enumerator of the object.
fn enumerator(types: &TypeTable, name: &str) -> Option<u64> {
    let values = types.all().filter(|it| it.kind.is_enumeration()).flat_map(|it| it.values());
    values.into_iter().find(|(own, _)| types.is_text(*own, name)).map(|(_, value)| value)
}

/// Offset of a member in bytes, and its type.
fn member(types: &TypeTable, composite: Type<'_>, name: &str) -> Result<(u64, u32), String> {
    if !composite.kind.is_composite() {
        return Err(format!(".{name} asks for a member, and it is no structure"));
    }
    let all = members(types, composite, 0, DEPTH_MAX);
    match all.iter().find(|member| member.name == name && !name.is_empty()) {
        Some(member) if member.is_bit_field => Err(format!(
            "{name} is a bit-field, which cannot be set alone; write all of the structure as hex:"
        )),
        Some(member) => Ok((u64::from(member.bits / 8), member.type_id)),
        None => {
            let names = listed(all.iter().map(|member| member.name));
            Err(format!("it has no member {name:?}; it has {names}"))
        }
    }
}

struct Member<'a> {
    name: &'a str,
    type_id: u32,
    bits: u32,
    is_bit_field: bool,
}

/// Members of a structure, including those of nested anonymous structures.
fn members<'a>(types: &'a TypeTable, of: Type<'_>, at: u32, depth: usize) -> Vec<Member<'a>> {
    let mut all = Vec::new();
    for &[name, type_id, offset] in of.triples() {
        let (bits, width) = of.member_bits(offset);
        let bits = at.saturating_add(bits);
        let name = types.text(name).unwrap_or("");
        let inner = types.resolve(type_id).filter(|inner| inner.kind.is_composite());
        match inner.filter(|_| name.is_empty() && depth > 0) {
            Some(inner) => all.extend(members(types, inner, bits, depth - 1)),
            None => all.push(Member { name, type_id, bits, is_bit_field: width > 0 }),
        }
    }
    all
}

/// Names of the members, for messages; `None` if it has none.
pub(super) fn member_names(types: &TypeTable, of: Type<'_>) -> Option<String> {
    let all = members(types, of, 0, DEPTH_MAX);
    (!all.is_empty()).then(|| listed(all.iter().map(|member| member.name)))
}
