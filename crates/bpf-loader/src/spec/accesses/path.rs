//! Access path: a type, then members and elements.

use super::{super::extension::Access, Question};
use crate::btf::table::{Type, TypeKind, TypeTable};

/// Maximum number of steps.
pub(super) const STEPS_MAX: usize = 64;

/// A path through the types of an object or of a target.
#[derive(Debug, Clone)]
pub(super) struct Path<'a> {
    pub(super) types: &'a TypeTable,
    pub(super) root: u32,
    /// Steps by name or index; anonymous members are skipped.
    pub(super) steps: Vec<Step<'a>>,
    /// Offset from the beginning of the root, in bits.
    pub(super) bit_offset: u64,
}

/// One step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'a> {
    /// The structure or enumeration that contains the member, or the type of the element.
    pub(super) type_id: u32,
    /// Number of the member, or index of the element.
    pub(super) index: u32,
    /// Name of the member; `None` for an element.
    pub(super) name: Option<&'a str>,
}

impl<'a> Path<'a> {
    /// Parses the path of an access, through the types of its object.
    pub(super) fn read(
        types: &'a TypeTable,
        access: &Access,
        question: Question,
    ) -> Result<Self, String> {
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
    pub(super) fn ends_in_flexible_array(&self, len: u32) -> bool {
        let Some(Step { type_id, index, name: Some(_) }) = self.steps.last() else { return false };
        let structure = self.types.get(*type_id);
        len == 0 && structure.is_some_and(|structure| index.saturating_add(1) == structure.vlen)
    }

    /// Advances by `index` elements of a type.
    pub(super) fn advance(&mut self, index: u32, type_id: u32) -> Result<(), String> {
        if index > 0 {
            let size = self.types.size(type_id).ok_or("an element has no size")?;
            self.bit_offset += u64::from(index) * u64::from(size) * 8;
        }
        Ok(())
    }
}

/// Name, type and offset of a member.
pub(super) fn member<'a>(structure: Type<'a>, index: u32) -> Option<&'a [u32; 3]> {
    structure.tail.as_chunks().0.get(usize::try_from(index).ok()?)
}
