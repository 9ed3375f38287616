//! Go's function table, `.gopclntab`: names, source lines and frame sizes.
//!
//! The runtime uses it to walk and print stacks, so every Go program has it, even if `-ldflags='-s -w'` removed
//! symbols and DWARF. It is described in golang.org/s/go12symtab; later layouts are those of Go's
//! `debug/gosym/pclntab.go` and `cmd/link/internal/ld/pcln.go`.
//!
//! Nothing is copied: a look-up searches the sorted list of functions, then decodes the values of one function.
//! Inlined functions are not reported: their names are reached through a symbol that stripped programs lack. Their
//! code has the name of the enclosing function, with the line of the inlined code.

mod find;

use std::borrow::Cow;

use object::ReadRef;

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
pub struct GoLocation<'data> {
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
    pub fn location(&self, address: u64) -> Option<GoLocation<'data>> {
        let function = self.function_at(address)?;
        let name = self.name(&function)?;
        Some(GoLocation {
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
        let at = self.layout.function_start(number)?;
        self.bytes.word(at, self.layout.pc_bytes())?.checked_add(self.text)
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
            let index = unit.checked_add(file)?.checked_mul(4)?;
            let offset = self.bytes.word(self.layout.units.checked_add(index)?, 4)?;
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

// The table's header, and the layouts of Go versions.

/// Go version that introduced the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
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
    fn has_offsets(self) -> bool {
        self >= Self::Go1_18
    }
}

/// Positions of a table's parts, in bytes from its start.
#[derive(Debug, Clone, Copy)]
struct Layout {
    version: Version,
    /// Minimum instruction size, in bytes.
    quantum: u64,
    functions: u64,
    /// Base of the addresses.
    text: u64,
    names: u64,
    /// Lists of files by compilation unit.
    units: u64,
    /// Before Go 1.16 a list of offsets, then the paths.
    files: u64,
    values: u64,
    descriptions: u64,
    list: u64,
}

const POINTER_BYTES: u64 = 8;

impl Layout {
    fn parse<'data>(bytes: &Bytes<impl ReadRef<'data>>) -> Option<Self> {
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
    fn lacks_text(&self) -> bool {
        self.version.has_offsets() && self.text == 0
    }

    /// Size of an address in bytes.
    fn pc_bytes(&self) -> u64 {
        if self.version.has_offsets() { 4 } else { POINTER_BYTES }
    }

    /// Position of a function's address in the list of functions.
    fn function_start(&self, number: u64) -> Option<u64> {
        number.checked_mul(2 * self.pc_bytes())?.checked_add(self.list)
    }

    /// Position of the offset of a function's description in the list of functions.
    fn function_offset(&self, number: u64) -> Option<u64> {
        self.function_start(number)?.checked_add(self.pc_bytes())
    }

    /// A description has the address, followed by 4-byte words.
    fn field(&self, index: u64) -> u64 {
        self.pc_bytes() + 4 * index
    }

    fn name_field(&self) -> u64 {
        self.field(0)
    }

    fn stack_field(&self) -> u64 {
        self.field(3)
    }

    fn file_field(&self) -> u64 {
        self.field(4)
    }

    fn line_field(&self) -> u64 {
        self.field(5)
    }

    fn unit_field(&self) -> u64 {
        self.field(7)
    }

    /// Position of the flags: after the function id, which follows the unit and, since Go 1.20, the first line.
    fn flags_field(&self) -> u64 {
        let words = match self.version {
            Version::Go1_2 => 7,
            Version::Go1_16 | Version::Go1_18 => 8,
            Version::Go1_20 => 9,
        };
        self.field(words) + 1
    }
}

// Values by address: lines, files, frame sizes.
//
// Each step is two variable-length integers: the difference of the value, and the number of instructions that it
// applies to (golang.org/s/go12symtab, "PC-Value Table Encoding").

/// Bytes per read, which is aligned to this size, so that a cache has each piece once.
const PIECE_BYTES: u64 = 64;
/// Maximum bytes of an encoded 32-bit integer.
const NUMBER_BYTES_MAX: u32 = 5;

/// The values of a function, each with its end address.
#[derive(Debug, Clone)]
pub(crate) struct Values<'data, R> {
    bytes: Bytes<R>,
    at: u64,
    piece: &'data [u8],
    piece_at: u64,
    pc: u64,
    /// End of the function.
    end: u64,
    quantum: u64,
    value: i32,
    is_first: bool,
}

impl<'data, R: ReadRef<'data>> Values<'data, R> {
    fn new(bytes: Bytes<R>, at: u64, start: u64, end: u64, quantum: u64) -> Self {
        let (piece, piece_at) = (&[][..], 0);
        Self { bytes, at, piece, piece_at, pc: start, end, quantum, value: -1, is_first: true }
    }

    /// The value at an address of the function.
    fn at(mut self, address: u64) -> Option<i32> {
        self.find(|(_, end)| address < *end).map(|(value, _)| value)
    }

    fn byte(&mut self) -> Option<u8> {
        let index = self.at.checked_sub(self.piece_at)?;
        let found = self.piece.get(usize::try_from(index).ok()?);
        let byte = match found {
            Some(&byte) => byte,
            None => {
                self.piece_at = self.at - self.at % PIECE_BYTES;
                let len = PIECE_BYTES.min(self.bytes.len().checked_sub(self.piece_at)?);
                self.piece = self.bytes.slice(self.piece_at, len)?;
                *self.piece.get((self.at - self.piece_at) as usize)?
            }
        };
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for index in 0..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl<'data, R: ReadRef<'data>> Iterator for Values<'data, R> {
    type Item = (i32, u64);

    /// A step applies to at least one instruction, so a function has no more steps than bytes.
    fn next(&mut self) -> Option<(i32, u64)> {
        if self.pc >= self.end {
            return None;
        }
        let change = self.number()?;
        if change == 0 && !self.is_first {
            return None;
        }
        self.is_first = false;
        let sign = if change & 1 == 0 { 0 } else { u32::MAX };
        self.value = self.value.wrapping_add((change >> 1 ^ sign) as i32);
        let instructions = self.number().filter(|&count| count > 0)?;
        self.pc = self.pc.checked_add(u64::from(instructions) * self.quantum)?;
        Some((self.value, self.pc))
    }
}

// Bounds-checked reads of the table.

/// The bytes of a table.
#[derive(Debug, Clone, Copy)]
struct Bytes<R> {
    data: R,
    start: u64,
    len: u64,
}

impl<'data, R: ReadRef<'data>> Bytes<R> {
    fn new(data: R, start: u64, len: u64) -> Self {
        Self { data, start, len }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn slice(&self, at: u64, len: u64) -> Option<&'data [u8]> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        self.data.read_bytes_at(self.start.checked_add(at)?, len).ok()
    }

    fn byte(&self, at: u64) -> Option<u8> {
        self.slice(at, 1)?.first().copied()
    }

    /// An integer of 4 or 8 bytes.
    fn word(&self, at: u64, len: u64) -> Option<u64> {
        let bytes = self.slice(at, len)?;
        match len {
            4 => bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes).into()),
            _ => bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
        }
    }

    /// Nonempty text up to a zero byte, of at most `len_max` bytes.
    fn text(&self, at: u64, len_max: u64) -> Option<&'data [u8]> {
        if at >= self.len {
            return None;
        }
        let start = self.start.checked_add(at)?;
        let end = start.checked_add(len_max.min(self.len - at))?;
        let text = self.data.read_bytes_at_until(start..end, 0).ok()?;
        (!text.is_empty()).then_some(text)
    }
}

/// Handmade tables of each version, valid and damaged.
#[cfg(test)]
mod tests {
    use super::*;

    /// Two functions: `main.a` of 16 bytes, and `main.b` of 32, in `a.go` and `b.go`.
    const A: u64 = 0x40_1000;
    const B: u64 = A + 16;
    const END: u64 = B + 32;

    /// Steps of a value: the difference, and the number of instructions.
    fn steps(steps: &[(i32, u8)]) -> Vec<u8> {
        let mut bytes: Vec<u8> = steps
            .iter()
            .flat_map(|&(change, instructions)| {
                let number = (change << 1 ^ change >> 31) as u32;
                [number as u8 | 0x80, (number >> 7) as u8, instructions]
            })
            .collect();
        bytes.push(0);
        bytes
    }

    /// The parts of a table, before the header is added.
    struct Parts {
        version: Version,
        bytes: Vec<u8>,
    }

    impl Parts {
        /// Adds a part, and returns its position.
        fn add(&mut self, bytes: &[u8]) -> u64 {
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
            self.bytes.extend(bytes);
            (self.bytes.len() - bytes.len()) as u64
        }

        fn pc(&self, address: u64) -> Vec<u8> {
            match self.version.has_offsets() {
                true => ((address - A) as u32).to_le_bytes().to_vec(),
                false => address.to_le_bytes().to_vec(),
            }
        }

        fn number(&self, number: u64) -> Vec<u8> {
            number.to_le_bytes()[..if self.version.has_offsets() { 4 } else { 8 }].to_vec()
        }

        fn description(&self, start: u64, name: u64, values: [u64; 3], flags: u8) -> Vec<u8> {
            let [stack, file, line] = values.map(|value| value as u32);
            let mut words = vec![name as u32, 0, 0, stack, file, line, 0];
            if self.version >= Version::Go1_16 {
                words.push(0);
            }
            if self.version == Version::Go1_20 {
                words.push(1);
            }
            let mut bytes = self.pc(start);
            bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
            bytes.extend([0, flags, 0, 0]);
            bytes
        }

        fn table(version: Version) -> Vec<u8> {
            let mut parts = Self { version, bytes: vec![0; 0x48] };
            let is_first = version == Version::Go1_2;
            // The list follows the header; in later versions it precedes the descriptions.
            let list_bytes = 5 * parts.pc(A).len() + 4;
            let list = if is_first { 16 } else { parts.add(&vec![0; list_bytes]) };
            parts.bytes.resize(parts.bytes.len().max(list as usize + list_bytes), 0);
            let names = parts.add(b"main.a\0main.b\0");
            let paths = parts.add(b"a.go\0b.go\0");
            // Offsets count from the start of their part; in the first version, from that of the table.
            let place = |base: u64, at: u64| if is_first { at } else { at - base };
            let files = match is_first {
                true => [2, paths as u32, paths as u32 + 5],
                // The second has no code.
                false => [0, u32::MAX, 5],
            };
            let files = parts.add(&files.map(u32::to_le_bytes).concat());
            let values = parts.add(&[0]);
            let stack = parts.add(&steps(&[(1, 4), (24, 10), (-24, 2)]));
            let lines = parts.add(&steps(&[(8, 4), (1, 28)]));
            let files_of_a = parts.add(&steps(&[(if is_first { 2 } else { 1 }, 16)]));
            let files_of_b = parts.add(&steps(&[(3, 32)]));
            let [stack, lines, files_of_a, files_of_b] =
                [stack, lines, files_of_a, files_of_b].map(|at| place(values, at));
            let name = place(names, names);
            let a = parts.description(A, name, [stack, files_of_a, lines], 0);
            let a = parts.add(&a);
            let b = parts.description(B, name + 7, [0, files_of_b, lines], 3);
            let b = parts.add(&b);
            let entries = [parts.pc(A), parts.number(place(list, a)), parts.pc(B)];
            let entries = [entries.concat(), parts.number(place(list, b)), parts.pc(END)].concat();
            let mut header = vec![magic(version), 0xff, 0xff, 0xff, 0, 0, 1, 8];
            let words = match version {
                Version::Go1_2 => vec![2],
                Version::Go1_16 => vec![2, 2, names, files, paths, values, list],
                _ => vec![2, 2, A, names, files, paths, values, list],
            };
            header.extend(words.into_iter().flat_map(u64::to_le_bytes));
            parts.bytes[..header.len()].copy_from_slice(&header);
            parts.bytes[list as usize..][..entries.len()].copy_from_slice(&entries);
            if is_first {
                parts.bytes[list as usize + entries.len()..][..4]
                    .copy_from_slice(&(files as u32).to_le_bytes());
            }
            parts.bytes
        }
    }

    fn magic(version: Version) -> u8 {
        match version {
            Version::Go1_2 => 0xfb,
            Version::Go1_16 => 0xfa,
            Version::Go1_18 => 0xf0,
            Version::Go1_20 => 0xf1,
        }
    }

    const VERSIONS: [Version; 4] =
        [Version::Go1_2, Version::Go1_16, Version::Go1_18, Version::Go1_20];

    fn parse(bytes: &[u8]) -> Option<GoTable<&[u8]>> {
        GoTable::parse(bytes, 0, bytes.len() as u64)
    }

    #[test]
    fn names_files_and_lines_by_address() {
        for version in VERSIONS {
            let bytes = Parts::table(version);
            let table = parse(&bytes).expect("a table");
            assert_eq!(table.range(), Some(A..END));
            let check = |address, expected: &str| {
                let found = table.location(address).map_or_else(String::new, |found| {
                    let (file, line) = found.source.unwrap_or_default();
                    format!("{} {file}:{line}", found.function)
                });
                assert_eq!(found, expected, "{version:?} {address:#x}");
            };
            check(A - 1, "");
            check(A, "main.a a.go:7");
            check(A + 3, "main.a a.go:7");
            check(A + 4, "main.a a.go:8");
            check(B - 1, "main.a a.go:8");
            check(B, "main.b b.go:7");
            check(END - 1, "main.b b.go:8");
            check(END, "");
            check(u64::MAX, "");
        }
    }

    #[test]
    fn sizes_of_frames_and_flags() {
        for version in VERSIONS {
            let bytes = Parts::table(version);
            let table = parse(&bytes).expect("a table");
            let [a, b] = [0, 1].map(|number| table.function(number).expect("a function"));
            assert_eq!((table.flags(&a), table.flags(&b)), (Some(0), Some(3)), "{version:?}");
            let sizes: Vec<_> = table.stack_bytes(&a).expect("values").collect();
            assert_eq!(sizes, [(0, A + 4), (24, A + 14), (0, B)], "{version:?}");
            assert!(table.stack_bytes(&b).is_none() && table.function(2).is_none());
        }
    }

    /// With any byte changed or missing, there is a result or none, but no panic.
    #[test]
    fn damaged_tables() {
        for version in VERSIONS {
            let whole = Parts::table(version);
            let ask = |bytes: &[u8]| {
                let Some(table) = parse(bytes) else { return };
                for address in [A, A + 5, B, END - 1, END] {
                    let _ = table.location(address);
                }
                for number in 0..table.functions().min(4) {
                    let Some(function) = table.function(number) else { continue };
                    let steps = table.stack_bytes(&function).into_iter().flatten().count() as u64;
                    assert!(steps <= function.end.saturating_sub(function.start));
                }
            };
            for len in 0..whole.len() {
                ask(&whole[..len]);
            }
            for at in 0..whole.len() {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut bytes = whole.clone();
                    bytes[at] = byte;
                    ask(&bytes);
                }
            }
            for at in [4, 5, 6, 7] {
                let mut bytes = whole.clone();
                bytes[at] = 3;
                assert!(parse(&bytes).is_none(), "{version:?}");
            }
        }
    }
}
