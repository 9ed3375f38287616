//! Writes type information (`.BTF`) and metadata of code (`.BTF.ext`).
//!
//! Documentation/bpf/btf.rst (Linux 6.18). Ids and offsets are written as given.

const MAGIC: u32 = 0x0001_eb9f;

/// Linkage of functions and variables.
pub const STATIC: u32 = 0;
pub const GLOBAL: u32 = 1;
pub const EXTERN: u32 = 2;

/// Encodings of integers.
pub const UNSIGNED: u32 = 0;
pub const SIGNED: u32 = 1;
pub const BOOL: u32 = 4;

/// Types and their names.
#[derive(Debug, Clone)]
pub struct Types {
    pub words: Vec<u32>,
    pub strings: Vec<u8>,
    /// The id of the last one.
    pub len: u32,
}

impl Types {
    pub fn new() -> Self {
        Self { words: Vec::new(), strings: vec![0], len: 0 }
    }

    /// Offset of a string, which is added if missing.
    pub fn text(&mut self, text: &str) -> u32 {
        let bytes: Vec<u8> = text.bytes().chain([0]).collect();
        let known = self.strings.windows(bytes.len()).position(|window| window == bytes);
        known.unwrap_or_else(|| {
            self.strings.extend(&bytes);
            self.strings.len() - bytes.len()
        }) as u32
    }

    /// Adds a type and returns its id. `info` is the number of its elements, or a linkage, with the
    /// flag in the highest bit.
    pub fn add(&mut self, kind: u32, name: &str, info: u32, link: u32, tail: &[u32]) -> u32 {
        let name = self.text(name);
        self.words.extend([name, kind << 24 | info, link]);
        self.words.extend(tail);
        self.len += 1;
        self.len
    }

    pub fn integer(&mut self, name: &str, size: u32, encoding: u32) -> u32 {
        self.add(1, name, 0, size, &[encoding << 24 | (size * 8)])
    }

    pub fn pointer(&mut self, to: u32) -> u32 {
        self.add(2, "", 0, to, &[])
    }

    /// Arrays use their element type as index type, which is ignored.
    pub fn array(&mut self, of: u32, len: u32) -> u32 {
        self.add(3, "", 0, 0, &[of, of, len])
    }

    /// Members are name, type and offset in bits.
    pub fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let tail = members.iter().flat_map(|&(name, id, bits)| [self.text(name), id, bits]);
        let tail: Vec<u32> = tail.collect();
        self.add(4, name, members.len() as u32, size, &tail)
    }

    pub fn enumeration(&mut self, name: &str, values: &[(&str, u32)]) -> u32 {
        let tail = values.iter().flat_map(|&(name, value)| [self.text(name), value]);
        let tail: Vec<u32> = tail.collect();
        self.add(6, name, values.len() as u32, 4, &tail)
    }

    pub fn typedef(&mut self, name: &str, of: u32) -> u32 {
        self.add(8, name, 0, of, &[])
    }

    pub fn constant(&mut self, of: u32) -> u32 {
        self.add(10, "", 0, of, &[])
    }

    /// A function without parameters.
    pub fn prototype(&mut self, result: u32) -> u32 {
        self.add(13, "", 0, result, &[])
    }

    pub fn function(&mut self, name: &str, linkage: u32, prototype: u32) -> u32 {
        self.add(12, name, linkage, prototype, &[])
    }

    pub fn variable(&mut self, name: &str, linkage: u32, of: u32) -> u32 {
        self.add(14, name, 0, of, &[linkage])
    }

    /// Entries are type, offset and size in bytes.
    pub fn data_section(&mut self, name: &str, size: u32, entries: &[[u32; 3]]) -> u32 {
        self.add(15, name, entries.len() as u32, size, entries.as_flattened())
    }

    /// `int (*)[number]`, the encoding of numbers in map definitions.
    pub fn number(&mut self, int: u32, number: u32) -> u32 {
        let array = self.array(int, number);
        self.pointer(array)
    }

    /// The structure that defines a map by numbers alone.
    pub fn map(&mut self, int: u32, numbers: &[(&str, u32)]) -> u32 {
        let members: Vec<_> = (0..)
            .zip(numbers)
            .map(|(index, &(name, number))| (name, self.number(int, number), 64 * index))
            .collect();
        self.structure("", 8 * members.len() as u32, &members)
    }

    pub fn int(&mut self, name: &str, size: u32) -> u32 {
        self.integer(name, size, 0)
    }

    /// A function with its prototype; returns the id of the function.
    pub fn taking(
        &mut self,
        name: &str,
        linkage: u32,
        returns: u32,
        arguments: &[(&str, u32)],
    ) -> u32 {
        let tail = arguments.iter().flat_map(|&(name, of)| [self.text(name), of]);
        let tail: Vec<u32> = tail.collect();
        let prototype = self.add(13, "", arguments.len() as u32, returns, &tail);
        self.function(name, linkage, prototype)
    }

    /// The type of a program: `int NAME(void *context)`.
    pub fn program(&mut self, name: &str) -> u32 {
        let (int, context) = (self.int("int", 4), self.pointer(0));
        self.taking(name, GLOBAL, int, &[("context", context)])
    }

    /// A global variable of a type, alone in its section.
    pub fn only_variable(&mut self, section: &str, name: &str, of: u32, size: u32) {
        let variable = self.variable(name, GLOBAL, of);
        self.data_section(section, size, &[[variable, 0, size]]);
    }

    /// Definition of a map in `.maps`: numeric properties, and type properties.
    pub fn define_map(&mut self, name: &str, numbers: &[(&str, u32)], values: &[(&str, u32)]) {
        let int = self.int("int", 4);
        let mut members = Vec::new();
        for &(property, number) in numbers {
            members.push((property, self.number(int, number), 64 * members.len() as u32));
        }
        for &(property, of) in values {
            members.push((property, self.pointer(of), 64 * members.len() as u32));
        }
        let size = 8 * members.len() as u32;
        let definition = self.structure("", size, &members);
        self.only_variable(".maps", name, definition, size);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let types = bytes(&self.words);
        let types_len = types.len() as u32;
        let header = [MAGIC, 24, 0, types_len, types_len, self.strings.len() as u32];
        [bytes(&header), types, self.strings.clone()].concat()
    }
}

/// Records about code, by the offset of their section's name. Their offsets are in bytes.
#[derive(Debug, Clone, Default)]
pub struct Extension {
    /// Offset and type of a function.
    pub functions: Vec<(u32, Vec<[u32; 2]>)>,
    /// Offset, file, text, line and column.
    pub lines: Vec<(u32, Vec<[u32; 4]>)>,
    pub accesses: Vec<(u32, Vec<[u32; 4]>)>,
}

impl Extension {
    pub fn bytes(&self) -> Vec<u8> {
        let parts = [part(&self.functions), part(&self.lines), part(&self.accesses)];
        let mut header = vec![MAGIC, 32];
        let mut offset = 0;
        for part in &parts {
            let len = 4 * part.len() as u32;
            header.extend([offset, len]);
            offset += len;
        }
        bytes(&[header, parts.concat()].concat())
    }
}

fn part<const N: usize>(blocks: &[(u32, Vec<[u32; N]>)]) -> Vec<u32> {
    if blocks.is_empty() {
        return Vec::new();
    }
    let mut words = vec![4 * N as u32];
    for (section, records) in blocks {
        words.extend([*section, records.len() as u32]);
        words.extend(records.as_flattened());
    }
    words
}

/// Words of a little-endian file.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
