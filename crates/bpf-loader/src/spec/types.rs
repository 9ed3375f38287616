//! Types of the object, prepared for the kernel.

mod prepare;

use std::{borrow::Cow, collections::BTreeMap};

use super::Spec;
use crate::btf::table::{GLOBAL, STATIC, Type, TypeKind, TypeTable};
use crate::code::FunctionInfo;

pub(super) use prepare::prepare;

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
