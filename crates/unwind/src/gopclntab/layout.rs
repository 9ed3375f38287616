//! The table's header, and the layouts of Go versions.

use object::ReadRef;

use super::bytes::Bytes;

/// Go version that introduced the layout.
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

    /// Addresses are 4-byte offsets from the start of the code, instead of absolute.
    pub(super) fn has_offsets(self) -> bool {
        self >= Self::Go1_18
    }
}

/// Positions of a table's parts, in bytes from its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) version: Version,
    /// Minimum instruction size, in bytes.
    pub(super) quantum: u64,
    pub(super) functions: u64,
    /// Base of the addresses.
    pub(super) text: u64,
    pub(super) names: u64,
    /// Lists of files by compilation unit.
    pub(super) units: u64,
    /// Before Go 1.16 a list of offsets, then the paths.
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

    /// Whether the table lacks the base of its addresses.
    pub(super) fn lacks_text(&self) -> bool {
        self.version.has_offsets() && self.text == 0
    }

    /// Size of an address in bytes.
    pub(super) fn pc_bytes(&self) -> u64 {
        if self.version.has_offsets() { 4 } else { POINTER_BYTES }
    }

    /// Position of a function's address in the list of functions.
    pub(super) fn function_start(&self, number: u64) -> Option<u64> {
        number.checked_mul(2 * self.pc_bytes())?.checked_add(self.list)
    }

    /// Position of the offset of a function's description in the list of functions.
    pub(super) fn function_offset(&self, number: u64) -> Option<u64> {
        self.function_start(number)?.checked_add(self.pc_bytes())
    }

    /// A description has the address, followed by 4-byte words.
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

    /// Position of the flags: after the function id, which follows the unit and, since Go 1.20, the first line.
    pub(super) fn flags_field(&self) -> u64 {
        let words = match self.version {
            Version::Go1_2 => 7,
            Version::Go1_16 | Version::Go1_18 => 8,
            Version::Go1_20 => 9,
        };
        self.field(words) + 1
    }
}
