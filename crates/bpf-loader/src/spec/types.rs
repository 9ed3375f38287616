//! Types of the object, prepared for the kernel.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Spec,
    elf::{Definition, Elf},
    externs::{ExternKind, Externs, KCONFIG, KSYMS},
    functions::Functions,
};
use crate::{
    btf::table::{EXTERN, GLOBAL, STATIC, Type, TypeKind, TypeTable},
    code::FunctionInfo,
};

/// Id of the void type, and the argument index of a tag on it.
const VOID: u32 = 0;
const FIRST_ARGUMENT: u32 = 0;

/// Kernel-managed fields in map values, identified by structures and pointer tags
/// (`btf_get_field_type` and `btf_find_kptr` in kernel/bpf/btf.c, Linux 6.18). Excludes locks,
/// which every run releases.
const MANAGED: [&str; 5] = ["bpf_timer", "bpf_wq", "bpf_task_work", "bpf_list_head", "bpf_rb_root"];
const MANAGED_POINTERS: [&str; 4] = ["kptr", "kptr_untrusted", "percpu_kptr", "uptr"];

/// Type information of an object, ready for `BPF_BTF_LOAD`, and its strings.
#[derive(Debug, Clone, Default)]
pub struct ObjectTypes {
    table: Option<TypeTable>,
    bytes: Vec<u8>,
    own: Option<OwnTypes>,
}

impl ObjectTypes {
    fn new(table: TypeTable) -> Self {
        Self { bytes: table.to_bytes(), table: Some(table), own: None }
    }

    /// The bytes for the kernel; empty if the object has no type information.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there are none: the kernel rejects an empty list.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.as_ref().is_none_or(|table| table.len() == 0)
    }

    /// String at `offset`, such as a file name or the text of a source line. Replaces invalid UTF-8.
    pub fn string(&self, offset: u32) -> Option<Cow<'_, str>> {
        self.table.as_ref()?.text_bytes(offset).map(String::from_utf8_lossy)
    }

    /// Type of the data section `name`, such as `.bss`.
    pub(crate) fn data_section_id(&self, name: &str) -> Option<u32> {
        self.table.as_ref()?.find(TypeKind::DATASEC, name).map(|found| found.id)
    }

    /// Whether values may contain kernel-managed fields, which functions change without writing to the map.
    pub(crate) fn have_managed_fields(&self) -> bool {
        let is_managed = |table: &TypeTable, found: Type<'_>| match found.kind {
            TypeKind::STRUCT => MANAGED.contains(&table.name(found)),
            TypeKind::TYPE_TAG => MANAGED_POINTERS.contains(&table.name(found)),
            _ => false,
        };
        self.table.as_ref().is_some_and(|table| table.all().any(|found| is_managed(table, found)))
    }

    /// Adds a static copy of each of the function types `ids`. Returns the types and the ids of the
    /// copies; `None` if one of `ids` is not a function.
    ///
    /// The verifier checks a global function separately and knows nothing of its result; it follows
    /// a static one. It must follow a program that a wrapper calls.
    pub(crate) fn with_static_copies(&self, ids: &[u32]) -> Option<(Self, Vec<u32>)> {
        let mut table = self.table.clone()?;
        let mut copy = |&id: &u32| {
            let found = table.get(id).filter(|found| found.kind == TypeKind::FUNC)?;
            let (name, prototype) = (found.name, found.link);
            Some(table.add(TypeKind::FUNC, name, STATIC, prototype, &[]))
        };
        let copies = ids.iter().map(&mut copy).collect::<Option<_>>()?;
        Some((Self::new(table), copies))
    }

    /// Appends our own types: those of additional functions in an image of several programs, and a
    /// static copy of each function type. So one load of types works for maps, programs and images,
    /// and the kernel sees the same structures in all of them.
    pub(crate) fn with_own(&self) -> Self {
        let mut table = self.table.clone().unwrap_or_else(TypeTable::empty);
        let known = self.table.as_ref().into_iter().flat_map(TypeTable::all);
        let functions = known.filter(|found| found.kind == TypeKind::FUNC);
        let copies = functions
            .map(|it| (it.id, table.add(TypeKind::FUNC, it.name, STATIC, it.link, &[])))
            .collect();
        let [context, tag, called, alone] =
            ["ctx", "arg:ctx", "called", "alone"].map(|text| table.add_text(text));
        let int = table.add_int();
        let pointer = table.add(TypeKind::PTR, 0, 0, VOID, &[]);
        let with_context = table.add(TypeKind::FUNC_PROTO, 0, 1, int, &[context, pointer]);
        let without = table.add(TypeKind::FUNC_PROTO, 0, 0, int, &[]);
        let called = table.add(TypeKind::FUNC, called, GLOBAL, with_context, &[]);
        table.add(TypeKind::DECL_TAG, tag, 0, called, &[FIRST_ARGUMENT]);
        let alone = table.add(TypeKind::FUNC, alone, STATIC, without, &[]);
        Self { own: Some(OwnTypes { called, alone, copies }), ..Self::new(table) }
    }

    /// Our own types, if any.
    pub(crate) fn own(&self) -> Option<&OwnTypes> {
        self.own.as_ref()
    }
}

/// Ids of our own types.
#[derive(Debug, Clone)]
pub(crate) struct OwnTypes {
    /// A global function that gets the program's context and returns a number.
    called: u32,
    /// A static function without arguments.
    alone: u32,
    /// Static copies of function types.
    copies: BTreeMap<u32, u32>,
}

impl OwnTypes {
    /// Type of each of `functions`: those numbered `called` get the program's context; others keep
    /// their type, or become static if they have none.
    pub(crate) fn of_image(
        &self,
        functions: &[FunctionInfo],
        called: &[usize],
    ) -> Vec<Option<u32>> {
        let functions = functions.iter().enumerate();
        let ids = functions.map(|(number, function)| match called.contains(&number) {
            true => self.called,
            false => function.type_id.unwrap_or(self.alone),
        });
        ids.map(Some).collect()
    }

    /// The static copy of a function type.
    pub(crate) fn copy(&self, id: u32) -> Option<u32> {
        self.copies.get(&id).copied()
    }
}

impl Spec {
    /// The object's types, converted for the kernel: fills in sizes of global data, replaces
    /// rejected names, and turns externs into variables.
    pub fn types(&self) -> ObjectTypes {
        self.kernel_types.clone().map(ObjectTypes::new).unwrap_or_default()
    }
}

// Converts an object's types to the form that the kernel accepts.
//
// Compilers leave values that a loader has to fill in, and emit some that the kernel rejects
// (kernel/bpf/btf.c, Linux 6.18). libbpf does the same (tools/lib/bpf/libbpf.c,
// `btf_fixup_datasec`, `bpf_object__collect_externs`, Linux 6.12), and aya-obj the part needed for
// Rust. Ids do not change.

/// Functions added by compilers, which the verifier must follow to know their effects.
const MEMORY: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];

/// Returns the types for the kernel.
pub(crate) fn prepare(
    types: &TypeTable,
    elf: &Elf<'_>,
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
    let sections = DataSections::new(types, elf, externs);
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
    fn new(types: &'a TypeTable, elf: &'a Elf<'_>, externs: &'a Externs) -> Self {
        let sizes = elf.sections.iter().map(|section| (section.name, section.size)).collect();
        let offsets = elf.symbols.iter().filter(|symbol| !symbol.is_local);
        let offsets = offsets.filter_map(|symbol| match symbol.definition {
            Definition::Section(index) => {
                Some(((elf.sections.get(index)?.name, symbol.name), symbol.value))
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
