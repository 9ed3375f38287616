//! Writes ELF objects, valid or not.
//!
//! The reader under test uses the crate `object`; this shares no code with it.
//!
//! - [`btf`]: type information. [`typed`]: objects from functions, with types and lines.
//! - [`insns`]: some instructions. [`sample`]: an object with every feature.

pub mod btf;
pub mod sample;
pub mod typed;

use wingbeat_bpf_loader::code::{Insn, op};

/// `e_machine` and `e_type` of an object of eBPF.
const EM_BPF: u16 = 247;
const ET_REL: u16 = 1;

pub const SHT_PROGBITS: u32 = 1;
pub const SHT_SYMTAB: u32 = 2;
pub const SHT_STRTAB: u32 = 3;
pub const SHT_RELA: u32 = 4;
pub const SHT_NOBITS: u32 = 8;
pub const SHT_REL: u32 = 9;

pub const SHF_WRITE: u64 = 1;
pub const SHF_ALLOC: u64 = 2;
pub const SHF_EXECINSTR: u64 = 4;

pub const STT_NOTYPE: u8 = 0;
pub const STT_OBJECT: u8 = 1;
pub const STT_FUNC: u8 = 2;
pub const STT_SECTION: u8 = 3;

pub const STB_LOCAL: u8 = 0;
pub const STB_GLOBAL: u8 = 1;
pub const STB_WEAK: u8 = 2;

/// Relocation of a `ldimm64`, and of a call.
pub const R_BPF_64_64: u32 = 1;
pub const R_BPF_64_32: u32 = 10;
/// Relocation of eight bytes of data.
pub const R_BPF_64_ABS64: u32 = 2;

/// Lengths of the file's header and of a section's, in bytes.
pub const HEADER_LEN: usize = 64;
pub const SECTION_LEN: usize = 64;
const SYMBOL_LEN: usize = 24;

/// An object to write. Sections count from 1, symbols from 0.
#[derive(Debug, Clone)]
pub struct Object {
    pub machine: u16,
    pub kind: u16,
    pub sections: Vec<Section>,
    pub symbols: Vec<Symbol>,
}

#[derive(Debug, Clone)]
pub struct Section {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub data: Vec<u8>,
    /// Size in bytes of a section without bytes in the file.
    pub absent: u64,
    pub relocations: Vec<Relocation>,
}

#[derive(Debug, Clone, Copy)]
pub struct Relocation {
    pub offset: u64,
    pub symbol: usize,
    pub kind: u32,
}

#[derive(Debug, Clone)]
pub struct Symbol {
    pub name: String,
    /// Number of its section; 0 for none.
    pub section: usize,
    pub value: u64,
    pub size: u64,
    pub kind: u8,
    pub binding: u8,
    /// `st_other`: 2 is hidden.
    pub visibility: u8,
}

impl Object {
    pub fn new() -> Self {
        Self { machine: EM_BPF, kind: ET_REL, sections: Vec::new(), symbols: Vec::new() }
    }

    /// Adds a section and returns its number.
    pub fn section(&mut self, name: &str, kind: u32, flags: u64, data: &[u8]) -> usize {
        let (name, data) = (name.to_owned(), data.to_vec());
        self.sections.push(Section { name, kind, flags, data, absent: 0, relocations: Vec::new() });
        self.sections.len()
    }

    /// Adds an empty section for code.
    pub fn code(&mut self, name: &str) -> usize {
        self.section(name, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, &[])
    }

    /// Adds a data section that is visible to programs.
    pub fn data(&mut self, name: &str, data: &[u8]) -> usize {
        self.section(name, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, data)
    }

    /// Adds a section that is not visible to programs.
    pub fn note(&mut self, name: &str, data: &[u8]) -> usize {
        self.section(name, SHT_PROGBITS, 0, data)
    }

    pub fn at(&mut self, section: usize) -> &mut Section {
        &mut self.sections[section - 1]
    }

    /// Adds a symbol and returns its number.
    pub fn symbol(&mut self, symbol: Symbol) -> usize {
        self.symbols.push(symbol);
        self.symbols.len() - 1
    }

    /// Appends a global function to a code section; returns its symbol.
    pub fn function(&mut self, section: usize, name: &str, insns: &[Insn]) -> usize {
        let code: Vec<u8> = insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        let value = self.at(section).data.len() as u64;
        self.at(section).data.extend(&code);
        self.symbol(Symbol {
            value,
            size: code.len() as u64,
            kind: STT_FUNC,
            ..Symbol::global(name, section)
        })
    }

    /// Like [`function`](Self::function), but static.
    pub fn static_function(&mut self, section: usize, name: &str, insns: &[Insn]) -> usize {
        let symbol = self.function(section, name, insns);
        self.symbols[symbol].binding = STB_LOCAL;
        symbol
    }

    pub fn variable(&mut self, section: usize, name: &str, value: u64, size: u64) -> usize {
        let kind = STT_OBJECT;
        self.symbol(Symbol { value, size, kind, ..Symbol::global(name, section) })
    }

    /// Adds the symbol that represents a section.
    pub fn section_symbol(&mut self, section: usize) -> usize {
        let (kind, binding) = (STT_SECTION, STB_LOCAL);
        self.symbol(Symbol { kind, binding, ..Symbol::global("", section) })
    }

    /// Adds an undefined symbol.
    pub fn undefined(&mut self, name: &str) -> usize {
        self.symbol(Symbol::global(name, 0))
    }

    /// Makes the `ldimm64` at an instruction of a section refer to a symbol.
    pub fn refer(&mut self, section: usize, insn: u64, symbol: usize) {
        let offset = 8 * insn;
        self.at(section).relocations.push(Relocation { offset, symbol, kind: R_BPF_64_64 });
    }

    /// Makes the call at an instruction of a section refer to a symbol.
    pub fn call(&mut self, section: usize, insn: u64, symbol: usize) {
        let offset = 8 * insn;
        self.at(section).relocations.push(Relocation { offset, symbol, kind: R_BPF_64_32 });
    }

    /// Serializes the file. After the sections come relocation sections, `.symtab` and `.strtab`.
    pub fn write(&self) -> Vec<u8> {
        // Local symbols come first, after the null symbol.
        let mut order: Vec<usize> = (0..self.symbols.len()).collect();
        order.sort_by_key(|&number| self.symbols[number].binding != STB_LOCAL);
        let mut places = vec![0_u64; order.len()];
        (1..).zip(&order).for_each(|(place, &number)| places[number] = place);
        // An index beyond the table stays invalid.
        let place = |number: usize| places.get(number).copied().unwrap_or(number as u64);
        let locals = self.symbols.iter().filter(|symbol| symbol.binding == STB_LOCAL).count();
        let mut names = vec![0];
        let mut file = vec![0; HEADER_LEN];
        let mut headers = vec![0; SECTION_LEN];
        let with_relocations = self.sections.iter().filter(|found| !found.relocations.is_empty());
        let symtab = self.sections.len() + with_relocations.count() + 1;
        for found in &self.sections {
            let name = text(&mut names, &found.name);
            let [at, len] = put(&mut file, &found.data);
            let place = [at, len.max(found.absent)];
            headers.extend(header([name, found.kind], found.flags, place, [0, 0], 0));
        }
        for (number, found) in self.sections.iter().enumerate() {
            if found.relocations.is_empty() {
                continue;
            }
            let name = text(&mut names, &format!(".rel{}", found.name));
            let entries = found.relocations.iter().flat_map(|relocation| {
                let info = place(relocation.symbol) << 32 | u64::from(relocation.kind);
                [relocation.offset, info]
            });
            let entries: Vec<u8> = entries.flat_map(u64::to_le_bytes).collect();
            let of = [symtab as u32, number as u32 + 1];
            headers.extend(header([name, SHT_REL], 0, put(&mut file, &entries), of, 16));
        }
        let mut symbols = vec![0; SYMBOL_LEN];
        for &number in &order {
            let found = &self.symbols[number];
            symbols.extend(text(&mut names, &found.name).to_le_bytes());
            symbols.extend([found.binding << 4 | found.kind, found.visibility]);
            symbols.extend((found.section as u16).to_le_bytes());
            symbols.extend([found.value, found.size].into_iter().flat_map(u64::to_le_bytes));
        }
        let (name, of) = (text(&mut names, ".symtab"), [symtab as u32 + 1, locals as u32 + 1]);
        let place = put(&mut file, &symbols);
        headers.extend(header([name, SHT_SYMTAB], 0, place, of, SYMBOL_LEN as u64));
        let name = text(&mut names, ".strtab");
        headers.extend(header([name, SHT_STRTAB], 0, put(&mut file, &names), [0, 0], 0));
        self.finish(file, &headers)
    }

    /// Adds the headers.
    fn finish(&self, mut file: Vec<u8>, headers: &[u8]) -> Vec<u8> {
        pad(&mut file);
        let count = (headers.len() / SECTION_LEN) as u16;
        let headers_at = file.len() as u64;
        file.extend(headers);
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(16, 0);
        header.extend([self.kind, self.machine].into_iter().flat_map(u16::to_le_bytes));
        header.extend([1, 0, 0, 0]);
        header.extend([0, 0, headers_at].into_iter().flat_map(u64::to_le_bytes));
        let tail = [0, 0, HEADER_LEN as u16, 0, 0, SECTION_LEN as u16, count, count - 1];
        header.extend(tail.into_iter().flat_map(u16::to_le_bytes));
        file[..HEADER_LEN].copy_from_slice(&header);
        file
    }
}

impl Symbol {
    /// A global symbol without size, at the beginning of a section.
    pub fn global(name: &str, section: usize) -> Self {
        Self {
            name: name.to_owned(),
            section,
            value: 0,
            size: 0,
            kind: STT_NOTYPE,
            binding: STB_GLOBAL,
            visibility: 0,
        }
    }
}

/// Header of a section (`Elf64_Shdr`): name and kind, flags, offset and length, link and information.
fn header(
    what: [u32; 2],
    flags: u64,
    [offset, len]: [u64; 2],
    of: [u32; 2],
    entry_len: u64,
) -> Vec<u8> {
    let (address, alignment) = (0, 8);
    let mut bytes: Vec<u8> = what.into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend([flags, address, offset, len].into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(of.into_iter().flat_map(u32::to_le_bytes));
    bytes.extend([alignment, entry_len].into_iter().flat_map(u64::to_le_bytes));
    bytes
}

/// Appends data to the file; returns its offset and length.
fn put(file: &mut Vec<u8>, data: &[u8]) -> [u64; 2] {
    pad(file);
    let offset = file.len() as u64;
    file.extend(data);
    [offset, data.len() as u64]
}

fn pad(file: &mut Vec<u8>) {
    file.resize(file.len().next_multiple_of(8), 0);
}

/// Appends a string with terminator and returns its offset.
fn text(strings: &mut Vec<u8>, text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let offset = strings.len() as u32;
    strings.extend(text.bytes().chain([0]));
    offset
}

/// Modifies bytes of a section's header in a file.
pub fn patch_section(file: &mut [u8], section: usize, at: usize, bytes: &[u8]) {
    let headers = u64::from_le_bytes(file[40..48].try_into().expect("eight bytes")) as usize;
    let start = headers + SECTION_LEN * section + at;
    file[start..start + bytes.len()].copy_from_slice(bytes);
}

/// Offsets of the fields of a section's header for [`patch_section`].
pub mod field {
    pub const NAME: usize = 0;
    pub const OFFSET: usize = 24;
    pub const SIZE: usize = 32;
    pub const LINK: usize = 40;
    pub const ENTRY_LEN: usize = 56;
}

/// The few instructions used by objects of the tests.
pub mod insns {
    use super::{Insn, op};

    /// `dst = value`.
    pub fn set(dst: u8, value: i32) -> Insn {
        Insn::new(op::ALU64 | op::MOV, dst, 0, 0, value)
    }

    /// `dst = *(u32 *)(src + offset)`.
    pub fn load(dst: u8, src: u8, offset: i16) -> Insn {
        Insn::new(op::LDX | op::MEM | op::W, dst, src, offset, 0)
    }

    /// A call of a local function, `distance` instructions after the next one. Compilers write -1 if a
    /// relocation defines the target.
    pub fn call(distance: i32) -> Insn {
        Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, distance)
    }

    /// `dst = address`, two instructions.
    pub fn address(dst: u8, offset: i32) -> [Insn; 2] {
        [Insn::new(op::LDIMM64, dst, 0, 0, offset), Insn::default()]
    }

    /// The same in linked form, for the loader or the kernel.
    pub fn linked(dst: u8, source: u8, first: i32, second: i32) -> [Insn; 2] {
        [Insn::new(op::LDIMM64, dst, source, 0, first), Insn::new(0, 0, 0, 0, second)]
    }

    pub const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);

    /// `return value`.
    pub fn give(value: i32) -> [Insn; 2] {
        [set(0, value), EXIT]
    }
}
