//! Types of the object, as the kernel is to get them.

mod prepare;

use std::borrow::Cow;

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
}

impl ObjectTypes {
    fn new(table: TypeTable) -> Self {
        Self { bytes: table.to_bytes(), table: Some(table) }
    }

    /// The bytes for the kernel; empty when the object has no type information.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
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

    /// Types with one for each of `functions`, and their ids: those number `called` are global
    /// functions that get the program's context and return a number; others keep the type that they
    /// have, and are static without one.
    pub(crate) fn with_called(
        &self,
        functions: &[FunctionInfo],
        called: &[usize],
    ) -> (Self, Vec<Option<u32>>) {
        let mut table = self.table.clone().unwrap_or_else(TypeTable::empty);
        let [context, tag] = ["ctx", "arg:ctx"].map(|text| table.add_text(text));
        let int = table.add_int();
        let pointer = table.add(TypeKind::PTR, 0, 0, VOID, &[]);
        let with_context = table.add(TypeKind::FUNC_PROTO, 0, 1, int, &[context, pointer]);
        let without = table.add(TypeKind::FUNC_PROTO, 0, 0, int, &[]);
        let ids = functions.iter().enumerate().map(|(number, function)| {
            if called.contains(&number) {
                let name = table.add_text(&format!("called_{number}"));
                let id = table.add(TypeKind::FUNC, name, GLOBAL, with_context, &[]);
                table.add(TypeKind::DECL_TAG, tag, 0, id, &[FIRST_ARGUMENT]);
                return Some(id);
            }
            Some(function.type_id.unwrap_or_else(|| {
                let name = table.add_text(&format!("static_{number}"));
                table.add(TypeKind::FUNC, name, STATIC, without, &[])
            }))
        });
        let ids = ids.collect();
        (Self::new(table), ids)
    }
}

impl Spec {
    /// The object's types, brought into the form that the kernel takes: sizes of global data filled
    /// in, names that it refuses replaced, externs made variables of their own.
    pub fn types(&self) -> ObjectTypes {
        self.kernel_types.clone().map(ObjectTypes::new).unwrap_or_default()
    }
}
