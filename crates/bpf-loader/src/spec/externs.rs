//! Kernel symbols that an object uses: functions (kfuncs), variables, configuration.
//!
//! Follows libbpf's conventions (tools/lib/bpf/libbpf.c, `bpf_object__collect_externs`, Linux
//! 6.12): externs are undefined symbols that the object's BTF lists in a data section, `.ksyms` or
//! `.kconfig`. Linked bytecode refers to them by their number here, which the loader replaces.

use super::elf::{Definition, Elf};
use crate::btf::table::{BOOL, EXTERN, SIGNED, Type, TypeKind, TypeTable};

/// Data sections of externs, which are not sections of the file, and the map of the second.
pub(super) const KSYMS: &str = ".ksyms";
pub(super) const KCONFIG: &str = ".kconfig";

/// A symbol that the kernel has to provide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extern {
    /// Its name in the kernel.
    pub name: String,
    pub kind: ExternKind,
    /// Whether the program can do without it.
    pub is_weak: bool,
}

/// Kinds of externs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternKind {
    /// A kernel function, called or only looked up.
    Function,
    /// A kernel variable with a known type.
    Variable,
    /// A kernel symbol of which only the address is used.
    Address,
    /// A kernel configuration setting.
    Setting(Setting),
    /// Of unknown kind, with the reason. Only programs that refer to it cannot be linked.
    Unclear(String),
}

/// A kernel configuration setting, as a variable in the map `.kconfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Offset in the map's value, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    pub form: SettingForm,
}

/// Format of a setting's value in its variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingForm {
    /// One byte, 0 or 1.
    Bool,
    /// `enum libbpf_tristate`: no, yes, module.
    Tristate,
    /// One character, or a small number.
    Char,
    Integer {
        is_signed: bool,
    },
    /// Characters with a terminator.
    Text,
}

/// The externs of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Externs {
    pub(super) all: Vec<Extern>,
    symbols: Vec<usize>,
    /// Size of the map `.kconfig` in bytes.
    pub(super) settings_size: u32,
}

impl Externs {
    /// Finds them among the symbols.
    pub(super) fn find(elf: &Elf<'_>, types: Option<&TypeTable>) -> Self {
        let mut found = Self::default();
        let lists = types.map(Lists::of).unwrap_or_default();
        for (index, symbol) in elf.symbols.iter().enumerate() {
            if symbol.definition != Definition::Undefined
                || symbol.name.is_empty()
                || symbol.is_local
            {
                continue;
            }
            let kind = match types {
                Some(types) => found.kind(symbol.name, types, &lists),
                None => ExternKind::Unclear("the object has no type information".into()),
            };
            let (name, is_weak) = (symbol.name.to_owned(), symbol.is_weak);
            found.all.push(Extern { name, kind, is_weak });
            found.symbols.push(index);
        }
        found
    }

    /// The number of the extern with a symbol.
    pub(super) fn by_symbol(&self, index: usize) -> Option<usize> {
        self.symbols.binary_search(&index).ok()
    }

    fn kind(&mut self, name: &str, types: &TypeTable, lists: &Lists) -> ExternKind {
        let unclear = |reason: &str| ExternKind::Unclear(reason.into());
        let is_meant = |found: &Type<'_>| {
            matches!(found.kind, TypeKind::VAR | TypeKind::FUNC)
                && found.linkage() == EXTERN
                && types.name(*found) == name
        };
        let Some(declared) = types.all().find(is_meant) else {
            return unclear(
                "no other object was linked that has it, and it is not declared as the kernel's",
            );
        };
        if lists.ksyms.contains(&declared.id) {
            return match (declared.kind, types.resolve(declared.link)) {
                (TypeKind::FUNC, _) => ExternKind::Function,
                // `extern const void name`.
                (_, None) => ExternKind::Address,
                _ => ExternKind::Variable,
            };
        }
        if !lists.kconfig.contains(&declared.id) {
            return unclear(
                "no other object was linked that has it, and it is declared neither as __ksym nor as __kconfig",
            );
        }
        match self.setting(declared, types) {
            Some(setting) => ExternKind::Setting(setting),
            None => unclear(
                "its type is not one for settings: bool, char, an integer, an array of char, or enum libbpf_tristate",
            ),
        }
    }

    /// Allocates a location in the map, and derives the format from the type.
    fn setting(&mut self, declared: Type<'_>, types: &TypeTable) -> Option<Setting> {
        let value = types.resolve(declared.link).filter(|_| declared.kind == TypeKind::VAR)?;
        let size = types.size(value.id).filter(|&size| size > 0)?;
        let form = form(value, types)?;
        let alignment = if form == SettingForm::Text { 1 } else { size };
        let offset = self.settings_size.checked_next_multiple_of(alignment)?;
        self.settings_size = offset.checked_add(size).filter(|&end| end < 1 << 20)?;
        Some(Setting { offset, size, form })
    }
}

fn form(value: Type<'_>, types: &TypeTable) -> Option<SettingForm> {
    match (value.kind, value.tail, value.link) {
        (TypeKind::INT, [data], size) => {
            let encoding = data >> 24;
            match size {
                1 if encoding & BOOL != 0 => Some(SettingForm::Bool),
                _ if encoding & BOOL != 0 => None,
                1 => Some(SettingForm::Char),
                2 | 4 | 8 => Some(SettingForm::Integer { is_signed: encoding & SIGNED != 0 }),
                _ => None,
            }
        }
        (TypeKind::ENUM, _, 4) if types.name(value) == "libbpf_tristate" => {
            Some(SettingForm::Tristate)
        }
        (TypeKind::ARRAY, &[element, _, len], _) if len > 0 => {
            let element = types.resolve(element)?;
            (form(element, types) == Some(SettingForm::Char)).then_some(SettingForm::Text)
        }
        _ => None,
    }
}

/// Type ids listed in the two data sections.
#[derive(Default)]
struct Lists {
    ksyms: Vec<u32>,
    kconfig: Vec<u32>,
}

impl Lists {
    fn of(types: &TypeTable) -> Self {
        let list = |name| {
            let section = types.find(TypeKind::DATASEC, name);
            section.map_or_else(Vec::new, |section| section.triples().map(|[id, ..]| *id).collect())
        };
        Self { ksyms: list(KSYMS), kconfig: list(KCONFIG) }
    }
}
