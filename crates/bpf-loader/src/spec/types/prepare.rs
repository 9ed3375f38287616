//! Converts an object's types to the form that the kernel accepts.
//!
//! Compilers leave values that a loader has to fill in, and emit some that the kernel rejects
//! (kernel/bpf/btf.c, Linux 6.18). libbpf does the same (tools/lib/bpf/libbpf.c,
//! `btf_fixup_datasec`, `bpf_object__collect_externs`, Linux 6.12), and aya-obj the part needed for
//! Rust. Ids do not change.

use std::collections::{BTreeMap, BTreeSet};

use crate::btf::table::{EXTERN, GLOBAL, STATIC, TypeKind, TypeTable};
use crate::spec::{
    externs::{ExternKind, Externs, KCONFIG, KSYMS},
    functions::Functions,
    survey::{Place, Survey},
};

/// Functions added by compilers, which the verifier must follow to know their effects.
const MEMORY: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];

/// Returns the types for the kernel.
pub(crate) fn prepare(
    types: &TypeTable,
    survey: &Survey<'_>,
    functions: &Functions,
    externs: &Externs,
) -> TypeTable {
    let mut ready = types.clone();
    let hidden = functions.0.iter().filter(|function| function.is_hidden);
    let hidden: BTreeSet<&str> = hidden.map(|function| function.name.as_str()).collect();
    let argument = ready.add_text("argument");
    for found in types.all() {
        match found.kind {
            // LLVM names Rust's pointers.
            TypeKind::PTR => ready.set_name(found.id, 0),
            TypeKind::FUNC_PROTO => {
                let named = found.pairs().flat_map(|&[name, id]| {
                    [if name == 0 && id != 0 { argument } else { name }, id]
                });
                ready.set_tail(found.id, &named.collect::<Vec<_>>());
            }
            TypeKind::FUNC | TypeKind::VAR if found.linkage() == EXTERN => {
                ready.set_linkage(found.id, GLOBAL);
            }
            // The verifier checks global functions without their callers. Hidden visibility
            // requests to check them with their callers, like static ones.
            TypeKind::FUNC if found.linkage() == GLOBAL => {
                let name = types.name(found);
                if hidden.contains(name) || MEMORY.contains(&name) {
                    ready.set_linkage(found.id, STATIC);
                }
            }
            _ => {}
        }
    }
    let sections = DataSections::new(types, survey, externs);
    let dummy = sections.dummy(&mut ready);
    for section in types.all().filter(|found| found.kind == TypeKind::DATASEC) {
        let name = types.name(section);
        // Rust's `maps/NAME`.
        if name.contains('/') {
            let name = ready.add_text(&name.replace('/', "."));
            ready.set_name(section.id, name);
        }
        let mut entries: Vec<_> = section.triples().copied().collect();
        let size = sections.place(name, section.link, &mut entries, dummy);
        entries.sort_by_key(|[_, offset, _]| *offset);
        ready.set_link(section.id, size);
        ready.set_tail(section.id, entries.as_flattened());
    }
    ready
}

/// Data sections of the file.
struct DataSections<'a> {
    types: &'a TypeTable,
    externs: &'a Externs,
    /// Sizes by name, in bytes.
    sizes: BTreeMap<&'a str, u64>,
    /// Offsets of global variables in bytes, by section and name.
    offsets: BTreeMap<(&'a str, &'a str), u64>,
}

impl<'a> DataSections<'a> {
    fn new(types: &'a TypeTable, survey: &'a Survey<'_>, externs: &'a Externs) -> Self {
        let sizes = survey.sections.iter().map(|section| (section.name, section.size)).collect();
        let offsets = survey.symbols.iter().filter(|symbol| !symbol.is_local);
        let offsets = offsets.filter_map(|symbol| match symbol.place {
            Place::Section(index) => {
                Some(((survey.sections.get(index)?.name, symbol.name), symbol.value))
            }
            _ => None,
        });
        Self { types, externs, sizes, offsets: offsets.collect() }
    }

    /// Creates an integer type for externs, and a variable to replace functions, if needed: the
    /// kernel requires defined variables with a size.
    fn dummy(&self, ready: &mut TypeTable) -> Option<u32> {
        let list = self.types.find(TypeKind::DATASEC, KSYMS)?;
        let integer = ready.add_int();
        for entry in list.triples().filter_map(|[id, ..]| self.types.get(*id)) {
            if entry.kind == TypeKind::VAR {
                ready.set_link(entry.id, integer);
            }
        }
        let name = ready.add_text("dummy_ksym");
        Some(ready.add(TypeKind::VAR, name, 0, integer, &[GLOBAL]))
    }

    /// Places the variables of a section; returns the section's size.
    fn place(&self, name: &str, size: u32, entries: &mut [[u32; 3]], dummy: Option<u32>) -> u32 {
        if let Some(dummy) = dummy.filter(|_| name == KSYMS) {
            for (number, [id, offset, size]) in (0_u32..).zip(&mut *entries) {
                if self.types.get(*id).is_some_and(|found| found.kind == TypeKind::FUNC) {
                    *id = dummy;
                }
                (*offset, *size) = (number.saturating_mul(4), 4);
            }
            return end(entries);
        }
        for [id, offset, _] in &mut *entries {
            let Some(found) = self.types.get(*id) else { continue };
            let found = self.types.name(found);
            let known = match name {
                KCONFIG => self.setting(found),
                _ => self.offsets.get(&(name, found)).and_then(|&at| u32::try_from(at).ok()),
            };
            *offset = known.unwrap_or(*offset);
        }
        let known = self.sizes.get(name).and_then(|&size| u32::try_from(size).ok());
        known.unwrap_or(size).max(end(entries))
    }

    fn setting(&self, name: &str) -> Option<u32> {
        let found = self.externs.all.iter().find(|found| found.name == name)?;
        match found.kind {
            ExternKind::Setting(setting) => Some(setting.offset),
            // Behind the others it does no harm.
            _ => Some(self.externs.settings_size),
        }
    }
}

/// End of the last variable.
fn end(entries: &[[u32; 3]]) -> u32 {
    entries.iter().map(|[_, offset, size]| offset.saturating_add(*size)).max().unwrap_or(0)
}
