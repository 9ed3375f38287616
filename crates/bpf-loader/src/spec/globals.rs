//! Global variables of an object, which can be set before it is loaded.

mod place;
mod value;

use super::{
    Spec, SpecError,
    error::nearest,
    survey::{Place, Role, Survey},
};
use crate::btf::table::TypeKind;

pub(crate) use value::whole_number;
pub use value::{GlobalSetting, NotASetting};
use value::{Shape, listed};

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
    pub(super) fn find(survey: &Survey<'_>) -> Self {
        let in_data = |symbol: &&super::survey::Symbol<'_>| {
            !symbol.is_section && !symbol.is_function && !symbol.name.is_empty() && symbol.size > 0
        };
        let globals = survey.symbols.iter().filter(in_data).filter_map(|symbol| {
            let Place::Section(section) = symbol.place else { return None };
            let role = survey.sections.get(section)?.role;
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
        let mut splits = place::splits(name);
        let base = splits.clone().next().map_or(name, |(base, _)| base.trim());
        let known = |(base, path): (&str, _)| Some((self.globals.named(base.trim()).ok()?, path));
        let (global, path) = match splits.find_map(known) {
            Some(found) => found,
            None => (self.globals.named(base)?, ""),
        };
        let whole = self.whole(global);
        let found = whole.type_id.and_then(|id| Some((self.types.as_ref()?, id)));
        let (types, id) = found.ok_or_else(|| {
            format!("the object does not tell the type of {} (clang -g)", global.name)
        })?;
        let place::Part { offset, size, type_id } = place::find(types, id, path)?;
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
