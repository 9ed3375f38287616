//! Relocates accesses to kernel structures by name (CO-RE) for a kernel's types.
//!
//! The compiler emits the value for the object's types, and its derivation: from type T, member 1,
//! element 3. Relocation follows the same path by name through the types of the target, and writes
//! the resulting value. The rules are libbpf's (tools/lib/bpf/relo_core.c, Linux 6.12), so that a
//! program is measured as it is run. aya-obj 0.3 supports this too, but not for flexible arrays or
//! types that the target lacks, and rejects the whole object for one access.

mod matching;
mod value;

use std::collections::HashMap;

use super::{btf_ext::Access, functions::Function};
use crate::{
    btf::{
        KernelTypes,
        table::{Type, TypeKind, TypeTable},
    },
    code::{Insn, op},
};
use matching::Matching;
use value::{Outcome, Resized};

/// Kind of an access relocation (`enum bpf_core_relo_kind`, include/uapi/linux/bpf.h, Linux 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question(u32);

impl Question {
    const FIELD_OFFSET: Self = Self(0);
    const FIELD_SIZE: Self = Self(1);
    const FIELD_EXISTS: Self = Self(2);
    const FIELD_SIGNED: Self = Self(3);
    const SHIFT_LEFT: Self = Self(4);
    const SHIFT_RIGHT: Self = Self(5);
    const LOCAL_ID: Self = Self(6);
    const TARGET_ID: Self = Self(7);
    const TYPE_EXISTS: Self = Self(8);
    const TYPE_SIZE: Self = Self(9);
    const VARIANT_EXISTS: Self = Self(10);
    const VARIANT_VALUE: Self = Self(11);
    const TYPE_MATCHES: Self = Self(12);

    fn is_about_fields(self) -> bool {
        self.0 <= Self::SHIFT_RIGHT.0
    }

    fn is_about_variants(self) -> bool {
        matches!(self, Self::VARIANT_EXISTS | Self::VARIANT_VALUE)
    }
}

/// Relocates the accesses of functions for the types of a target.
pub(super) struct Fitter<'a> {
    types: &'a TypeTable,
    target: &'a TypeTable,
    /// By type id of the object: target types that may correspond to it.
    candidates: HashMap<u32, Vec<u32>>,
}

impl<'a> Fitter<'a> {
    pub(super) fn new(types: &'a TypeTable, target: &'a KernelTypes) -> Self {
        Self { types, target: &target.0, candidates: HashMap::new() }
    }

    /// Relocated instructions of `function`. The error is a reason.
    pub(super) fn fit(&mut self, function: &Function) -> Result<Vec<Insn>, String> {
        let mut insns = function.insns.clone();
        for access in &function.accesses {
            let index = usize::try_from(access.offset / 8).unwrap_or(usize::MAX);
            self.outcome(access).and_then(|outcome| patch(&mut insns, index, &outcome)).map_err(
                |reason| {
                    format!(
                        "in {}: access to {} at instruction {index}: {reason}",
                        function.name,
                        self.name_of(access)
                    )
                },
            )?;
        }
        Ok(insns)
    }

    fn outcome(&mut self, access: &Access) -> Result<Outcome, String> {
        // The kind was validated when parsed.
        let question = Question(access.kind);
        let path = Path::read(self.types, access, question)?;
        if question == Question::LOCAL_ID {
            return Ok(Outcome::id(access.type_id));
        }
        let mut found: Option<(Path<'_>, Outcome)> = None;
        for candidate in self.candidates(access.type_id)? {
            let matching = Matching::new(self.types, self.target);
            let Some(there) = matching.path(&path, candidate, question)? else { continue };
            let outcome = Outcome::new(question, &path, Some(&there))?;
            match &found {
                Some((first, decided))
                    if first.bit_offset != there.bit_offset || decided.new != outcome.new =>
                {
                    return Err("the target has several such types, which differ in it".into());
                }
                Some(_) => {}
                None => found = Some((there, outcome)),
            }
        }
        match found {
            Some((_, outcome)) => Ok(outcome),
            None => Outcome::new(question, &path, None),
        }
    }

    /// Target types with the same name and kind.
    fn candidates(&mut self, id: u32) -> Result<Vec<u32>, String> {
        if let Some(known) = self.candidates.get(&id) {
            return Ok(known.clone());
        }
        let local = self.types.get(id).ok_or("its type does not exist")?;
        let name = essential(self.types.name(local));
        if name.is_empty() {
            return Err("its type has no name".into());
        }
        let found: Vec<u32> = self
            .target
            .all()
            .filter(|found| are_alike(found.kind, local.kind))
            .filter(|found| {
                let begins = self.target.text_begins(found.name, name);
                begins && essential(self.target.name(*found)) == name
            })
            .map(|found| found.id)
            .collect();
        self.candidates.insert(id, found.clone());
        Ok(found)
    }

    fn name_of(&self, access: &Access) -> String {
        let name = self.types.get(access.type_id).map_or("", |found| self.types.name(found));
        format!("{name} {}", self.types.text(access.path).unwrap_or(""))
    }
}

/// A name without its flavour: the suffix after three underscores distinguishes variants of a type.
fn essential(name: &str) -> &str {
    // The last separator of exactly three underscores.
    let is_separator =
        |part: &[u8]| matches!(part, [a, b'_', b'_', b'_', b] if *a != b'_' && *b != b'_');
    match name.as_bytes().windows(5).rposition(is_separator) {
        Some(at) => name.get(..=at).unwrap_or(name),
        None => name,
    }
}

/// Whether types of these kinds may correspond. Enumerations do, of any width.
fn are_alike(a: TypeKind, b: TypeKind) -> bool {
    a == b || a.is_enumeration() && b.is_enumeration()
}

/// Maximum number of steps.
const STEPS_MAX: usize = 64;

/// A path through the types of an object or of a target.
#[derive(Debug, Clone)]
struct Path<'a> {
    types: &'a TypeTable,
    root: u32,
    /// Steps by name or index; anonymous members are skipped.
    steps: Vec<Step<'a>>,
    /// Offset from the beginning of the root, in bits.
    bit_offset: u64,
}

/// One step.
#[derive(Debug, Clone, Copy)]
struct Step<'a> {
    /// The structure or enumeration that contains the member, or the type of the element.
    type_id: u32,
    /// Number of the member, or index of the element.
    index: u32,
    /// Name of the member; `None` for an element.
    name: Option<&'a str>,
}

impl<'a> Path<'a> {
    /// Parses the path of an access, through the types of its object.
    fn read(types: &'a TypeTable, access: &Access, question: Question) -> Result<Self, String> {
        // It was validated to be numbers separated by colons.
        let parts = types.text(access.path).unwrap_or("").split(':').map(str::parse::<u32>);
        let parts = parts.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let mut path = Self { types, root: access.type_id, steps: Vec::new(), bit_offset: 0 };
        let Some((&first, rest)) = parts.split_first() else { return Err("it has no path".into()) };
        if question.is_about_fields() {
            path.read_fields(first, rest)?;
        } else if question.is_about_variants() {
            path.read_variant(first, rest)?;
        } else if first != 0 || !rest.is_empty() {
            return Err("it names a member where only a type is allowed".into());
        }
        Ok(path)
    }

    fn read_variant(&mut self, index: u32, rest: &[u32]) -> Result<(), String> {
        let found = self.types.resolve(self.root).filter(|found| found.kind.is_enumeration());
        let found = found.filter(|_| rest.is_empty()).ok_or("it is not that of an enumeration")?;
        let values = found.values();
        let (name, _) = values.get(index as usize).ok_or("there is no such value")?;
        let name = self.types.text(*name).ok_or("the value has no name")?;
        self.steps.push(Step { type_id: found.id, index, name: Some(name) });
        Ok(())
    }

    fn read_fields(&mut self, first: u32, rest: &[u32]) -> Result<(), String> {
        let root = self.types.resolve(self.root).ok_or("its type is void")?;
        self.steps.push(Step { type_id: root.id, index: first, name: None });
        self.advance(first, root.id)?;
        let mut id = root.id;
        for &index in rest {
            let found = self.types.resolve(id).ok_or("its path ends in void")?;
            id = match found.kind {
                kind if kind.is_composite() => self.read_member(found, index)?,
                TypeKind::ARRAY => self.read_element(found, index)?,
                _ => return Err("its path leads into a type without members".into()),
            };
        }
        Ok(())
    }

    fn read_member(&mut self, structure: Type<'a>, index: u32) -> Result<u32, String> {
        let &[name, id, offset] = member(structure, index).ok_or("there is no such member")?;
        self.bit_offset += u64::from(structure.member_bits(offset).0);
        if name != 0 {
            let name = self.types.text(name).ok_or("the member's name is not text")?;
            self.steps.push(Step { type_id: structure.id, index, name: Some(name) });
        }
        Ok(id)
    }

    fn read_element(&mut self, array: Type<'_>, index: u32) -> Result<u32, String> {
        let &[element, _, len] = array.tail else { return Err("an array has no elements".into()) };
        if index >= len && !self.ends_in_flexible_array(len) {
            return Err(format!("element {index} of an array of {len}"));
        }
        let element = self.types.resolve(element).ok_or("an array is of void")?.id;
        self.steps.push(Step { type_id: element, index, name: None });
        self.advance(index, element)?;
        Ok(element)
    }

    /// Whether the array of `len` elements at the end of the path is a flexible array: the last
    /// member of a structure, with length zero.
    fn ends_in_flexible_array(&self, len: u32) -> bool {
        let Some(Step { type_id, index, name: Some(_) }) = self.steps.last() else { return false };
        let structure = self.types.get(*type_id);
        len == 0 && structure.is_some_and(|structure| index.saturating_add(1) == structure.vlen)
    }

    /// Advances by `index` elements of a type.
    fn advance(&mut self, index: u32, type_id: u32) -> Result<(), String> {
        if index > 0 {
            let size = self.types.size(type_id).ok_or("an element has no size")?;
            self.bit_offset += u64::from(index) * u64::from(size) * 8;
        }
        Ok(())
    }
}

/// Name, type and offset of a member.
fn member<'a>(structure: Type<'a>, index: u32) -> Option<&'a [u32; 3]> {
    structure.tail.as_chunks().0.get(usize::try_from(index).ok()?)
}

/// Number of a nonexistent helper ("bad relo"), which marks accesses that the target lacks, as in
/// libbpf: the verifier rejects it if it is reachable.
pub(crate) const UNRESOLVED: i32 = 0x0bad_2310;

/// Changes the instruction at `index`.
fn patch(insns: &mut [Insn], index: usize, outcome: &Outcome) -> Result<(), String> {
    let Some([insn, rest @ ..]) = insns.get_mut(index..) else {
        return Err("it is outside of the function".into());
    };
    match insn.class() {
        op::ALU | op::ALU64 if insn.opcode & op::X == 0 => {
            let held = i64::from(insn.immediate).cast_unsigned();
            expect(outcome, |old| old == held)?;
            match outcome.new {
                Some(new) => insn.immediate = low(new),
                None => *insn = unresolved(),
            }
        }
        op::LDX | op::ST | op::STX => {
            let held = i64::from(insn.offset).cast_unsigned();
            expect(outcome, |old| old == held)?;
            match (outcome.new, &outcome.resized) {
                (Some(new), None) => insn.offset = offset(new)?,
                (Some(new), Some(resized)) if resized.is_safe => {
                    (insn.opcode, insn.offset) = (resize(insn.opcode, resized)?, offset(new)?);
                }
                // It would read something other than the program expects.
                _ => *insn = unresolved(),
            }
        }
        op::LD if insn.is_ldimm64() => {
            let [next, ..] = rest else { return Err("it ends within an instruction".into()) };
            let held = u64::from(next.immediate.cast_unsigned()) << 32
                | u64::from(insn.immediate.cast_unsigned());
            expect(outcome, |old| old == held)?;
            match outcome.new {
                Some(new) => (insn.immediate, next.immediate) = (low(new), low(new >> 32)),
                None => (*insn, *next) = (unresolved(), unresolved()),
            }
        }
        _ => return Err("the instruction is not of a kind that can be relocated".into()),
    }
    Ok(())
}

/// Checks that the instruction contains the compiler's value for the object's types.
fn expect(outcome: &Outcome, is_held: impl Fn(u64) -> bool) -> Result<(), String> {
    match (outcome.new, outcome.old) {
        (Some(_), Some(old)) if !is_held(old) => {
            Err(format!("the instruction does not hold {old}, the value by the object's types"))
        }
        _ => Ok(()),
    }
}

fn low(value: u64) -> i32 {
    (value as u32).cast_signed()
}

fn offset(value: u64) -> Result<i16, String> {
    i16::try_from(value)
        .map_err(|_| format!("its offset, {value}, does not fit into an instruction"))
}

fn unresolved() -> Insn {
    Insn::new(op::CALL, 0, 0, 0, UNRESOLVED)
}

/// Changes the size of a load or store.
fn resize(opcode: u8, resized: &Resized) -> Result<u8, String> {
    let size = |bytes: u32| match bytes {
        8 => Ok(op::DW),
        4 => Ok(op::W),
        2 => Ok(op::H),
        1 => Ok(op::B),
        other => Err(format!("no instruction loads {other} bytes")),
    };
    if opcode & op::SIZE != size(resized.old)? {
        return Err(format!(
            "the instruction does not take the {} bytes of the field",
            resized.old
        ));
    }
    Ok(opcode & !op::SIZE | size(resized.new)?)
}
