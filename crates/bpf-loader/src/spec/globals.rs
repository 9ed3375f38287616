//! Global variables of an object, which can be set before it is loaded.

mod value;

use super::{
    Spec, SpecError,
    elf::{Definition, Elf, Role},
    nearest,
};
use crate::btf::table::{Type, TypeKind, TypeTable};
use value::{Shape, listed};

pub(crate) use value::whole_number;
pub use value::{GlobalSetting, NotASetting};

/// The variables, in file order.
#[derive(Debug, Clone, Default)]
pub(super) struct Globals(Vec<Global>);

#[derive(Debug, Clone)]
struct Global {
    name: String,
    section: usize,
    /// Offset in its section and size, in bytes.
    offset: u64,
    size: u64,
    is_local: bool,
}

/// A variable or a part of one: its section, its range there in bytes, and its type if known.
#[derive(Debug, Clone, Copy)]
struct Spot {
    section: usize,
    offset: u64,
    size: u64,
    type_id: Option<u32>,
}

impl Globals {
    pub(super) fn find(elf: &Elf<'_>) -> Self {
        let in_data = |symbol: &&super::elf::Symbol<'_>| {
            !symbol.is_section && !symbol.is_function && !symbol.name.is_empty() && symbol.size > 0
        };
        let globals = elf.symbols.iter().filter(in_data).filter_map(|symbol| {
            let Definition::Section(section) = symbol.definition else { return None };
            let role = elf.sections.get(section)?.role;
            matches!(role, Role::Data { .. } | Role::ArenaData).then(|| Global {
                name: symbol.name.to_owned(),
                section,
                offset: symbol.value,
                size: symbol.size,
                is_local: symbol.is_local,
            })
        });
        Self(globals.collect())
    }

    /// The variable of a name: a global one, else the only static one.
    fn named(&self, name: &str) -> Result<&Global, String> {
        let mut found: Vec<_> = self.0.iter().filter(|global| global.name == name).collect();
        found.sort_by_key(|global| global.is_local);
        match found.as_slice() {
            [] => Err(format!("the object has no such variable{}", self.suggestion(name))),
            [first, rest @ ..] if !first.is_local || rest.is_empty() => Ok(first),
            all => Err(format!("the object has {} static variables of this name", all.len())),
        }
    }

    /// Similar names, or all.
    fn suggestion(&self, name: &str) -> String {
        // Names of compiler-generated constants contain a dot.
        let known = self.0.iter().map(|global| &global.name).filter(|name| !name.contains('.'));
        let known: Vec<String> = known.cloned().collect();
        match (nearest(name, &known), known.as_slice()) {
            (Some(nearest), _) => format!("; did you mean {nearest:?}?"),
            (None, []) => "; it has none".to_owned(),
            (None, known) => format!("; it has {}", listed(known.iter().map(String::as_str))),
        }
    }
}

impl Spec {
    /// Sets a global variable of the object, or a part of one (`array[2]`, `settings.limit`),
    /// before it is loaded. Fails if there is no such variable, or its size differs from that of
    /// `value`.
    pub fn set_global(&mut self, name: &str, value: &[u8]) -> Result<(), SpecError> {
        self.try_set_global(name, value).map_err(|reason| self.global_error(name, reason))
    }

    /// A copy of the object with other values of global variables, like `veristat -G` and bpf2go's
    /// variables. Fails if there is no such variable, or it cannot hold the value.
    pub fn with_globals(&self, settings: &[GlobalSetting]) -> Result<Self, SpecError> {
        let mut changed = self.clone();
        for GlobalSetting { name, value } in settings {
            let bytes = self.global_bytes(name, value);
            let bytes = bytes.map_err(|reason| self.global_error(name, reason))?;
            changed.set_global(name, &bytes)?;
        }
        Ok(changed)
    }

    fn global_error(&self, name: &str, reason: String) -> SpecError {
        SpecError::Global { file: self.file.clone(), name: name.to_owned(), reason }
    }

    fn global_bytes(&self, name: &str, value: &str) -> Result<Vec<u8>, String> {
        let place = self.place(name)?;
        let size = usize::try_from(place.size).map_err(|_| "it is too large".to_owned())?;
        let found = place.type_id.and_then(|id| Some((self.types.as_ref()?, id)));
        let shape = found.map_or(Shape::Integer { is_signed: None }, |(types, id)| {
            Shape::of(types.resolve(id), types)
        });
        shape.bytes(value, size)
    }

    /// A variable by its name, or a part of one by name and path.
    fn place(&self, name: &str) -> Result<Spot, String> {
        if let Ok(global) = self.globals.named(name) {
            return Ok(self.whole(global));
        }
        let mut splits = splits(name);
        let base = splits.clone().next().map_or(name, |(base, _)| base.trim());
        let known = |(base, path): (&str, _)| Some((self.globals.named(base.trim()).ok()?, path));
        let (global, path) = match splits.find_map(known) {
            Some(found) => found,
            None => (self.globals.named(base)?, ""),
        };
        let whole = self.whole(global);
        let found = whole.type_id.and_then(|id| Some((self.types.as_ref()?, id)));
        let (types, id) = found.ok_or_else(|| {
            format!("the object has no type of {}; build it with `clang -g`", global.name)
        })?;
        let Part { offset, size, type_id } = find(types, id, path)?;
        Ok(Spot { offset: whole.offset + offset, size, type_id: Some(type_id), ..whole })
    }

    /// The whole variable.
    fn whole(&self, global: &Global) -> Spot {
        let &Global { section, offset, size, .. } = global;
        Spot { section, offset, size, type_id: self.global_type(global) }
    }

    /// Type of a variable, if the object has one of the same size.
    fn global_type(&self, global: &Global) -> Option<u32> {
        let types = self.types.as_ref()?;
        let (section, _) = self.sections.get(global.section)?;
        let list = types.find(TypeKind::DATASEC, section)?;
        let mut variables = list.triples().filter_map(|[id, ..]| types.get(*id));
        let variable = variables.find(|variable| types.name(*variable) == global.name)?;
        let is_whole = types.size(variable.link).map(u64::from) == Some(global.size);
        is_whole.then_some(variable.link)
    }

    fn try_set_global(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let place = self.place(name)?;
        if value.len() as u64 != place.size {
            return Err(format!("it has {} bytes, and {} were given", place.size, value.len()));
        }
        let number = self.maps.at(place.section, place.offset).map(|place| place.number);
        let start = usize::try_from(place.offset).ok();
        let bytes = number
            .and_then(|number| self.maps.specs.get_mut(number)?.initial.as_mut())
            .zip(start)
            .and_then(|(bytes, start)| bytes.get_mut(start..)?.get_mut(..value.len()));
        bytes.ok_or("its section is not that of a map")?.copy_from_slice(value);
        Ok(())
    }
}

// Parts of variables by name, in C syntax: `array[2]`, `settings.limits[1]`.

/// Maximum nesting of anonymous structures: more than any compiler emits.
const DEPTH_MAX: usize = 32;

/// A part of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Offset in the variable, in bytes.
    offset: u64,
    size: u64,
    /// Type id.
    type_id: u32,
}

/// Possible splits of a text into the name of a variable, which may contain dots, and the path to a
/// part of it, which begins with a dot or a bracket.
fn splits(text: &str) -> impl Iterator<Item = (&str, &str)> + Clone {
    text.match_indices(['.', '[']).filter(|(at, _)| *at > 0).map(|(at, _)| text.split_at(at))
}

/// Resolves a path in a variable of this type. The error is a reason.
fn find(types: &TypeTable, type_id: u32, path: &str) -> Result<Part, String> {
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
        return Err(format!("[{index}] selects an element, but it is not an array"));
    };
    let number = whole_number(index).or_else(|| enumerator(types, index).map(i128::from));
    let number = number.ok_or_else(|| format!("{index:?} is not an index"))?;
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
        return Err(format!(".{name} selects a member, but it is not a structure"));
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
fn member_names(types: &TypeTable, of: Type<'_>) -> Option<String> {
    let all = members(types, of, 0, DEPTH_MAX);
    (!all.is_empty()).then(|| listed(all.iter().map(|member| member.name)))
}
