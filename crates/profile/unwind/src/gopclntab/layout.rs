//! The header of the table, and where each version of Go has what.

use object::ReadRef;

use super::bytes::Bytes;

/// The version of Go that the layout came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Go1_2,
    Go1_16,
    Go1_18,
    Go1_20,
}

impl Version {
    fn of(magic: u64) -> Option<Self> {
        Some(match magic {
            0xffff_fffb => Self::Go1_2,
            0xffff_fffa => Self::Go1_16,
            0xffff_fff0 => Self::Go1_18,
            0xffff_fff1 => Self::Go1_20,
            _ => return None,
        })
    }

    /// Addresses are offsets of 4 bytes from the beginning of the code, no longer addresses.
    pub(super) fn has_offsets(self) -> bool {
        self >= Self::Go1_18
    }
}

/// Places of the parts of a table, in bytes from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) version: Version,
    /// Bytes by which addresses of instructions differ at least.
    pub(super) quantum: u64,
    pub(super) functions: u64,
    /// What addresses count from.
    pub(super) text: u64,
    pub(super) names: u64,
    /// Lists of files by unit of compilation.
    pub(super) units: u64,
    /// Before Go 1.16 a list of places, then the paths.
    pub(super) files: u64,
    pub(super) values: u64,
    pub(super) descriptions: u64,
    list: u64,
}

const POINTER_BYTES: u64 = 8;

impl Layout {
    pub(super) fn parse<'data>(bytes: &Bytes<impl ReadRef<'data>>) -> Option<Self> {
        let version = Version::of(bytes.word(0, 4)?)?;
        let &[0, 0, quantum @ (1 | 2 | 4), 8] = bytes.slice(4, 4)? else { return None };
        let word = |index: u64| bytes.word(8 + index * POINTER_BYTES, POINTER_BYTES);
        let functions = word(0)?;
        let mut layout = Self {
            version,
            quantum: quantum.into(),
            functions,
            text: 0,
            names: 0,
            units: 0,
            files: 0,
            values: 0,
            descriptions: 0,
            list: 8 + POINTER_BYTES,
        };
        if version >= Version::Go1_16 {
            let first = if version.has_offsets() { 3 } else { 2 };
            layout.text = if version.has_offsets() { word(2)? } else { 0 };
            layout.names = word(first)?;
            layout.units = word(first + 1)?;
            layout.files = word(first + 2)?;
            layout.values = word(first + 3)?;
            layout.descriptions = word(first + 4)?;
            layout.list = layout.descriptions;
        }
        // The list ends with the end of the last function.
        let end = layout.function_start(functions)?.checked_add(layout.pc_bytes())?;
        let parts = [layout.names, layout.units, layout.files, layout.values, end];
        if functions == 0 || parts.iter().any(|&part| part > bytes.len()) {
            return None;
        }
        if version == Version::Go1_2 {
            layout.files = bytes.word(end, 4)?;
        }
        Some(layout)
    }

    /// Whether the table does not say what addresses count from.
    pub(super) fn lacks_text(&self) -> bool {
        self.version.has_offsets() && self.text == 0
    }

    /// Bytes of an address.
    pub(super) fn pc_bytes(&self) -> u64 {
        if self.version.has_offsets() { 4 } else { POINTER_BYTES }
    }

    /// Where the list of functions has a function's address.
    pub(super) fn function_start(&self, number: u64) -> Option<u64> {
        number.checked_mul(2 * self.pc_bytes())?.checked_add(self.list)
    }

    /// Where the list of functions says where a function's description is.
    pub(super) fn function_offset(&self, number: u64) -> Option<u64> {
        self.function_start(number)?.checked_add(self.pc_bytes())
    }

    /// The fields of a description are its address, then words of 4 bytes.
    fn field(&self, index: u64) -> u64 {
        self.pc_bytes() + 4 * index
    }

    pub(super) fn name_field(&self) -> u64 {
        self.field(0)
    }

    pub(super) fn stack_field(&self) -> u64 {
        self.field(3)
    }

    pub(super) fn file_field(&self) -> u64 {
        self.field(4)
    }

    pub(super) fn line_field(&self) -> u64 {
        self.field(5)
    }

    pub(super) fn unit_field(&self) -> u64 {
        self.field(7)
    }

    /// A byte behind the number of the function's kind, which follows the unit and, from Go 1.20 on, the
    /// first line.
    pub(super) fn flags_field(&self) -> u64 {
        let words = match self.version {
            Version::Go1_2 => 7,
            Version::Go1_16 | Version::Go1_18 => 8,
            Version::Go1_20 => 9,
        };
        self.field(words) + 1
    }
}
