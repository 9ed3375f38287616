//! Validates a type table: ids and names refer to something, numbers are in range.

use super::{EXTERN, Type, TypeKind, TypeTable};

/// Checks every type; the error is a reason.
pub(super) fn check(table: &TypeTable) -> Result<(), String> {
    table.all().try_for_each(|found| {
        Checked { table, found }.check().map_err(|reason| format!("type {}: {reason}", found.id))
    })
}

struct Checked<'a> {
    table: &'a TypeTable,
    found: Type<'a>,
}

impl Checked<'_> {
    fn check(&self) -> Result<(), String> {
        let Self { found, .. } = self;
        self.name(found.name)?;
        let named = |&[name, id]: &[u32; 2]| self.name(name).and_then(|()| self.type_id(id));
        match found.kind {
            TypeKind::PTR | TypeKind::DECL_TAG => self.type_id(found.link),
            kind if kind.is_modifier() => self.type_id(found.link),
            TypeKind::VAR => self.type_id(found.link).and_then(|()| self.linkage()),
            TypeKind::FUNC => {
                self.linkage()?;
                self.kind_of(found.link, &[TypeKind::FUNC_PROTO])
            }
            TypeKind::FUNC_PROTO => {
                self.type_id(found.link)?;
                found.pairs().try_for_each(named)
            }
            TypeKind::ARRAY => found.tail.iter().take(2).try_for_each(|&id| self.type_id(id)),
            TypeKind::STRUCT | TypeKind::UNION => {
                found.triples().try_for_each(|&[name, id, _]| named(&[name, id]))
            }
            TypeKind::ENUM => found.pairs().try_for_each(|&[name, _]| self.name(name)),
            TypeKind::ENUM64 => found.triples().try_for_each(|&[name, ..]| self.name(name)),
            TypeKind::DATASEC => found
                .triples()
                .try_for_each(|&[id, ..]| self.kind_of(id, &[TypeKind::VAR, TypeKind::FUNC])),
            _ => Ok(()),
        }
    }

    fn name(&self, offset: u32) -> Result<(), String> {
        // The strings end with a terminator, so that any offset within them is valid.
        match (offset as usize) < self.table.strings.len() {
            true => Ok(()),
            false => Err(format!("its name, at {offset}, is not in the strings")),
        }
    }

    fn type_id(&self, id: u32) -> Result<(), String> {
        match id <= self.table.len() {
            true => Ok(()),
            false => Err(format!("it refers to type {id}, of {}", self.table.len())),
        }
    }

    fn kind_of(&self, id: u32, kinds: &[TypeKind]) -> Result<(), String> {
        match self.table.get(id) {
            Some(other) if kinds.contains(&other.kind) => Ok(()),
            _ => Err(format!("it refers to type {id}, which is of the wrong kind")),
        }
    }

    fn linkage(&self) -> Result<(), String> {
        match self.found.linkage() {
            ..=EXTERN => Ok(()),
            other => Err(format!("its linkage is {other}, which does not exist")),
        }
    }
}
