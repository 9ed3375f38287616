//! Finds the target's counterpart of an access path, and its location.

use std::cell::Cell;

use super::{Path, Question, STEPS_MAX, Step, are_alike, essential, member};
use crate::btf::table::{Type, TypeKind, TypeTable};

/// Maximum types and members visited per candidate, against malicious type tables.
const LOOKS_MAX: u32 = 1 << 20;

/// Maximum nesting of functions in parameters of functions.
const FUNCTIONS_MAX: u32 = 32;

/// Types of an object and of a target.
pub(super) struct Matching<'a> {
    pub(super) local: &'a TypeTable,
    pub(super) target: &'a TypeTable,
    looks_left: Cell<u32>,
}

impl<'a> Matching<'a> {
    pub(super) fn new(local: &'a TypeTable, target: &'a TypeTable) -> Self {
        Self { local, target, looks_left: Cell::new(LOOKS_MAX) }
    }

    /// Counterpart of `path` in the target, from type `root`; `None` if there is none.
    pub(super) fn path(
        &self,
        path: &Path<'a>,
        root: u32,
        question: Question,
    ) -> Result<Option<Path<'a>>, String> {
        let mut there = Path { types: self.target, root, steps: Vec::new(), bit_offset: 0 };
        let is_found = if question.is_about_fields() {
            self.fields(path, &mut there)?
        } else if question.is_about_variants() {
            self.variant(path, &mut there)
        } else if question == Question::TYPE_MATCHES {
            self.is_like(path.root, root)?
        } else {
            self.are_compatible(path.root, root, FUNCTIONS_MAX)?
        };
        Ok(is_found.then_some(there))
    }

    pub(super) fn look(&self) -> Result<(), String> {
        let left = self.looks_left.get().checked_sub(1);
        self.looks_left.set(left.ok_or("the types are nested too deeply")?);
        Ok(())
    }

    fn variant(&self, path: &Path<'_>, there: &mut Path<'a>) -> bool {
        let wanted = path.steps.first().and_then(|step| step.name).map(essential);
        let Some(found) = self.target.resolve(there.root) else { return false };
        let values = found.values().into_iter().zip(0_u32..);
        for ((name, _), index) in values {
            let name = self.target.text(name).unwrap_or("");
            if Some(essential(name)) == wanted {
                there.steps.push(Step { type_id: found.id, index, name: Some(name) });
                return true;
            }
        }
        false
    }

    fn fields(&self, path: &Path<'_>, there: &mut Path<'a>) -> Result<bool, String> {
        let mut id = there.root;
        for (number, step) in path.steps.iter().enumerate() {
            let Some(found) = self.target.resolve(id) else { return Ok(false) };
            id = if step.name.is_some() {
                match self.member(step, found, there, 0)? {
                    Some(next) => next,
                    None => return Ok(false),
                }
            } else {
                let mut element = found.id;
                // The first is an index too, but of the root itself.
                if number > 0 {
                    let (TypeKind::ARRAY, &[of, _, len]) = (found.kind, found.tail) else {
                        return Ok(false);
                    };
                    if step.index >= len && !there.ends_in_flexible_array(len) {
                        return Ok(false);
                    }
                    let Some(of) = self.target.resolve(of) else { return Ok(false) };
                    element = of.id;
                }
                there.steps.push(Step { type_id: element, index: step.index, name: None });
                there.advance(step.index, element)?;
                element
            };
        }
        Ok(true)
    }

    /// Follows a member step by name, also into anonymous members. Returns the member's type.
    fn member(
        &self,
        step: &Step<'_>,
        structure: Type<'a>,
        there: &mut Path<'a>,
        depth: usize,
    ) -> Result<Option<u32>, String> {
        if !structure.kind.is_composite() {
            return Ok(None);
        }
        if depth > STEPS_MAX {
            return Err("members without a name are nested too deeply".into());
        }
        for (index, &[name, id, offset]) in (0_u32..).zip(structure.tail.as_chunks().0) {
            self.look()?;
            let bits = u64::from(structure.member_bits(offset).0);
            let name = self.target.text(name).unwrap_or("");
            if name.is_empty() {
                let Some(inner) = self.target.resolve(id) else { continue };
                if let Some(found) = self.member(step, inner, there, depth + 1)? {
                    there.bit_offset += bits;
                    return Ok(Some(found));
                }
            } else if Some(name) == step.name {
                let Some(own) =
                    self.local.get(step.type_id).and_then(|own| member(own, step.index))
                else {
                    return Ok(None);
                };
                if !self.are_fields_compatible(own[1], id)? {
                    return Ok(None);
                }
                there.bit_offset += bits;
                there.steps.push(Step { type_id: structure.id, index, name: Some(name) });
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Whether a member of one type can be read as the other. Structures always, integers and
    /// pointers of any size, enumerations of the same name, arrays by their elements.
    fn are_fields_compatible(&self, mut local: u32, mut target: u32) -> Result<bool, String> {
        loop {
            self.look()?;
            let (Some(own), Some(other)) = (self.local.resolve(local), self.target.resolve(target))
            else {
                return Ok(false);
            };
            if own.kind.is_composite() && other.kind.is_composite() {
                return Ok(true);
            }
            if !are_alike(own.kind, other.kind) {
                return Ok(false);
            }
            return Ok(match own.kind {
                TypeKind::PTR | TypeKind::FLOAT => true,
                TypeKind::FWD | TypeKind::ENUM | TypeKind::ENUM64 => {
                    let names =
                        (essential(self.local.name(own)), essential(self.target.name(other)));
                    names.0.is_empty() || names.1.is_empty() || names.0 == names.1
                }
                TypeKind::INT => are_plain(own, other),
                TypeKind::ARRAY => match (own.tail, other.tail) {
                    (&[own, ..], &[other, ..]) => {
                        (local, target) = (own, other);
                        continue;
                    }
                    _ => false,
                },
                _ => false,
            });
        }
    }

    /// Whether a target type corresponds to the object's type of the same name. Compares pointer
    /// targets, but not members of structures.
    fn are_compatible(
        &self,
        mut local: u32,
        mut target: u32,
        functions: u32,
    ) -> Result<bool, String> {
        loop {
            self.look()?;
            let (own, other) = match (self.local.resolve(local), self.target.resolve(target)) {
                (Some(own), Some(other)) => (own, other),
                // Both are void.
                (own, other) => return Ok(own.is_none() && other.is_none()),
            };
            if !are_alike(own.kind, other.kind) {
                return Ok(false);
            }
            (local, target) = match (own.kind, own.tail, other.tail) {
                (TypeKind::FWD, ..) => return Ok(true),
                (kind, ..) if kind.is_composite() || kind.is_enumeration() => return Ok(true),
                (TypeKind::INT, ..) => return Ok(are_plain(own, other)),
                (TypeKind::PTR, ..) => (own.link, other.link),
                (TypeKind::ARRAY, &[own, ..], &[other, ..]) => (own, other),
                (TypeKind::FUNC_PROTO, ..) if own.vlen == other.vlen => {
                    let left = functions.checked_sub(1).ok_or("functions are nested too deeply")?;
                    for ([_, own], [_, other]) in own.pairs().zip(other.pairs()) {
                        if !self.are_compatible(*own, *other, left)? {
                            return Ok(false);
                        }
                    }
                    (own.link, other.link)
                }
                _ => return Ok(false),
            };
        }
    }
}

/// Integers other than the bit-fields of old compilers.
fn are_plain(a: Type<'_>, b: Type<'_>) -> bool {
    let is_plain = |of: Type<'_>| of.integer().is_some_and(|(_, offset)| offset == 0);
    is_plain(a) && is_plain(b)
}

// Whether a type of the target has everything that the object's type has (`bpf_core_type_matches`).
//
// Stricter than compatibility: compares members and values by name, integers by size and sign.
// Behind pointers, names of structures suffice.

/// Maximum nesting of structures and functions.
const DEPTH_MAX: u32 = 32;

impl Matching<'_> {
    /// Whether target type `target` matches object type `local`.
    pub(super) fn is_like(&self, local: u32, target: u32) -> Result<bool, String> {
        self.like(local, target, false, DEPTH_MAX)
    }

    fn like(
        &self,
        mut local: u32,
        mut target: u32,
        mut is_pointed_to: bool,
        depth: u32,
    ) -> Result<bool, String> {
        let depth = depth.checked_sub(1).ok_or("its types are nested too deeply")?;
        loop {
            self.look()?;
            let (own, other) = match (self.local.resolve(local), self.target.resolve(target)) {
                (Some(own), Some(other)) => (own, other),
                // Both are void.
                (own, other) => return Ok(own.is_none() && other.is_none()),
            };
            if !self.have_same_name(own.name, other.name) {
                return Ok(false);
            }
            (local, target) = match (own.kind, own.tail, other.tail) {
                (TypeKind::FWD | TypeKind::STRUCT | TypeKind::UNION, ..) if is_pointed_to => {
                    return Ok(composite(own).is_some() && composite(own) == composite(other));
                }
                (TypeKind::ENUM | TypeKind::ENUM64, ..) => {
                    return Ok(self.are_values_there(own, other));
                }
                _ if own.kind != other.kind => return Ok(false),
                (TypeKind::FWD, ..) => return Ok(own.is_flagged == other.is_flagged),
                (TypeKind::STRUCT | TypeKind::UNION, ..) => {
                    return self.are_members_there(own, other, depth);
                }
                (TypeKind::INT, ..) => {
                    let sign = |of: Type<'_>| of.integer().map(|(encoding, _)| encoding & 1);
                    return Ok(own.link == other.link && sign(own) == sign(other));
                }
                (TypeKind::PTR, ..) => {
                    is_pointed_to = true;
                    (own.link, other.link)
                }
                (TypeKind::ARRAY, &[own, _, len], &[other, _, other_len]) if len == other_len => {
                    (own, other)
                }
                (TypeKind::FUNC_PROTO, ..) if own.vlen == other.vlen => {
                    for ([_, own], [_, other]) in own.pairs().zip(other.pairs()) {
                        if !self.like(*own, *other, is_pointed_to, depth)? {
                            return Ok(false);
                        }
                    }
                    (own.link, other.link)
                }
                _ => return Ok(false),
            };
        }
    }

    fn have_same_name(&self, own: u32, other: u32) -> bool {
        let name = |table: &TypeTable, offset| table.text(offset).map_or("", essential).to_owned();
        name(self.local, own) == name(self.target, other)
    }

    /// Whether each value has one of the same name in the other type; the numbers may differ.
    fn are_values_there(&self, own: Type<'_>, other: Type<'_>) -> bool {
        let others = other.values();
        other.kind.is_enumeration()
            && own.link == other.link
            && own
                .values()
                .iter()
                .all(|(name, _)| others.iter().any(|(other, _)| self.have_same_name(*name, *other)))
    }

    fn are_members_there(
        &self,
        own: Type<'_>,
        other: Type<'_>,
        depth: u32,
    ) -> Result<bool, String> {
        for [name, id, _] in own.triples() {
            let mut is_there = false;
            for [other_name, other_id, _] in other.triples() {
                self.look()?;
                is_there = self.have_same_name(*name, *other_name)
                    && self.like(*id, *other_id, false, depth)?;
                if is_there {
                    break;
                }
            }
            if !is_there {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Kind of a structure or a union, declared or defined.
fn composite(of: Type<'_>) -> Option<TypeKind> {
    match of.kind {
        TypeKind::FWD if of.is_flagged => Some(TypeKind::UNION),
        TypeKind::FWD => Some(TypeKind::STRUCT),
        kind if kind.is_composite() => Some(kind),
        _ => None,
    }
}
