//! Relocates accesses to kernel structures by name (CO-RE) for a kernel's types.
//!
//! The compiler emits the value for the object's types, and its derivation: from type T, member 1,
//! element 3. Relocation follows the same path by name through the types of the target, and writes
//! the resulting value. The rules are libbpf's (tools/lib/bpf/relo_core.c, Linux 6.12), so that a
//! program is measured as it is run. aya-obj 0.3 supports this too, but not for flexible arrays or
//! types that the target lacks, and rejects the whole object for one access.

mod likeness;
mod matching;
mod patch;
mod path;
mod value;

use std::collections::HashMap;

use super::{extension::Access, functions::Function};
use crate::btf::{
    KernelTypes,
    table::{TypeKind, TypeTable},
};
use crate::code::Insn;
use matching::Matching;
use path::Path;
use value::Outcome;

pub(crate) use patch::UNRESOLVED;

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
            self.outcome(access)
                .and_then(|outcome| patch::patch(&mut insns, index, &outcome))
                .map_err(|reason| {
                    format!(
                        "in {}: access to {} at instruction {index}: {reason}",
                        function.name,
                        self.name_of(access)
                    )
                })?;
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
