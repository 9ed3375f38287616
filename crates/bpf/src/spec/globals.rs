//! Global variables of an object, which can be set before it is loaded.

use super::{
    Spec, SpecError,
    survey::{Place, Role, Survey},
};

/// The variables, in the order of the file.
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

impl Globals {
    pub(super) fn find(survey: &Survey<'_>) -> Self {
        let in_data = |symbol: &&super::survey::Symbol<'_>| {
            !symbol.is_section && !symbol.is_function && !symbol.name.is_empty() && symbol.size > 0
        };
        let globals = survey.symbols.iter().filter(in_data).filter_map(|symbol| {
            let Place::Section(section) = symbol.place else { return None };
            let role = survey.sections.get(section)?.role;
            matches!(role, Role::Data { .. }).then(|| Global {
                name: symbol.name.to_owned(),
                section,
                offset: symbol.value,
                size: symbol.size,
                is_local: symbol.is_local,
            })
        });
        Self(globals.collect())
    }

    /// The variable of a name: one that other files see, else the only one that they do not.
    fn named(&self, name: &str) -> Result<&Global, String> {
        let mut found: Vec<_> = self.0.iter().filter(|global| global.name == name).collect();
        found.sort_by_key(|global| global.is_local);
        match found.as_slice() {
            [] => Err("the object has no such variable".into()),
            [first, rest @ ..] if !first.is_local || rest.is_empty() => Ok(first),
            all => Err(format!("the object has {} static variables of this name", all.len())),
        }
    }
}

impl Spec {
    /// Sets a global variable of the object, before it is loaded.
    ///
    /// # Errors
    ///
    /// When there is no such variable, or when it has another size than `value`.
    pub fn set_global(&mut self, name: &str, value: &[u8]) -> Result<(), SpecError> {
        self.try_set_global(name, value).map_err(|reason| SpecError::Global {
            file: self.file.clone(),
            name: name.to_owned(),
            reason,
        })
    }

    fn try_set_global(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let global = self.globals.named(name)?;
        if value.len() as u64 != global.size {
            return Err(format!("it has {} bytes, and {} were given", global.size, value.len()));
        }
        let number = self.maps.at(global.section, global.offset).map(|place| place.number);
        let start = usize::try_from(global.offset).ok();
        let bytes = number
            .and_then(|number| self.maps.specs.get_mut(number)?.initial.as_mut())
            .zip(start)
            .and_then(|(bytes, start)| bytes.get_mut(start..)?.get_mut(..value.len()));
        bytes.ok_or("its section holds no data")?.copy_from_slice(value);
        Ok(())
    }
}
