//! Object files with types, lines, maps, variables and accesses: made here, so that no compiler is
//! needed.

use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, Relocation, RelocationFlags, SectionId, Symbol, SymbolId, SymbolSection},
};
use wingbeat_bpf::{code::Insn, spec::Spec};

use crate::types::{Types, words};

/// Source file that lines belong to.
pub(crate) const SOURCE: &str = "by_hand.c";

/// A function of the object.
#[derive(Clone, Copy)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) insns: &'a [Insn],
    /// Its type; 0 for none.
    pub(crate) type_id: u32,
    pub(crate) is_global: bool,
}

/// An object file that grows.
pub(crate) struct ObjectFile {
    object: Object<'static>,
    pub(crate) types: Types,
    /// Function records, line records, CO-RE records, each with its section before it.
    records: [Vec<u32>; 3],
}

impl ObjectFile {
    pub(crate) fn new() -> Self {
        let object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let mut file = Self { object, types: Types::new(), records: Default::default() };
        file.data("license", b"GPL\0");
        file
    }

    /// A section of bytes.
    pub(crate) fn data(&mut self, name: &str, bytes: &[u8]) -> SectionId {
        let kind = if name == ".rodata" { SectionKind::ReadOnlyData } else { SectionKind::Data };
        let id = self.object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
        self.object.append_section_data(id, bytes, 8);
        id
    }

    /// A variable of a section.
    pub(crate) fn variable(
        &mut self,
        name: &str,
        section: SectionId,
        at: u64,
        len: u64,
    ) -> SymbolId {
        self.symbol(name, section, at, len, (SymbolKind::Data, true))
    }

    /// Functions, one after the other.
    pub(crate) fn code(&mut self, section: &str, functions: &[Function<'_>]) -> SectionId {
        let id =
            self.object.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Text);
        let name = self.types.text(section);
        let mut records = Vec::new();
        for function in functions {
            let bytes: Vec<u8> = function.insns.iter().flat_map(|insn| insn.to_bytes()).collect();
            let at = self.object.append_section_data(id, &bytes, 8);
            let kind = (SymbolKind::Text, function.is_global);
            self.symbol(function.name, id, at, bytes.len() as u64, kind);
            if function.type_id != 0 {
                records.extend([at as u32, function.type_id]);
            }
        }
        if !records.is_empty() {
            self.records[0].extend([name, records.len() as u32 / 2]);
            self.records[0].extend(records);
        }
        id
    }

    /// A function that is there.
    pub(crate) fn function(&self, name: &str) -> SymbolId {
        self.object.symbol_id(name.as_bytes()).expect("it is there")
    }

    /// Source lines of a section: index of the first instruction, number, text.
    pub(crate) fn lines(&mut self, section: &str, lines: &[(u32, u32, &str)]) {
        let (name, file) = (self.types.text(section), self.types.text(SOURCE));
        self.records[1].extend([name, lines.len() as u32]);
        for &(insn_index, number, text) in lines {
            let text = self.types.text(text);
            self.records[1].extend([8 * insn_index, file, text, number << 10 | 1]);
        }
    }

    /// An access to a kernel structure: index of the instruction, type, path, kind.
    pub(crate) fn access(&mut self, section: &str, insn: u32, type_id: u32, path: &str, kind: u32) {
        let (name, path) = (self.types.text(section), self.types.text(path));
        self.records[2].extend([name, 1, 8 * insn, type_id, path, kind]);
    }

    /// Makes an instruction refer to a variable, a map or a function.
    pub(crate) fn refer(&mut self, section: SectionId, insn: u64, symbol: SymbolId) {
        let flags = RelocationFlags::Elf { r_type: object::elf::R_BPF_64_64 };
        let relocation = Relocation { offset: 8 * insn, symbol, addend: 0, flags };
        self.object.add_relocation(section, relocation).expect("a relocation");
    }

    pub(crate) fn spec(mut self) -> Spec {
        // Length of a record, then the records by section.
        let records = self.records.clone();
        let parts =
            [8, 16, 16].into_iter().zip(records).map(|(len, records)| match records.len() {
                0 => Vec::new(),
                _ => [vec![len], records].concat(),
            });
        let parts: Vec<_> = parts.map(|part| words(&part)).collect();
        let mut header = vec![MAGIC, 32];
        let mut at = 0;
        for part in &parts {
            header.extend([at, part.len() as u32]);
            at += part.len() as u32;
        }
        let extension = [words(&header), parts.concat()].concat();
        let types = self.types.to_bytes();
        self.data(".BTF", &types);
        self.data(".BTF.ext", &extension);
        Spec::parse("by_hand.o", &self.object.write().expect("an object file")).expect("an object")
    }

    fn symbol(
        &mut self,
        name: &str,
        section: SectionId,
        value: u64,
        size: u64,
        (kind, is_global): (SymbolKind, bool),
    ) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value,
            size,
            kind,
            scope: if is_global { SymbolScope::Dynamic } else { SymbolScope::Compilation },
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        })
    }
}

/// Magic number and version 1.
pub(crate) const MAGIC: u32 = 0x0001_eb9f;
