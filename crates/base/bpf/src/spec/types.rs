//! Types of the object, as the kernel is to get them.

mod prepare;

use std::{borrow::Cow, collections::BTreeMap};

use super::Spec;
use crate::btf::table::{GLOBAL, STATIC, Type, TypeKind, TypeTable};
use crate::code::FunctionInfo;

pub(super) use prepare::prepare;

/// The id of no type, and the place of an argument in a tag on it.
const VOID: u32 = 0;
const FIRST_ARGUMENT: u32 = 0;

/// What the kernel manages in the values of maps, by the structures and by the tags of pointers
/// (`btf_get_field_type` and `btf_find_kptr` in kernel/bpf/btf.c, Linux 6.18), save locks, which every
/// run gives back.
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

    /// The bytes for the kernel; empty when the object has no type information.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there are none: the kernel takes no empty list.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.as_ref().is_none_or(|table| table.len() == 0)
    }

    /// The string at `offset`, such as a file's name or the text of a source line. What is not UTF-8
    /// in it is replaced.
    pub fn string(&self, offset: u32) -> Option<Cow<'_, str>> {
        self.table.as_ref()?.text_bytes(offset).map(String::from_utf8_lossy)
    }

    /// Type of the data section `name`, such as `.bss`.
    pub(crate) fn data_section_id(&self, name: &str) -> Option<u32> {
        self.table.as_ref()?.find(TypeKind::DATASEC, name).map(|found| found.id)
    }

    /// Whether values may hold what the kernel manages, and what functions change without writing to it.
    pub(crate) fn have_managed_fields(&self) -> bool {
        let is_managed = |table: &TypeTable, found: Type<'_>| match found.kind {
            TypeKind::STRUCT => MANAGED.contains(&table.name(found)),
            TypeKind::TYPE_TAG => MANAGED_POINTERS.contains(&table.name(found)),
            _ => false,
        };
        self.table.as_ref().is_some_and(|table| table.all().any(|found| is_managed(table, found)))
    }

    /// Types with more: a copy of each of the function types `ids` that is static. Gives the types and
    /// the ids of the copies; `None` when one of `ids` is not a function's.
    ///
    /// The verifier checks a global function on its own and forgets what it knows of the result; a
    /// static one it follows. A program that a wrapper calls has to be followed.
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

    /// The same types with some of our own behind them: those of functions that an image of several
    /// programs has besides, and a static copy of each function's type. So one load of types is good for
    /// maps, programs and images, and for the kernel a structure in one is that in the others.
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

    /// The types of our own, if there are any.
    pub(crate) fn own(&self) -> Option<&OwnTypes> {
        self.own.as_ref()
    }
}

/// Ids of types of our own.
#[derive(Debug, Clone)]
pub(crate) struct OwnTypes {
    /// A global function that gets the program's context and returns a number.
    called: u32,
    /// A static function without arguments.
    alone: u32,
    /// Static copies of functions' types.
    copies: BTreeMap<u32, u32>,
}

impl OwnTypes {
    /// The type of each of `functions`: those number `called` get the program's context; others keep the
    /// type that they have, and are static without one.
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

    /// The static copy of a function's type.
    pub(crate) fn copy(&self, id: u32) -> Option<u32> {
        self.copies.get(&id).copied()
    }
}

impl Spec {
    /// The object's types, brought into the form that the kernel takes: sizes of global data filled
    /// in, names that it refuses replaced, externs made variables of their own.
    pub fn types(&self) -> ObjectTypes {
        self.kernel_types.clone().map(ObjectTypes::new).unwrap_or_default()
    }
}
