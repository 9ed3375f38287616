//! Type information, BTF, as it is written (Documentation/bpf/btf.rst, Linux 6.18).

use crate::object::MAGIC;

/// Kinds.
const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;

/// Linkage of functions and variables.
pub(crate) const STATIC: u32 = 0;
pub(crate) const GLOBAL: u32 = 1;

/// Types that grow. Ids are counted from 1.
pub(crate) struct Types {
    strings: Vec<u8>,
    types: Vec<u32>,
    count: u32,
}

impl Types {
    pub(crate) fn new() -> Self {
        Self { strings: vec![0], types: Vec::new(), count: 0 }
    }

    /// A string; gives its offset.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let offset = self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        offset
    }

    /// `int`, of so many bytes.
    pub(crate) fn int(&mut self, name: &str, size: u32) -> u32 {
        self.add(name, (INT, 0), size, &[size * 8])
    }

    /// A pointer; to nothing in particular for 0.
    pub(crate) fn pointer(&mut self, to: u32) -> u32 {
        self.add("", (PTR, 0), to, &[])
    }

    pub(crate) fn array(&mut self, of: u32, index: u32, len: u32) -> u32 {
        self.add("", (ARRAY, 0), 0, &[of, index, len])
    }

    /// A structure with members: name, type, offset in bytes.
    pub(crate) fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let members: Vec<u32> =
            members.iter().flat_map(|&(name, of, at)| [self.text(name), of, 8 * at]).collect();
        self.add(name, (STRUCT, members.len() as u32 / 3), size, &members)
    }

    /// A function with its prototype; gives the id of the function.
    pub(crate) fn function(
        &mut self,
        name: &str,
        linkage: u32,
        returns: u32,
        arguments: &[(&str, u32)],
    ) -> u32 {
        let arguments: Vec<u32> =
            arguments.iter().flat_map(|&(name, of)| [self.text(name), of]).collect();
        let count = arguments.len() as u32 / 2;
        let prototype = self.add("", (FUNC_PROTO, count), returns, &arguments);
        self.add(name, (FUNC, linkage), prototype, &[])
    }

    /// The type of a program: `int NAME(void *context)`.
    pub(crate) fn program(&mut self, name: &str) -> u32 {
        let (int, context) = (self.int("int", 4), self.pointer(0));
        self.function(name, GLOBAL, int, &[("context", context)])
    }

    /// A global variable of a type, alone in its section.
    pub(crate) fn only_variable(&mut self, section: &str, name: &str, of: u32, size: u32) {
        let variable = self.add(name, (VAR, 0), of, &[GLOBAL]);
        self.add(section, (DATASEC, 1), size, &[variable, 0, size]);
    }

    /// The definition of a map in `.maps`: properties that are numbers, and those that are types.
    pub(crate) fn map(&mut self, name: &str, numbers: &[(&str, u32)], values: &[(&str, u32)]) {
        let int = self.int("int", 4);
        let mut members = Vec::new();
        for &(property, number) in numbers {
            let array = self.array(int, int, number);
            members.push((property, self.pointer(array)));
        }
        for &(property, of) in values {
            members.push((property, self.pointer(of)));
        }
        let members: Vec<_> =
            (0..).zip(members).map(|(index, (name, of))| (name, of, 8 * index)).collect();
        let size = 8 * members.len() as u32;
        let definition = self.structure("", size, &members);
        self.only_variable(".maps", name, definition, size);
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let len = 4 * self.types.len() as u32;
        let header = [MAGIC, 24, 0, len, len, self.strings.len() as u32];
        [words(&header), words(&self.types), self.strings.clone()].concat()
    }

    fn add(&mut self, name: &str, (kind, vlen): (u32, u32), link: u32, tail: &[u32]) -> u32 {
        let name = self.text(name);
        self.types.extend([name, kind << 24 | vlen, link]);
        self.types.extend(tail);
        self.count += 1;
        self.count
    }
}

/// Words as a little-endian machine has them.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
