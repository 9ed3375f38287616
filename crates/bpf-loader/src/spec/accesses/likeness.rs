//! Whether a type of the target has everything that the object's type has (`bpf_core_type_matches`).
//!
//! Stricter than compatibility: compares members and values by name, integers by size and sign.
//! Behind pointers, names of structures suffice.

use super::{essential, matching::Matching};
use crate::btf::table::{Type, TypeKind, TypeTable};

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
