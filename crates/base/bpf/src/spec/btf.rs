//! Types: those of the object, as the kernel is to get them, and those of the kernel, for CO-RE.

mod prepare;

use std::{borrow::Cow, fs};

use super::{
    Spec,
    table::{GLOBAL, Kind, STATIC, TypeTable},
};
use crate::code::FunctionInfo;

pub(super) use prepare::prepare;

/// Where the running kernel has its types.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The id of no type, and the place of an argument in a tag on it.
const VOID: u32 = 0;
const FIRST_ARGUMENT: u32 = 0;

/// Types of the kernel that programs are linked for.
#[derive(Debug, Clone)]
pub struct TargetTypes(pub(super) TypeTable);

/// The types of a kernel cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the types of the kernel from {path}: {reason}")]
pub struct TargetError {
    pub path: String,
    /// Why not.
    pub reason: String,
}

impl TargetTypes {
    /// Those of the running kernel; needs no rights, takes some hundredths of a second.
    ///
    /// # Errors
    ///
    /// When the kernel has no BTF.
    pub fn from_kernel() -> Result<Self, TargetError> {
        let failed = |reason| TargetError { path: KERNEL_TYPES.to_owned(), reason };
        let bytes = fs::read(KERNEL_TYPES).map_err(|error| failed(error.to_string()))?;
        Self::parse(&bytes).map_err(failed)
    }

    /// Those of any kernel, from its raw BTF in this machine's byte order.
    ///
    /// # Errors
    ///
    /// A reason when the types do not hold together.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        TypeTable::parse(bytes).map(Self)
    }
}

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
        self.table.as_ref()?.find(Kind::DATASEC, name).map(|found| found.id)
    }

    /// Types with more: a copy of each of the function types `ids` that is static. Gives the types and
    /// the ids of the copies; `None` when one of `ids` is not a function's.
    ///
    /// The verifier checks a global function on its own and forgets what it knows of the result; a
    /// static one it follows. A program that a wrapper calls has to be followed.
    pub(crate) fn with_static_copies(&self, ids: &[u32]) -> Option<(Self, Vec<u32>)> {
        let mut table = self.table.clone()?;
        let mut copy = |&id: &u32| {
            let found = table.get(id).filter(|found| found.kind == Kind::FUNC)?;
            let (name, prototype) = (found.name, found.link);
            Some(table.add(Kind::FUNC, name, STATIC, prototype, &[]))
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
        let [int, context, tag] = ["int", "ctx", "arg:ctx"].map(|text| table.add_text(text));
        // Signed, 32 bits.
        let int = table.add(Kind::INT, int, 0, 4, &[1 << 24 | 32]);
        let pointer = table.add(Kind::PTR, 0, 0, VOID, &[]);
        let with_context = table.add(Kind::FUNC_PROTO, 0, 1, int, &[context, pointer]);
        let without = table.add(Kind::FUNC_PROTO, 0, 0, int, &[]);
        let ids = functions.iter().enumerate().map(|(number, function)| {
            if called.contains(&number) {
                let name = table.add_text(&format!("called_{number}"));
                let id = table.add(Kind::FUNC, name, GLOBAL, with_context, &[]);
                table.add(Kind::DECL_TAG, tag, 0, id, &[FIRST_ARGUMENT]);
                return Some(id);
            }
            Some(function.type_id.unwrap_or_else(|| {
                let name = table.add_text(&format!("static_{number}"));
                table.add(Kind::FUNC, name, STATIC, without, &[])
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
