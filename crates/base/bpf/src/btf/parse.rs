//! The records of the format: header, type, member (Documentation/bpf/btf.rst, section 2).

use std::ops::Range;

use super::BtfError;

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN_MIN: usize = 24;
const TYPE_LEN: usize = 12;
const MEMBER_LEN: usize = 12;

/// Where the two sections lie, in bytes from the start.
pub(super) struct Layout {
    pub(super) types: Range<usize>,
    pub(super) strings: Range<usize>,
}

/// Reads the header. A longer header than ours is fine: it says where its sections begin.
pub(super) fn layout(bytes: &[u8]) -> Result<Layout, BtfError> {
    let cut = BtfError::Truncated { what: "the header", offset: 0 };
    let [first, second, ..] = *bytes else { return Err(cut) };
    let found = u16::from_ne_bytes([first, second]);
    if found != MAGIC {
        return Err(BtfError::Magic { found });
    }
    let field =
        |index: usize| read_u32(bytes, 4 + 4 * index).and_then(|value| usize::try_from(value).ok());
    let (
        Some(header_len),
        Some(type_offset),
        Some(type_len),
        Some(string_offset),
        Some(string_len),
    ) = (field(0), field(1), field(2), field(3), field(4))
    else {
        return Err(cut);
    };
    if header_len < HEADER_LEN_MIN {
        return Err(cut);
    }
    let section = |what, offset: usize, len: usize| {
        let start = header_len.saturating_add(offset);
        let end = start.saturating_add(len);
        match end <= bytes.len() {
            true => Ok(start..end),
            false => Err(BtfError::Truncated { what, offset: start }),
        }
    };
    Ok(Layout {
        types: section("the type section", type_offset, type_len)?,
        strings: section("the string section", string_offset, string_len)?,
    })
}

/// Offset of every type record. A record's length follows from its kind, so a kind that is not known
/// hides all that follows and is an error.
pub(super) fn index(bytes: &[u8], types: Range<usize>) -> Result<Vec<u32>, BtfError> {
    // A type takes 35 bytes on average in the kernels looked at: one allocation, seldom two.
    let mut offsets = Vec::with_capacity(types.len() / 32);
    let mut offset = types.start;
    let section = bytes.get(..types.end).unwrap_or(bytes);
    while offset < types.end {
        let cut = || BtfError::Truncated { what: "a type", offset };
        let info = read_u32(section, offset.saturating_add(4)).ok_or_else(cut)?;
        let kind = Kind::from_info(info).ok_or_else(|| BtfError::UnknownKind {
            type_id: offsets.len() + 1,
            kind: info >> 24 & 0x1f,
        })?;
        let next = offset.saturating_add(TYPE_LEN).saturating_add(kind.extra_len(vlen(info)));
        if next > types.end {
            return Err(cut());
        }
        offsets.push(u32::try_from(offset).map_err(|_| cut())?);
        offset = next;
    }
    Ok(offsets)
}

/// `BTF_KIND_*`, as far as anything here depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Pointer,
    Enumeration,
    Struct,
    Union,
    Typedef,
    Func,
    Var,
    FuncProto,
    /// `volatile`, `const`, `restrict` and type tags: they name another type and add nothing.
    Modifier,
    /// Any other kind, with its bytes after the common part and those per element.
    Other {
        fixed_len: u8,
        element_len: u8,
    },
}

impl Kind {
    fn from_info(info: u32) -> Option<Self> {
        let other = |fixed_len, element_len| Some(Self::Other { fixed_len, element_len });
        match info >> 24 & 0x1f {
            1 => Some(Self::Integer),
            2 => Some(Self::Pointer),
            4 => Some(Self::Struct),
            6 => Some(Self::Enumeration),
            5 => Some(Self::Union),
            8 => Some(Self::Typedef),
            12 => Some(Self::Func),
            13 => Some(Self::FuncProto),
            14 => Some(Self::Var),
            9..=11 | 18 => Some(Self::Modifier),
            // Forward declaration, float.
            7 | 16 => other(0, 0),
            // Declaration tag.
            17 => other(4, 0),
            // Array.
            3 => other(12, 0),
            // Data section, 64-bit enumeration.
            15 | 19 => other(0, 12),
            _ => None,
        }
    }

    pub(super) fn is_composite(self) -> bool {
        matches!(self, Self::Struct | Self::Union)
    }

    /// Whether the type only stands for another one.
    pub(super) fn is_modifier(self) -> bool {
        matches!(self, Self::Modifier | Self::Typedef)
    }

    fn extra_len(self, elements: usize) -> usize {
        match self {
            Self::Struct | Self::Union => MEMBER_LEN * elements,
            Self::FuncProto | Self::Enumeration => 8 * elements,
            Self::Var | Self::Integer => 4,
            Self::Pointer | Self::Typedef | Self::Func | Self::Modifier => 0,
            Self::Other { fixed_len, element_len } => {
                usize::from(fixed_len) + usize::from(element_len) * elements
            }
        }
    }
}

/// The common part of a type record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    pub(super) name_offset: u32,
    pub(super) kind: Kind,
    pub(super) size_or_type: u32,
    info: u32,
    /// Where the elements begin, in bytes from the start of all.
    elements_offset: usize,
}

impl Type {
    pub(super) fn read(bytes: &[u8], offset: usize) -> Option<Self> {
        let record = bytes.get(offset..)?.get(..TYPE_LEN)?;
        let info = read_u32(record, 4)?;
        Some(Self {
            name_offset: read_u32(record, 0)?,
            kind: Kind::from_info(info)?,
            size_or_type: read_u32(record, 8)?,
            info,
            elements_offset: offset + TYPE_LEN,
        })
    }

    /// Number of elements: members, arguments.
    pub(super) fn count(self) -> usize {
        vlen(self.info)
    }

    /// Type ids of the arguments of a prototype; none for other kinds.
    pub(super) fn arguments(self, bytes: &[u8]) -> impl Iterator<Item = u32> {
        let count = if self.kind == Kind::FuncProto { self.count() } else { 0 };
        (0..count).map_while(move |index| read_u32(bytes, self.elements_offset + 8 * index + 4))
    }

    /// The members of a struct or a union; none for other kinds.
    pub(super) fn members(self, bytes: &[u8]) -> impl Iterator<Item = Member> {
        let count = if self.kind.is_composite() { vlen(self.info) } else { 0 };
        // With the kind flag, the upper 8 bits of an offset are the width of a bit-field.
        let offset_mask = if self.info >> 31 == 1 { 0x00ff_ffff } else { u32::MAX };
        (0..count).map_while(move |index| {
            let record = bytes.get(self.elements_offset + MEMBER_LEN * index..)?;
            Some(Member {
                name_offset: read_u32(record, 0)?,
                type_id: read_u32(record, 4)?,
                offset_bits: read_u32(record, 8)? & offset_mask,
            })
        })
    }
}

/// One member of a struct or a union.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) name_offset: u32,
    pub(super) type_id: u32,
    pub(super) offset_bits: u32,
}

fn vlen(info: u32) -> usize {
    usize::from(info as u16)
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}
