//! Go's function table, `.gopclntab`: names, source lines and frame sizes.
//!
//! The runtime uses it to walk and print stacks, so every Go program has it, even if `-ldflags='-s -w'` removed
//! symbols and DWARF. It is described in golang.org/s/go12symtab; later layouts are those of Go's
//! `debug/gosym/pclntab.go` and `cmd/link/internal/ld/pcln.go`.
//!
//! Nothing is copied: a look-up searches the sorted list of functions, then decodes the values of one function.
//! Inlined functions are not reported: their names are reached through a symbol that stripped programs lack. Their
//! code has the name of the enclosing function, with the line of the inlined code.

mod bytes;
mod find;
mod layout;
mod values;

use std::borrow::Cow;

use object::ReadRef;

use bytes::Bytes;
use layout::{Layout, Version};
pub(crate) use values::Values;

/// Longer names are rejected.
const NAME_BYTES_MAX: u64 = 1 << 14;

/// A program's table, in the file or in memory.
#[derive(Debug, Clone, Copy)]
pub struct GoTable<R> {
    bytes: Bytes<R>,
    layout: Layout,
    /// Added to function addresses.
    text: u64,
}

/// A function of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoFunction {
    pub(crate) start: u64,
    /// Start of the next function.
    pub(crate) end: u64,
    /// Offset of its description in the table.
    at: u64,
}

/// The table's information about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoPlace<'data> {
    /// With its package: `net/http.(*conn).serve`.
    pub function: Cow<'data, str>,
    /// Path and line. If functions were inlined, the line is that of the innermost.
    pub source: Option<(Cow<'data, str>, u32)>,
}

impl<'data, R: ReadRef<'data>> GoTable<R> {
    /// Reads the header of a table of `len` bytes, `start` bytes into the data. `None` if it is not the table of a
    /// 64-bit little-endian program, or of an unknown version. Tables of Go 1.26 and later, and those of shared
    /// libraries, lack the address of the code: addresses then count from its first byte.
    pub fn parse(data: R, start: u64, len: u64) -> Option<Self> {
        let bytes = Bytes::new(data, start, len);
        let layout = Layout::parse(&bytes)?;
        Some(Self { bytes, layout, text: layout.text })
    }

    /// The same table with all bytes read at once, for reading most of it.
    pub(crate) fn whole(&self) -> Option<GoTable<&'data [u8]>> {
        let bytes = self.bytes.slice(0, self.bytes.len())?;
        let bytes = Bytes::new(bytes, 0, self.bytes.len());
        Some(GoTable { bytes, layout: self.layout, text: self.text })
    }

    /// Size of the table in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len()
    }

    /// Addresses from the first function to the end of the last.
    pub fn range(&self) -> Option<std::ops::Range<u64>> {
        let range = self.start_of(0)?..self.start_of(self.layout.functions)?;
        (range.start < range.end).then_some(range)
    }

    /// Number of functions.
    pub fn functions(&self) -> u64 {
        self.layout.functions
    }

    /// The function and line at an address.
    pub fn place(&self, address: u64) -> Option<GoPlace<'data>> {
        let function = self.function_at(address)?;
        let name = self.name(&function)?;
        Some(GoPlace {
            function: String::from_utf8_lossy(name),
            source: self.source(&function, address),
        })
    }

    /// The function that contains an address.
    fn function_at(&self, address: u64) -> Option<GoFunction> {
        let (mut low, mut high) = (0, self.layout.functions);
        // The first function starting after the address is in `low..=high`.
        while low < high {
            let middle = low.midpoint(high);
            if self.start_of(middle)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.function(low.checked_sub(1)?).filter(|function| address < function.end)
    }

    /// The function with this index.
    pub(crate) fn function(&self, number: u64) -> Option<GoFunction> {
        if number >= self.layout.functions {
            return None;
        }
        let at = self.bytes.word(self.layout.function_offset(number)?, self.layout.pc_bytes())?;
        Some(GoFunction {
            start: self.start_of(number)?,
            end: self.start_of(number + 1)?,
            at: self.layout.descriptions.checked_add(at)?,
        })
    }

    /// Start of a function; for the index after the last, its end.
    fn start_of(&self, number: u64) -> Option<u64> {
        let place = self.layout.function_start(number)?;
        self.bytes.word(place, self.layout.pc_bytes())?.checked_add(self.text)
    }

    /// Name of a function, with its package.
    pub(crate) fn name(&self, function: &GoFunction) -> Option<&'data [u8]> {
        let offset = self.field(function, self.layout.name_field())?;
        self.bytes.text(self.layout.names.checked_add(offset.into())?, NAME_BYTES_MAX)
    }

    /// The linker's flags of special runtime functions; 0 before Go 1.17.
    pub(crate) fn flags(&self, function: &GoFunction) -> Option<u8> {
        self.bytes.byte(function.at.checked_add(self.layout.flags_field())?)
    }

    /// Bytes by which the stack pointer has moved since the function's entry, by address; `None` if the table has
    /// none, as for C functions.
    pub(crate) fn stack_bytes(&self, function: &GoFunction) -> Option<Values<'data, R>> {
        self.values(function, self.layout.stack_field())
    }

    fn field(&self, function: &GoFunction, field: u64) -> Option<u32> {
        let field = self.bytes.word(function.at.checked_add(field)?, 4)?;
        u32::try_from(field).ok()
    }

    /// Values by address, at the offset in a field.
    fn values(&self, function: &GoFunction, field: u64) -> Option<Values<'data, R>> {
        let offset = self.field(function, field).filter(|&offset| offset != 0)?;
        let at = self.layout.values.checked_add(offset.into())?;
        Some(Values::new(self.bytes, at, function.start, function.end, self.layout.quantum))
    }

    fn source(&self, function: &GoFunction, address: u64) -> Option<(Cow<'data, str>, u32)> {
        let value = |field| self.values(function, field)?.at(address);
        let line = u32::try_from(value(self.layout.line_field())?).ok()?;
        let file = u64::try_from(value(self.layout.file_field())?).ok()?;
        let offset = if self.layout.version == Version::Go1_2 {
            self.bytes.word(self.layout.files.checked_add(file.checked_mul(4)?)?, 4)?
        } else {
            let unit = u64::from(self.field(function, self.layout.unit_field())?);
            let place = unit.checked_add(file)?.checked_mul(4)?;
            let offset = self.bytes.word(self.layout.units.checked_add(place)?, 4)?;
            // The linker removed the file, since none of its code remained.
            if offset == u64::from(u32::MAX) {
                return None;
            }
            self.layout.files.checked_add(offset)?
        };
        let path = self.bytes.text(offset, NAME_BYTES_MAX)?;
        Some((String::from_utf8_lossy(path), line))
    }
}

#[cfg(test)]
mod tests;
