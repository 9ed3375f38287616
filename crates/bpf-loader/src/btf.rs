//! Reads the offsets of members in the running kernel's structures.
//!
//! A kernel half written in Rust has no field relocations (rustc emits none), so offsets such as
//! `task_struct.tgid` are read here, in user space, and passed as globals. The source is the
//! kernel's own type information, BTF. aya-obj parses BTF too, but does not expose structure
//! members, hence this reader.
//!
//! `table` holds parsed types: the kernel's here, an object's in [`crate::spec`].

pub(crate) mod table;

use std::{collections::HashSet, fs::File, io, path::PathBuf};

use table::{Type, TypeKind, TypeTable};

/// File with the kernel's types (`CONFIG_DEBUG_INFO_BTF`).
pub const KERNEL_BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Why the kernel's types could not be read, or lack the requested type.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    #[error(
        "cannot read the kernel's types from {path}; a kernel built with CONFIG_DEBUG_INFO_BTF=y has them"
    )]
    Unreadable { path: PathBuf, source: io::Error },
    /// The types are inconsistent, or of an unknown kind.
    #[error("the types are damaged: {reason}")]
    Damaged { reason: String },
    #[error("this kernel has no struct or union `{structure}` (looked for its member `{member}`)")]
    NoStructure { structure: String, member: String },
    #[error("`{structure}` of this kernel has no member `{member}`")]
    NoMember { structure: String, member: String },
}

impl BtfError {
    fn no_structure(structure: &str, member: &str) -> Self {
        Self::NoStructure { structure: structure.to_owned(), member: member.to_owned() }
    }

    fn no_member(structure: &str, member: &str) -> Self {
        Self::NoMember { structure: structure.to_owned(), member: member.to_owned() }
    }
}

/// Type of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    Integer,
    /// An address; for a struct, with its name.
    Pointer(Option<String>),
    Other,
}

/// Types of one kernel, or of a loaded program.
#[derive(Debug, Clone)]
pub struct KernelTypes(pub(crate) TypeTable);

impl KernelTypes {
    /// Reads the types of the running kernel. Needs no privileges, takes some hundredths of a second.
    pub fn from_kernel() -> Result<Self, BtfError> {
        let mut file = File::open(KERNEL_BTF_PATH)
            .map_err(|source| BtfError::Unreadable { path: KERNEL_BTF_PATH.into(), source })?;
        TypeTable::read(&mut file).map(Self).map_err(|reason| BtfError::Damaged { reason })
    }

    /// Parses raw BTF in native byte order. Safe for any input.
    pub fn parse(bytes: &[u8]) -> Result<Self, BtfError> {
        TypeTable::parse(bytes).map(Self).map_err(|reason| BtfError::Damaged { reason })
    }

    /// Number of types, excluding `void`.
    pub fn len(&self) -> usize {
        self.0.len() as usize
    }

    /// Whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Offset in bytes of `member` from the start of `structure` (a struct or a union).
    ///
    /// Members of nested anonymous structs and unions count as members, as in C. For a bit-field
    /// returns the offset of the byte with its first bit.
    pub fn member_offset_bytes(&self, structure: &str, member: &str) -> Result<u32, BtfError> {
        self.member_bit(structure, member).map(|(byte, _)| byte)
    }

    /// Byte with the first bit of `member`, and that bit's number in it, from the lowest.
    pub fn member_bit(&self, structure: &str, member: &str) -> Result<(u32, u8), BtfError> {
        let (offset_bits, _) = self.member(structure, member)?;
        u32::try_from(offset_bits / 8)
            .map(|byte| (byte, (offset_bits % 8) as u8))
            .map_err(|_| BtfError::no_member(structure, member))
    }

    /// Size of `member` in bytes, which depends on the kernel, like its offset.
    pub fn member_size_bytes(&self, structure: &str, member: &str) -> Result<u32, BtfError> {
        let (_, id) = self.member(structure, member)?;
        self.0.size(id).ok_or_else(|| BtfError::no_member(structure, member))
    }

    /// Offset of `member` in bits, and its type.
    fn member(&self, structure: &str, member: &str) -> Result<(u64, u32), BtfError> {
        let mut is_known = false;
        // Files may define a name differently; the first definition with the member wins.
        let named = |found: &Type<'_>| found.kind.is_composite() && self.is_named(found, structure);
        for definition in self.0.all().filter(named) {
            is_known = true;
            if let Some(found) = self.member_in(definition, member) {
                return Ok(found);
            }
        }
        Err(match is_known {
            true => BtfError::no_member(structure, member),
            false => BtfError::no_structure(structure, member),
        })
    }

    /// Type id of the kernel function `name`, to which fentry programs attach; `None` if it does
    /// not exist or is inlined.
    pub fn function_id(&self, name: &str) -> Option<u32> {
        self.id_of(TypeKind::FUNC, name)
    }

    /// Type id of the typedef `name`. A `tp_btf` program attaches to tracepoint `x` by that of `btf_trace_x`.
    pub fn typedef_id(&self, name: &str) -> Option<u32> {
        self.id_of(TypeKind::TYPEDEF, name)
    }

    /// Type id of the first struct called `name`, as in the kernel's lookup.
    pub fn structure_id(&self, name: &str) -> Option<u32> {
        self.id_of(TypeKind::STRUCT, name)
    }

    /// Type id of `structure`, and the index of `member` among its members, from 0: the attach
    /// target of a program that implements that member. Members of nested anonymous structs do not
    /// count.
    pub fn member_position(&self, structure: &str, member: &str) -> Result<(u32, u32), BtfError> {
        let none = || BtfError::no_structure(structure, member);
        let definition = self.0.find(TypeKind::STRUCT, structure).ok_or_else(none)?;
        let mut members = (0..).zip(definition.triples());
        let found = members.find(|(_, [name, ..])| self.0.is_text(*name, member));
        let (position, _) = found.ok_or_else(|| BtfError::no_member(structure, member))?;
        Ok((definition.id, position))
    }

    /// Number of arguments of a tracepoint, including its owner's; `None` if the kernel has no such tracepoint.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        self.tracepoint_prototype(name).map(|prototype| prototype.vlen as usize)
    }

    /// Arguments of a raw tracepoint, by type; `None` if the kernel has no such tracepoint, or it is in a module.
    pub fn tracepoint_types(&self, name: &str) -> Option<Vec<Argument>> {
        let prototype = self.tracepoint_prototype(name)?;
        // The first belongs to the owner of the callback.
        Some(prototype.pairs().skip(1).map(|&[_, id]| self.argument(id)).collect())
    }

    fn tracepoint_prototype(&self, name: &str) -> Option<Type<'_>> {
        let typedef = self.0.find(TypeKind::TYPEDEF, &format!("btf_trace_{name}"))?;
        let pointer = self.0.get(typedef.link)?;
        self.0.get(pointer.link).filter(|found| found.kind == TypeKind::FUNC_PROTO)
    }

    fn argument(&self, id: u32) -> Argument {
        let Some(found) = self.0.resolve(id) else { return Argument::Other };
        match found.kind {
            TypeKind::INT | TypeKind::ENUM => Argument::Integer,
            TypeKind::PTR => {
                let target = self.0.resolve(found.link).filter(|it| it.kind == TypeKind::STRUCT);
                Argument::Pointer(target.map(|it| self.0.name(it).to_owned()))
            }
            _ => Argument::Other,
        }
    }

    /// Name of function type `id`; `None` if `id` is not a function.
    pub(crate) fn function_name(&self, id: u32) -> Option<&str> {
        self.0.get(id).filter(|found| found.kind == TypeKind::FUNC).map(|found| self.0.name(found))
    }

    /// Type id of the kernel variable `name`; BTF has only per-CPU variables.
    pub fn variable_id(&self, name: &str) -> Option<u32> {
        self.id_of(TypeKind::VAR, name)
    }

    fn id_of(&self, kind: TypeKind, name: &str) -> Option<u32> {
        self.0.find(kind, name).map(|found| found.id)
    }

    fn is_named(&self, found: &Type<'_>, name: &str) -> bool {
        self.0.is_text(found.name, name)
    }

    /// Searches `definition` and nested anonymous structs and unions. Visits each type once, so
    /// that the cost of any type graph, however crafted, is bounded by the number of types.
    fn member_in(&self, definition: Type<'_>, name: &str) -> Option<(u64, u32)> {
        let mut pending = vec![(definition, 0_u64)];
        let mut seen = HashSet::new();
        while let Some((composite, base_bits)) = pending.pop() {
            for &[member, id, offset] in composite.triples() {
                let (offset_bits, _) = composite.member_bits(offset);
                let offset_bits = base_bits.checked_add(u64::from(offset_bits))?;
                if member == 0 {
                    let inner = self.0.resolve(id).filter(|it| it.kind.is_composite());
                    let inner = inner.filter(|it| seen.insert(it.id));
                    pending.extend(inner.map(|it| (it, offset_bits)));
                } else if self.0.is_text(member, name) {
                    return Some((offset_bits, id));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::{table::FLAG, *};

    /// Types in order of their ids, from 1. Members are name, type and raw offset.
    fn sample() -> Vec<u8> {
        use TypeKind as Kind;
        type Members<'a> = &'a [(&'a str, u32, u32)];
        let types: [(TypeKind, &str, u32, u32, Members<'_>); 15] = [
            (Kind::INT, "int", 0, 4, &[]),
            (Kind::STRUCT, "", 0, 64, &[("deep", 1, 32)]),
            (Kind::UNION, "", 0, 64, &[("alias", 1, 0), ("", 2, 0)]),
            (Kind::TYPEDEF, "wrapped_t", 0, 3, &[]),
            (Kind::CONST, "", 0, 4, &[]),
            (Kind::STRUCT, "task", 0, 64, &[("pid", 1, 0), ("", 5, 64), ("tail", 1, 256)]),
            (
                Kind::STRUCT,
                "bits",
                FLAG,
                64,
                &[("a", 1, 3 << 24), ("b", 1, 5 << 24 | 19), ("c", 1, 64)],
            ),
            (Kind::STRUCT, "", 0, 64, &[("", 8, 8), ("", 6, 0)]),
            (Kind::STRUCT, "looped", 0, 64, &[("", 8, 0)]),
            (Kind::STRUCT, "task", 0, 64, &[("second", 1, 96)]),
            (Kind::FUNC_PROTO, "", 0, 1, &[]),
            (Kind::FUNC, "a_function", 0, 11, &[]),
            (Kind::TYPEDEF, "btf_trace_x", 0, 1, &[]),
            (Kind::INT, "char", 0, 1, &[]),
            (Kind::STRUCT, "sized", 0, 72, &[("one", 14, 0), ("whole", 5, 32), ("none", 12, 0)]),
        ];
        let mut table = TypeTable::empty();
        for (kind, name, flag, link, members) in types {
            let mut text = |text: &str| if text.is_empty() { 0 } else { table.add_text(text) };
            let name = text(name);
            let tail = members.iter().flat_map(|&(member, id, offset)| [text(member), id, offset]);
            let tail: Vec<u32> = tail.chain((kind == Kind::INT).then_some(32)).collect();
            table.add(kind, name, flag | members.len() as u32, link, &tail);
        }
        table.to_bytes()
    }

    #[test]
    fn finds_members_where_c_would() {
        fn check(structure: &str, member: &str, expected: Result<u32, &str>) {
            let types = KernelTypes::parse(&sample()).unwrap();
            let found = types.member_offset_bytes(structure, member).map_err(|e| e.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{structure}.{member}");
        }
        check("task", "pid", Ok(0));
        check("task", "alias", Ok(8));
        check("task", "deep", Ok(12));
        check("task", "tail", Ok(32));
        check("task", "second", Ok(12));
        check("bits", "b", Ok(2));
        check("bits", "c", Ok(8));
        check("looped", "tail", Ok(32));
        check("looped", "none", Err("`looped` of this kernel has no member `none`"));
        check("task", "", Err("`task` of this kernel has no member ``"));
        check(
            "a_function",
            "x",
            Err("this kernel has no struct or union `a_function` (looked for its member `x`)"),
        );
    }

    #[test]
    fn members_have_the_sizes_of_their_types() {
        let types = KernelTypes::parse(&sample()).unwrap();
        let check = |member: &str, expected: Option<u32>| {
            assert_eq!(types.member_size_bytes("sized", member).ok(), expected, "{member}");
        };
        check("one", Some(1));
        // Through a const typedef.
        check("whole", Some(64));
        check("none", None);
        check("unknown", None);
    }

    #[test]
    fn finds_ids() {
        let types = KernelTypes::parse(&sample()).unwrap();
        assert_eq!(types.len(), 15);
        assert_eq!(types.function_id("a_function"), Some(12));
        assert_eq!(types.function_name(12), Some("a_function"));
        assert_eq!(types.function_id("btf_trace_x"), None);
        assert_eq!(types.typedef_id("btf_trace_x"), Some(13));
    }

    #[test]
    fn reads_the_running_kernel() {
        let start = Instant::now();
        let types = KernelTypes::from_kernel().unwrap();
        let offset = |structure, member| types.member_offset_bytes(structure, member).unwrap();
        let (pid, tgid) = (offset("task_struct", "pid"), offset("task_struct", "tgid"));
        // Declared one after the other, both `pid_t` (include/linux/sched.h).
        assert_eq!(tgid, pid + 4);
        assert_eq!(offset("task_struct", "flags") % 4, 0);
        assert_eq!(offset("task_struct", "signal") % 8, 0);
        assert_eq!(offset("signal_struct", "live") % 4, 0);
        assert_eq!(offset("list_head", "prev"), 8);
        // Inside of an anonymous union of an anonymous struct.
        assert!(offset("page", "mapping") > 0);
        assert!(types.function_id("schedule").is_some());
        assert!(types.typedef_id("btf_trace_sched_switch").is_some());
        // A release build takes about 15 ms; the limit is for a debug build on a busy machine.
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(KernelTypes::parse(&bytes));
        }

        #[test]
        fn any_damage_is_safe(hits in proptest::collection::vec((0_usize..512, any::<u8>()), 1..6)) {
            let mut bytes = sample();
            for (place, value) in hits {
                // Keep the magic number, or the rest would not be parsed.
                let place = 2 + place % (bytes.len() - 2);
                bytes[place] = value;
            }
            if let Ok(types) = KernelTypes::parse(&bytes) {
                drop(types.member_offset_bytes("looped", "none"));
                drop(types.member_offset_bytes("task", "deep"));
                types.function_id("a_function");
            }
        }
    }
}
