//! Reads where the running kernel keeps the members of its structures.
//!
//! A kernel half written in Rust has no field relocations (rustc emits none), so offsets such as
//! `task_struct.tgid` are read here, in user space, and handed over as globals. The source is the
//! kernel's own type information, BTF. Its format is fixed by Documentation/bpf/btf.rst of the kernel
//! tree; the kinds known here are those of Linux 6.18. aya-obj parses BTF too, but keeps the members
//! of a structure to itself, hence this reader.
//!
//! The bytes are walked once for an index of four bytes per type; nothing else is allocated per type.
//! Any bytes are safe to parse: an offset that points outside is an error, a loop ends.

mod error;
mod parse;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, fs};

pub use error::BtfError;
use parse::{Kind, Member, Type};

/// Where the kernel publishes its own types (`CONFIG_DEBUG_INFO_BTF`).
pub const KERNEL_BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Typedefs and modifiers that are followed to a type: more than any compiler nests.
const MODIFIERS_MAX: usize = 32;

/// What is handed over for an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    Integer,
    /// An address; of a struct its name.
    Pointer(Option<String>),
    Other,
}

/// The types of one kernel, indexed by type id.
#[derive(Debug)]
pub struct KernelTypes {
    bytes: Vec<u8>,
    /// Offset in `bytes` of type id `index + 1`; id 0 is `void` and has no record.
    type_offsets: Vec<u32>,
    /// Offset in `bytes` of the string section.
    strings_offset: usize,
    /// Length of the string section in bytes.
    strings_len: usize,
}

impl KernelTypes {
    /// Reads the types of the running kernel; needs no rights.
    pub fn from_kernel() -> Result<Self, BtfError> {
        let bytes = fs::read(KERNEL_BTF_PATH)
            .map_err(|source| BtfError::Unreadable { path: KERNEL_BTF_PATH.into(), source })?;
        Self::from_bytes(bytes)
    }

    /// Parses raw BTF in this machine's byte order.
    pub fn parse(bytes: &[u8]) -> Result<Self, BtfError> {
        Self::from_bytes(bytes.to_vec())
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let layout = parse::layout(&bytes)?;
        let type_offsets = parse::index(&bytes, layout.types)?;
        Ok(Self {
            bytes,
            type_offsets,
            strings_offset: layout.strings.start,
            strings_len: layout.strings.len(),
        })
    }

    /// Number of types, `void` not counted.
    pub fn len(&self) -> usize {
        self.type_offsets.len()
    }

    /// Whether there is no type at all.
    pub fn is_empty(&self) -> bool {
        self.type_offsets.is_empty()
    }

    /// Offset in bytes of `member` from the start of `structure` (a struct or a union).
    ///
    /// Members of anonymous structs and unions inside count as members, as they do in C. For a
    /// bit-field it is the offset of the byte that holds its first bit.
    pub fn member_offset_bytes(&self, structure: &str, member: &str) -> Result<u32, BtfError> {
        self.member_bit(structure, member).map(|(byte, _)| byte)
    }

    /// The byte that holds the first bit of `member`, and that bit's number in it, from the lowest.
    pub fn member_bit(&self, structure: &str, member: &str) -> Result<(u32, u8), BtfError> {
        let mut is_known = false;
        // A name may be defined more than once, by files that do not agree; the first that has the
        // member is the answer.
        for (_, definition) in self.types().filter(|(_, r#type)| r#type.kind.is_composite()) {
            if self.name(definition.name_offset) != Some(structure.as_bytes()) {
                continue;
            }
            is_known = true;
            if let Some(offset_bits) = self.member_offset_bits(definition, member) {
                return u32::try_from(offset_bits / 8)
                    .map(|byte| (byte, (offset_bits % 8) as u8))
                    .map_err(|_| BtfError::no_member(structure, member));
            }
        }
        Err(match is_known {
            true => BtfError::no_member(structure, member),
            false => BtfError::no_structure(structure, member),
        })
    }

    /// Type id of the kernel function `name`; `None` when the kernel has none of that name, or has
    /// inlined it. fentry programs attach by it.
    pub fn function_id(&self, name: &str) -> Option<u32> {
        self.id_of(Kind::Func, name)
    }

    /// Type id of the typedef `name`. A `tp_btf` program attaches to tracepoint `x` by that of
    /// `btf_trace_x`.
    pub fn typedef_id(&self, name: &str) -> Option<u32> {
        self.id_of(Kind::Typedef, name)
    }

    /// Type id of the struct `name`, the first of that name, as the kernel finds it.
    pub fn structure_id(&self, name: &str) -> Option<u32> {
        self.id_of(Kind::Struct, name)
    }

    /// Type id of `structure`, and the position of `member` among its members, from 0: what a program
    /// that is to be that member is loaded for. Members of anonymous structs inside do not count.
    pub fn member_position(&self, structure: &str, member: &str) -> Result<(u32, u32), BtfError> {
        let none = || BtfError::no_structure(structure, member);
        let id = self.structure_id(structure).ok_or_else(none)?;
        let definition = self.type_by_id(id).ok_or_else(none)?;
        let mut members = (0..).zip(definition.members(&self.bytes));
        let found =
            members.find(|(_, found)| self.name(found.name_offset) == Some(member.as_bytes()));
        let (position, _) = found.ok_or_else(|| BtfError::no_member(structure, member))?;
        Ok((id, position))
    }

    /// Number of arguments that a tracepoint hands over, its owner's among them; `None` when the
    /// kernel has no such tracepoint.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        self.tracepoint_prototype(name).map(Type::count)
    }

    /// The arguments that a tracepoint hands to raw tracepoint programs, by type; `None` when the
    /// kernel has no such tracepoint, or it is in a module.
    pub fn tracepoint_types(&self, name: &str) -> Option<Vec<Argument>> {
        let prototype = self.tracepoint_prototype(name)?;
        // The first is for the owner of the callback.
        Some(prototype.arguments(&self.bytes).skip(1).map(|id| self.argument(id)).collect())
    }

    fn tracepoint_prototype(&self, name: &str) -> Option<Type> {
        let typedef = self.type_by_id(self.typedef_id(&format!("btf_trace_{name}"))?)?;
        let pointer = self.type_by_id(typedef.size_or_type)?;
        self.type_by_id(pointer.size_or_type).filter(|found| found.kind == Kind::FuncProto)
    }

    fn argument(&self, id: u32) -> Argument {
        let Some(found) = self.plain(id) else { return Argument::Other };
        match found.kind {
            Kind::Integer | Kind::Enumeration => Argument::Integer,
            Kind::Pointer => {
                let target = self.plain(found.size_or_type).filter(|it| it.kind == Kind::Struct);
                let name = target.and_then(|it| self.name(it.name_offset));
                Argument::Pointer(name.map(|it| String::from_utf8_lossy(it).into_owned()))
            }
            _ => Argument::Other,
        }
    }

    /// A type without typedefs and modifiers; `None` for `void`, and for a chain that does not end.
    fn plain(&self, id: u32) -> Option<Type> {
        let mut found = self.type_by_id(id)?;
        for _ in 0..MODIFIERS_MAX {
            if !found.kind.is_modifier() {
                return Some(found);
            }
            found = self.type_by_id(found.size_or_type)?;
        }
        None
    }

    /// Name offset and prototype of function type `id`; `None` when `id` is not that of a function.
    pub(crate) fn function(&self, id: u32) -> Option<(u32, u32)> {
        let found = self.type_by_id(id).filter(|found| found.kind == Kind::Func)?;
        Some((found.name_offset, found.size_or_type))
    }

    /// Type id of the kernel variable `name`; the kernel tells only of its per-CPU variables.
    pub fn variable_id(&self, name: &str) -> Option<u32> {
        self.id_of(Kind::Var, name)
    }

    /// Where the strings lie in the bytes that were parsed.
    pub(crate) fn strings_range(&self) -> std::ops::Range<usize> {
        self.strings_offset..self.strings_offset + self.strings_len
    }

    fn id_of(&self, kind: Kind, name: &str) -> Option<u32> {
        self.types()
            .find(|(_, r#type)| {
                r#type.kind == kind && self.name(r#type.name_offset) == Some(name.as_bytes())
            })
            .map(|(id, _)| id)
    }

    /// Looks through `definition` and the anonymous structs and unions in it. Each type is looked at
    /// once, so that no chain of types, however crafted, costs more than their number.
    fn member_offset_bits(&self, definition: Type, name: &str) -> Option<u64> {
        let mut pending = vec![(definition, 0_u64)];
        let mut seen = HashSet::new();
        while let Some((composite, base_bits)) = pending.pop() {
            for member in composite.members(&self.bytes) {
                let offset_bits = base_bits.checked_add(u64::from(member.offset_bits))?;
                if member.name_offset == 0 {
                    pending.extend(self.anonymous(member, &mut seen).map(|t| (t, offset_bits)));
                } else if self.name(member.name_offset) == Some(name.as_bytes()) {
                    return Some(offset_bits);
                }
            }
        }
        None
    }

    /// The struct or union behind a member without a name, unless it was `seen` before.
    fn anonymous(&self, member: Member, seen: &mut HashSet<u32>) -> Option<Type> {
        let mut id = member.type_id;
        while seen.insert(id) {
            let r#type = self.type_by_id(id)?;
            if r#type.kind.is_composite() {
                return Some(r#type);
            }
            id = r#type.kind.is_modifier().then_some(r#type.size_or_type)?;
        }
        None
    }

    fn types(&self) -> impl Iterator<Item = (u32, Type)> {
        (1_u32..).zip(&self.type_offsets).filter_map(|(id, &offset)| {
            Some((id, Type::read(&self.bytes, usize::try_from(offset).ok()?)?))
        })
    }

    fn type_by_id(&self, id: u32) -> Option<Type> {
        let index = usize::try_from(id.checked_sub(1)?).ok()?;
        Type::read(&self.bytes, usize::try_from(*self.type_offsets.get(index)?).ok()?)
    }

    /// The bytes of a name up to its terminator; `None` when it is outside of the string section.
    fn name(&self, offset: u32) -> Option<&[u8]> {
        let strings = self.bytes.get(self.strings_offset..)?.get(..self.strings_len)?;
        let tail = strings.get(usize::try_from(offset).ok()?..)?;
        tail.split(|&byte| byte == 0).next()
    }
}
