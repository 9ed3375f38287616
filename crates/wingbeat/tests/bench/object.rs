//! Object files with one program, its types and its lines: made here, so that no compiler is needed.

use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, Symbol, SymbolSection},
};
use wingbeat_bpf::code::Insn;

/// The program of an object.
pub(crate) struct Program<'a> {
    pub(crate) name: &'a str,
    /// Section that it is in, which tells its type.
    pub(crate) section: &'a str,
    pub(crate) insns: &'a [Insn],
    /// Index of the first instruction of each source line, its number, its text.
    pub(crate) lines: &'a [(u32, u32, &'a str)],
    /// Static functions that the types tell besides, from id 5 on; that of the program is 4.
    pub(crate) statics: &'a [String],
}

/// Source file that lines belong to.
pub(crate) const SOURCE: &str = "program.c";

impl Program<'_> {
    /// The object as a file.
    pub(crate) fn object(&self) -> Vec<u8> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let section =
            object.add_section(Vec::new(), self.section.as_bytes().to_vec(), SectionKind::Text);
        let code: Vec<u8> = self.insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        object.append_section_data(section, &code, 8);
        object.add_symbol(Symbol {
            name: self.name.as_bytes().to_vec(),
            value: 0,
            size: code.len() as u64,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
        let (types, extra) = self.type_information();
        for (name, data) in [("license", b"GPL\0".to_vec()), (".BTF", types), (".BTF.ext", extra)] {
            let id = object.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::Data);
            object.append_section_data(id, &data, 8);
        }
        object.write().expect("an object file")
    }

    /// BTF of `int NAME(void *ctx)`, of the static functions, and where function and lines begin
    /// (Documentation/bpf/btf.rst of the kernel).
    fn type_information(&self) -> (Vec<u8>, Vec<u8>) {
        let mut strings = vec![0];
        let mut string = |text: &str| {
            let offset = strings.len() as u32;
            strings.extend(text.bytes().chain([0]));
            offset
        };
        let (int, context, function) = (string("int"), string("ctx"), string(self.name));
        let (section, file) = (string(self.section), string(SOURCE));
        let kind = |kind: u32, vlen: u32| kind << 24 | vlen;
        let mut types = [
            // 1: a signed integer of 32 bits.
            [int, kind(1, 0), 4, 1 << 24 | 32].as_slice(),
            // 2: a pointer to anything.
            &[0, kind(2, 0), 0],
            // 3: a function of one argument.
            &[0, kind(13, 1), 1, context, 2],
            // 4: the program, visible to all.
            &[function, kind(12, 1), 3],
        ]
        .concat();
        for name in self.statics {
            types.extend([string(name), kind(12, 0), 3]);
        }
        let lines = self.lines.iter().flat_map(|&(insn_index, number, text)| {
            [8 * insn_index, file, string(text), number << 10 | 1]
        });
        let mut lines: Vec<u32> = lines.collect();
        if !lines.is_empty() {
            lines.splice(0..0, [16, section, self.lines.len() as u32]);
        }
        let functions = [8, section, 1, 0, 4];
        let types = bytes(&types);
        let types_len = types.len() as u32;
        let header = [MAGIC, 24, 0, types_len, types_len, strings.len() as u32];
        let btf = [bytes(&header), types, strings].concat();
        let (functions_len, lines_len) = (4 * functions.len() as u32, 4 * lines.len() as u32);
        let header = [MAGIC, 24, 0, functions_len, functions_len, lines_len];
        (btf, [bytes(&header), bytes(&functions), bytes(&lines)].concat())
    }
}

/// Magic number and version 1.
const MAGIC: u32 = 0x0001_eb9f;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
