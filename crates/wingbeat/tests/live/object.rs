//! Object files with one program: made here, so that no compiler is needed.

use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, Symbol, SymbolSection},
};
use wingbeat_bpf::code::{Insn, op};

/// `r0 = 1 (XDP_DROP); exit`.
const DROP: [Insn; 2] = [Insn::new(MOV, 0, 0, 0, 1), EXIT];

const MOV: u8 = op::ALU64 | op::MOV;
const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);

/// An XDP program that drops every packet, with its whole name in its type information.
pub(crate) fn dropper(name: &str) -> Vec<u8> {
    object(name, "xdp", &DROP, HasTypes::Yes)
}

/// A program that turns so often in a loop and returns 0.
pub(crate) fn looping(turns: i32) -> Vec<Insn> {
    let mut insns = vec![Insn::new(MOV, 6, 0, 0, turns)];
    insns.extend(count_down());
    insns
}

/// A raw tracepoint program that turns `turns` times where its first argument is small, as a caller may
/// choose it, and ten times where it is an address, as the kernel's events have it.
pub(crate) fn long_on_demand(turns: i32) -> Vec<Insn> {
    let mut insns = vec![
        Insn::new(op::LDX | op::MEM | op::DW, 7, 1, 0, 0),
        Insn::new(MOV, 6, 0, 0, turns),
        Insn::new(op::JMP | op::JLT, 7, 0, 1, 1 << 20),
        Insn::new(MOV, 6, 0, 0, 10),
    ];
    insns.extend(count_down());
    insns
}

/// Turns r6 times.
fn count_down() -> [Insn; 4] {
    [
        Insn::new(op::ALU64 | op::ADD, 6, 0, 0, -1),
        Insn::new(op::JMP | op::JNE, 6, 0, -2, 0),
        Insn::new(MOV, 0, 0, 0, 0),
        EXIT,
    ]
}

/// Whether an object tells the types of its functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HasTypes {
    Yes,
    No,
}

/// An object with one program.
pub(crate) fn object(name: &str, section: &str, insns: &[Insn], types: HasTypes) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let text = object.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Text);
    let code: Vec<u8> = insns.iter().flat_map(|insn| insn.to_bytes()).collect();
    object.append_section_data(text, &code, 8);
    object.add_symbol(Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: code.len() as u64,
        kind: SymbolKind::Text,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(text),
        flags: SymbolFlags::None,
    });
    let mut sections = vec![("license", b"GPL\0".to_vec())];
    if types == HasTypes::Yes {
        let (types, extra) = type_information(name, section);
        sections.extend([(".BTF", types), (".BTF.ext", extra)]);
    }
    for (section, data) in sections {
        let id = object.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Data);
        object.append_section_data(id, &data, 8);
    }
    object.write().expect("an object file")
}

/// BTF of `int NAME(void *ctx)`, and what says that the program's first instruction begins it
/// (Documentation/bpf/btf.rst of the kernel).
fn type_information(name: &str, section: &str) -> (Vec<u8>, Vec<u8>) {
    let mut strings = vec![0];
    let mut string = |text: &str| {
        let offset = strings.len() as u32;
        strings.extend(text.bytes().chain([0]));
        offset
    };
    let (int, context, function, section) =
        (string("int"), string("ctx"), string(name), string(section));
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
