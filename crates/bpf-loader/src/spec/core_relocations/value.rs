//! Computes the value of an access relocation, for the object and for the target.

use super::{Path, Question, Step, member};
use crate::btf::table::{SIGNED, Type, TypeKind};

/// New value of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Current value; `None` if compilers and linkers may have written something else.
    pub(super) old: Option<u64>,
    /// Value for the target; `None` if the target lacks the access.
    pub(super) new: Option<u64>,
    /// Sizes of the field in the object and in the target, if different.
    pub(super) resized: Option<Resized>,
}

/// A field with another size in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resized {
    pub(super) old: u32,
    pub(super) new: u32,
    /// Whether a load of the other size gives the same value: pointers and unsigned integers, which are zero-extended.
    pub(super) is_safe: bool,
}

impl Outcome {
    /// The id of a type of the object itself.
    pub(super) fn id(id: u32) -> Self {
        Self { old: None, new: Some(id.into()), resized: None }
    }

    /// Value for the object's path and its counterpart in the target, if there is one.
    pub(super) fn new(
        question: Question,
        here: &Path<'_>,
        there: Option<&Path<'_>>,
    ) -> Result<Self, String> {
        let plain = |old, new| Ok(Self { old: Some(old), new: Some(new), resized: None });
        let exists = u64::from(there.is_some());
        match question {
            Question::FIELD_EXISTS
            | Question::VARIANT_EXISTS
            | Question::TYPE_EXISTS
            | Question::TYPE_MATCHES => plain(1, exists),
            // A missing type has size 0, and no id.
            Question::TYPE_SIZE => plain(size(here)?, there.map_or(Ok(0), size)?),
            Question::TARGET_ID | Question::LOCAL_ID => {
                Ok(Self { old: None, ..Self::id(there.map_or(0, |there| there.root)) })
            }
            Question::VARIANT_VALUE => {
                // Compilers differ in how they extend 32-bit values.
                let new = there.map(variant).transpose()?;
                Ok(Self { old: None, new, resized: None })
            }
            _ => Self::field(question, here, there),
        }
    }

    fn field(
        question: Question,
        here: &Path<'_>,
        there: Option<&Path<'_>>,
    ) -> Result<Self, String> {
        let old = Field::of(here)?;
        let new = there.map(Field::of).transpose()?;
        let resized = new.as_ref().filter(|_| question == Question::FIELD_OFFSET).and_then(|new| {
            let sizes = (old.loaded_bytes?, new.loaded_bytes?);
            (sizes.0 != sizes.1).then(|| Resized {
                old: sizes.0,
                new: sizes.1,
                is_safe: old.is_zero_extended && new.is_zero_extended && old.kind == new.kind,
            })
        });
        let is_certain =
            !old.is_bit_field || matches!(question, Question::FIELD_SIGNED | Question::SHIFT_RIGHT);
        let answer = old.answer(question)?;
        Ok(Self {
            old: is_certain.then_some(answer),
            new: new.map(|new| new.answer(question)).transpose()?,
            resized,
        })
    }
}

/// The field at the end of a path.
struct Field {
    kind: Option<TypeKind>,
    /// Offset of the bytes to load, and of the bits of the field.
    byte_offset: u64,
    bit_offset: u64,
    /// Bytes to load, and bits of the field.
    byte_size: u32,
    bit_size: u64,
    is_bit_field: bool,
    is_signed: bool,
    is_zero_extended: bool,
    /// Whether it is an array element, which only has a location and a size.
    is_element: bool,
    loaded_bytes: Option<u32>,
}

impl Field {
    fn of(path: &Path<'_>) -> Result<Self, String> {
        let step = path.steps.last().ok_or("it has no path")?;
        let (id, width) = match step.name {
            None => (step.type_id, 0),
            Some(_) => {
                let structure = path.types.get(step.type_id);
                structure
                    .and_then(|found| member(found, step.index).map(|member| (found, member)))
                    .map(|(found, &[_, id, offset])| (id, found.member_bits(offset).1))
                    .ok_or("there is no such member")?
            }
        };
        let found = path.types.resolve(id);
        let size = path.types.size(id).ok_or("the member has no size")?;
        let bits = path.bit_offset;
        let mut field = Self {
            kind: found.map(|found| found.kind),
            byte_offset: bits / 8,
            bit_offset: bits,
            byte_size: size,
            bit_size: u64::from(size) * 8,
            is_bit_field: width > 0,
            is_signed: found.is_some_and(is_signed),
            is_zero_extended: found.is_some_and(is_zero_extended),
            is_element: step.name.is_none(),
            loaded_bytes: (width == 0).then_some(size),
        };
        if width > 0 {
            field.bit_size = width.into();
            field.widen()?;
        }
        Ok(field)
    }

    /// The smallest aligned integer that contains all bits of a bit-field.
    fn widen(&mut self) -> Result<(), String> {
        let mut size = u64::from(self.byte_size).max(1);
        while size <= 8 {
            let offset = self.bit_offset / 8 / size * size;
            if self.bit_offset + self.bit_size <= (offset + size) * 8 {
                (self.byte_offset, self.byte_size) = (offset, size as u32);
                return Ok(());
            }
            size *= 2;
        }
        Err("no single load covers the whole bit-field".into())
    }

    fn answer(&self, question: Question) -> Result<u64, String> {
        let end = || self.bit_offset + self.bit_size - self.byte_offset * 8;
        let shift = |bits: u64| {
            64_u64.checked_sub(bits).ok_or_else(|| "the field has more than 64 bits".to_owned())
        };
        match question {
            Question::FIELD_OFFSET => Ok(self.byte_offset),
            Question::FIELD_SIZE => Ok(self.byte_size.into()),
            _ if self.is_element => Err("it does not apply to an element of an array".into()),
            Question::FIELD_SIGNED => Ok(self.is_signed.into()),
            Question::SHIFT_LEFT => shift(end()),
            Question::SHIFT_RIGHT => shift(self.bit_size),
            _ => Err("it does not apply to a field".into()),
        }
    }
}

fn is_signed(found: Type<'_>) -> bool {
    found.kind.is_enumeration() && found.is_flagged
        || found.integer().is_some_and(|(encoding, _)| encoding & SIGNED != 0)
}

fn is_zero_extended(found: Type<'_>) -> bool {
    found.kind == TypeKind::PTR
        || found.integer().is_some_and(|(encoding, _)| encoding & SIGNED == 0)
}

fn size(path: &Path<'_>) -> Result<u64, String> {
    path.types.size(path.root).map(u64::from).ok_or_else(|| "the type has no size".into())
}

fn variant(path: &Path<'_>) -> Result<u64, String> {
    let value = |step: &Step<'_>| {
        let values = path.types.get(step.type_id)?.values();
        values.get(usize::try_from(step.index).ok()?).map(|(_, value)| *value)
    };
    path.steps.last().and_then(value).ok_or_else(|| "there is no such value".into())
}
