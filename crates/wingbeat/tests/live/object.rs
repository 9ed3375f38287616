//! An object file with one XDP program, which drops every packet: made here, so that no compiler is
//! needed.

use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, Symbol, SymbolSection},
};

/// `r0 = 1 (XDP_DROP); exit`.
const DROP: [u64; 2] = [0x0000_0001_0000_00b7, 0x95];

/// The object, with the program's whole name in its type information.
pub(crate) fn dropper(name: &str) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let xdp = object.add_section(Vec::new(), b"xdp".to_vec(), SectionKind::Text);
    let code: Vec<u8> = DROP.iter().flat_map(|insn| insn.to_le_bytes()).collect();
    object.append_section_data(xdp, &code, 8);
    object.add_symbol(Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: code.len() as u64,
        kind: SymbolKind::Text,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(xdp),
        flags: SymbolFlags::None,
    });
    let (types, extra) = type_information(name);
    for (section, data) in [("license", b"GPL\0".to_vec()), (".BTF", types), (".BTF.ext", extra)] {
        let id = object.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Data);
        object.append_section_data(id, &data, 8);
    }
    object.write().expect("an object file")
}

/// BTF of `int NAME(void *ctx)`, and what says that the program's first instruction begins it
/// (Documentation/bpf/btf.rst of the kernel).
fn type_information(name: &str) -> (Vec<u8>, Vec<u8>) {
    let mut strings = vec![0];
    let mut string = |text: &str| {
        let offset = strings.len() as u32;
        strings.extend(text.bytes().chain([0]));
        offset
    };
    let (int, context, function, section) =
        (string("int"), string("ctx"), string(name), string("xdp"));
    let kind = |kind: u32, vlen: u32| kind << 24 | vlen;
    let types = [
        // 1: a signed integer of 32 bits.
        [int, kind(1, 0), 4, 1 << 24 | 32].as_slice(),
        // 2: a pointer to anything.
        &[0, kind(2, 0), 0],
        // 3: a function of one argument.
        &[0, kind(13, 1), 1, context, 2],
        // 4: the function, visible to all.
        &[function, kind(12, 1), 3],
    ]
    .concat();
    let types = bytes(&types);
    let header = [MAGIC, 24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
    let btf = [bytes(&header), types, strings].concat();
    // One record of a function, then one of a line, each in one section.
    let functions = [8, section, 1, 0, 4];
    let lines = [16, section, 1, 0, section, section, 1 << 10 | 1];
    let (functions_len, lines_len) = (4 * functions.len() as u32, 4 * lines.len() as u32);
    let header = [MAGIC, 24, 0, functions_len, functions_len, lines_len];
    (btf, [bytes(&header), bytes(&functions), bytes(&lines)].concat())
}

/// Magic number and version 1.
const MAGIC: u32 = 0x0001_eb9f;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
