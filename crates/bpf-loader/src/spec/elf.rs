//! Reads and validates the ELF parts of an eBPF object: sections, symbols, relocations.
//!
//! aya-obj reads ELF files too, but panics on many damaged ones, and rejects whole objects for one
//! unknown section. Here each error names its section, and all references of later stages are in
//! bounds.

use object::{
    LittleEndian, SectionIndex, SymbolIndex,
    elf::{self, FileHeader64, Sym64},
    read::elf::{FileHeader as _, Rel as _, Rela as _, SectionHeader as _, SectionTable, Sym as _},
};

use super::Flaw;

/// Maximum size of a global data section in bytes: the file may contain only its size, not its contents.
const DATA_SIZE_MAX: u64 = 64 << 20;

/// Role of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Instructions of programs, or of functions that they call (`is_text`).
    Code {
        /// Whether its name says that it contains no programs.
        is_text: bool,
    },
    /// `.BTF`.
    Types,
    /// `.BTF.ext`.
    BtfExt,
    /// `license`.
    License,
    /// `version`.
    Version,
    /// `maps`: numeric definitions.
    LegacyMaps,
    /// `.maps`: typed definitions.
    Maps,
    Data {
        /// Whether programs only read them.
        is_constant: bool,
    },
    /// `.addr_space.1`: variables in an arena.
    ArenaData,
    /// Structures of the kernel, filled in with programs: `.struct_ops`, `.struct_ops.link`.
    StructOps,
    Other,
}

impl Role {
    /// Whether code may refer to its contents as a map, or as a location in one.
    pub(super) fn holds_maps(self) -> bool {
        matches!(self, Self::Data { .. } | Self::ArenaData | Self::Maps | Self::LegacyMaps)
    }
}

/// A section.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    pub(super) role: Role,
    /// Size in bytes, even if all bytes are zero and not in the file.
    pub(super) size: u64,
    /// Its bytes; empty for [`Role::Other`] and if all are zero.
    pub(super) data: &'a [u8],
    /// For code, `.maps` and `.struct_ops`, ascending by offset.
    pub(super) relocations: Vec<Relocation>,
}

/// Location of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Definition {
    /// In the section with this index.
    Section(usize),
    /// In another object, or in the kernel.
    Undefined,
    /// Allocated by the linker: an uninitialised variable, with compilers that share these between files.
    Common,
    /// None: names of files, absolute values.
    Nowhere,
}

/// A symbol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) definition: Definition,
    /// Offset in its section, in bytes.
    pub(super) value: u64,
    /// Size in bytes.
    pub(super) size: u64,
    pub(super) is_function: bool,
    /// Whether it represents its section.
    pub(super) is_section: bool,
    pub(super) is_local: bool,
    pub(super) is_weak: bool,
    pub(super) is_hidden: bool,
}

/// A location that refers to a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Relocation {
    /// Offset in its section, in bytes.
    pub(super) offset: u64,
    /// Index of the symbol, in [`Elf::symbols`].
    pub(super) symbol: usize,
}

/// Contents of a file. Sections and symbols have their ELF indices.
#[derive(Debug, Clone)]
pub(super) struct Elf<'a> {
    pub(super) sections: Vec<Section<'a>>,
    pub(super) symbols: Vec<Symbol<'a>>,
    /// Indices of the symbols in each section.
    symbols_in: Vec<Vec<usize>>,
}

impl<'a> Elf<'a> {
    /// Reads an object file.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Flaw> {
        let header = identify(bytes)?;
        let table = header.sections(LittleEndian, bytes).map_err(|error| {
            Flaw::Damaged(
                None,
                format!("the table of sections cannot be read ({error}); is the file complete?"),
            )
        })?;
        let mut sections = sections(&table, bytes)?;
        let symbols = symbols(&table, bytes, &sections)?;
        relocations(&table, bytes, &mut sections, symbols.len())?;
        let mut symbols_in = vec![Vec::new(); sections.len()];
        for (index, symbol) in symbols.iter().enumerate() {
            if let Definition::Section(section) = symbol.definition
                && let Some(those) = symbols_in.get_mut(section)
            {
                those.push(index);
            }
        }
        Ok(Self { sections, symbols, symbols_in })
    }

    /// The sections with a role, with their indices.
    pub(super) fn with_role(&self, role: Role) -> impl Iterator<Item = (usize, &Section<'a>)> {
        self.sections.iter().enumerate().filter(move |(_, section)| section.role == role)
    }

    /// The bytes of the only section with a role.
    pub(super) fn only(&self, role: Role) -> Result<Option<&'a [u8]>, Flaw> {
        let mut found = self.with_role(role).map(|(_, section)| section);
        let first = found.next();
        match (first, found.next()) {
            (Some(section), Some(_)) => {
                Err(Flaw::damaged(section.name, "there are two sections of this name"))
            }
            (first, _) => Ok(first.map(|section| section.data)),
        }
    }

    /// The symbols in a section that refer to something in it.
    pub(super) fn symbols_in(&self, index: usize) -> impl Iterator<Item = &Symbol<'a>> {
        let those = self.symbols_in.get(index).map_or(&[][..], Vec::as_slice);
        let those = those.iter().filter_map(|&symbol| self.symbols.get(symbol));
        those.filter(|symbol| !symbol.is_section && !symbol.name.is_empty())
    }
}

fn sections<'a>(
    table: &SectionTable<'a, Header>,
    bytes: &'a [u8],
) -> Result<Vec<Section<'a>>, Flaw> {
    let mut found = Vec::with_capacity(table.len());
    for (index, section) in table.enumerate() {
        let name = table
            .section_name(LittleEndian, section)
            .ok()
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(|| {
                Flaw::Damaged(None, format!("section {} has no readable name", index.0))
            })?;
        let kind = section.sh_type(LittleEndian);
        let flags = section.sh_flags(LittleEndian);
        let role = match kind {
            elf::SHT_PROGBITS => {
                let is_code = flags.contains(elf::SHF_EXECINSTR);
                role(name, is_code, flags.contains(elf::SHF_ALLOC))
            }
            elf::SHT_NOBITS => match role(name, false, flags.contains(elf::SHF_ALLOC)) {
                role @ (Role::Data { .. } | Role::ArenaData | Role::Maps) => role,
                _ => Role::Other,
            },
            _ => Role::Other,
        };
        let data = match role {
            Role::Other => &[],
            _ => section.data(LittleEndian, bytes).map_err(|_| {
                Flaw::damaged(name, "it reaches beyond the end of the file; is the file complete?")
            })?,
        };
        let section = Section {
            name,
            role,
            size: section.sh_size(LittleEndian),
            data,
            relocations: Vec::new(),
        };
        check_size(&section)?;
        found.push(section);
    }
    Ok(found)
}

/// Role of a section with this name (libbpf's names, and `maps/…` of old Rust objects).
fn role(name: &str, is_code: bool, is_loaded: bool) -> Role {
    let is = |base: &str| {
        name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if is_code {
        return Role::Code { is_text: is(".text") };
    }
    match name {
        ".BTF" => Role::Types,
        ".BTF.ext" => Role::BtfExt,
        "license" => Role::License,
        "version" => Role::Version,
        ".maps" => Role::Maps,
        _ if is_loaded && is_struct_ops(name) => Role::StructOps,
        // The last form is used by v4l-utils (`lirc_mode2/maps`).
        _ if name == "maps" || name.starts_with("maps/") || name.ends_with("/maps") => {
            Role::LegacyMaps
        }
        _ if is_loaded && (is(".data") || is(".bss")) => Role::Data { is_constant: false },
        ".addr_space.1" if is_loaded => Role::ArenaData,
        _ if is_loaded && is(".rodata") => Role::Data { is_constant: true },
        _ => Role::Other,
    }
}

/// libbpf's names; with `?` the structure is only created on request.
fn is_struct_ops(name: &str) -> bool {
    matches!(name.strip_prefix('?').unwrap_or(name), ".struct_ops" | ".struct_ops.link")
}

fn check_size(section: &Section<'_>) -> Result<(), Flaw> {
    let &Section { name, size, .. } = section;
    match section.role {
        Role::Code { .. } if !size.is_multiple_of(8) => Err(Flaw::damaged(
            name,
            format!("its {size} bytes are not a whole number of instructions (8 bytes each)"),
        )),
        Role::Data { .. } | Role::ArenaData if size > DATA_SIZE_MAX => {
            Err(Flaw::Unsupported(format!(
                "section {name}: {size} bytes of global data are more than the {DATA_SIZE_MAX} that are supported"
            )))
        }
        _ => Ok(()),
    }
}

fn symbols<'a>(
    table: &SectionTable<'a, Header>,
    bytes: &'a [u8],
    sections: &[Section<'a>],
) -> Result<Vec<Symbol<'a>>, Flaw> {
    let unreadable = |what: &str| Flaw::Damaged(None, format!("{what}; is the file complete?"));
    let symbols = table
        .symbols(LittleEndian, bytes, elf::SHT_SYMTAB)
        .map_err(|error| unreadable(&format!("the table of symbols cannot be read ({error})")))?;
    let mut found = Vec::with_capacity(symbols.len());
    for (index, symbol) in symbols.enumerate() {
        let name = symbols
            .symbol_name(LittleEndian, symbol)
            .ok()
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(|| unreadable(&format!("symbol {} has no readable name", index.0)))?;
        let definition = match symbols.symbol_section(LittleEndian, symbol, index) {
            Ok(Some(SectionIndex(section))) if section < sections.len() => {
                Definition::Section(section)
            }
            Ok(None) if symbol.is_undefined(LittleEndian) => Definition::Undefined,
            Ok(None) if symbol.st_shndx(LittleEndian) == elf::SHN_COMMON => Definition::Common,
            Ok(None) => Definition::Nowhere,
            _ => {
                return Err(unreadable(&format!(
                    "symbol {name:?} is in a section that does not exist"
                )));
            }
        };
        let symbol = describe(symbol, name, definition);
        check_symbol(&symbol, sections)?;
        found.push(symbol);
    }
    Ok(found)
}

fn describe<'a>(symbol: &Sym64<LittleEndian>, name: &'a str, definition: Definition) -> Symbol<'a> {
    Symbol {
        name,
        definition,
        value: symbol.st_value(LittleEndian),
        size: symbol.st_size(LittleEndian),
        is_function: symbol.st_type() == elf::STT_FUNC,
        is_section: symbol.st_type() == elf::STT_SECTION,
        is_local: symbol.st_bind() == elf::STB_LOCAL,
        is_weak: symbol.st_bind() == elf::STB_WEAK,
        is_hidden: matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL),
    }
}

/// Checks that a symbol lies within its section, and that a function consists of instructions.
fn check_symbol(symbol: &Symbol<'_>, sections: &[Section<'_>]) -> Result<(), Flaw> {
    let Definition::Section(index) = symbol.definition else { return Ok(()) };
    let Some(section) = sections.get(index).filter(|section| section.role != Role::Other) else {
        return Ok(());
    };
    let &Symbol { name, value, size, .. } = symbol;
    let damaged = |reason: String| Err(Flaw::damaged(section.name, reason));
    if value.checked_add(size).is_none_or(|end| end > section.size) {
        let all = section.size;
        return damaged(format!(
            "symbol {name:?} (offset {value}, {size} bytes) lies outside of it ({all} bytes)"
        ));
    }
    let is_whole = value.is_multiple_of(8) && size.is_multiple_of(8) && size > 0;
    if matches!(section.role, Role::Code { .. }) && symbol.is_function && !is_whole {
        return damaged(format!(
            "function {name:?} (offset {value}, {size} bytes) is not made of whole instructions (8 bytes each)"
        ));
    }
    Ok(())
}

/// Reads the relocations of code, map definitions and struct_ops. Those of other sections are for
/// linkers and debuggers.
fn relocations(
    table: &SectionTable<'_, Header>,
    bytes: &[u8],
    sections: &mut [Section<'_>],
    symbols: usize,
) -> Result<(), Flaw> {
    for section in table.iter() {
        let target = section.info_link(LittleEndian).0;
        let Some(target) = sections.get_mut(target) else { continue };
        let unreadable =
            |error| Flaw::damaged(target.name, format!("its relocations cannot be read: {error}"));
        let mut found = Vec::new();
        if !matches!(target.role, Role::Code { .. } | Role::Maps | Role::StructOps) {
            continue;
        } else if let Some((entries, _)) = section.rel(LittleEndian, bytes).map_err(unreadable)? {
            found
                .extend(entries.iter().map(|r| (r.r_offset(LittleEndian), r.symbol(LittleEndian))));
        } else if let Some((entries, _)) = section.rela(LittleEndian, bytes).map_err(unreadable)? {
            if entries.iter().any(|entry| entry.r_addend(LittleEndian) != 0) {
                return Err(Flaw::Unsupported(format!(
                    "section {}: its relocations have addends of their own (RELA), which no compiler for eBPF writes",
                    target.name
                )));
            }
            let entries = entries.iter();
            found
                .extend(entries.map(|r| (r.r_offset(LittleEndian), r.symbol(LittleEndian, false))));
        }
        for (offset, symbol) in found {
            target.relocations.push(relocation(target, offset, symbol, symbols)?);
        }
    }
    for section in sections {
        section.relocations.sort_by_key(|relocation| relocation.offset);
        let twice = section.relocations.windows(2).find(|pair| pair[0].offset == pair[1].offset);
        if let Some(pair) = twice {
            return Err(Flaw::damaged(
                section.name,
                format!("two relocations are for the same place, offset {}", pair[0].offset),
            ));
        }
    }
    Ok(())
}

fn relocation(
    target: &Section<'_>,
    offset: u64,
    symbol: Option<SymbolIndex>,
    symbols: usize,
) -> Result<Relocation, Flaw> {
    let flaw = |reason| Flaw::damaged(target.name, reason);
    let size = target.size;
    // A relocation may refer at most to the first byte of the last instruction.
    if !offset.is_multiple_of(8) || offset.checked_add(8).is_none_or(|end| end > size) {
        let what = format!("a relocation is for offset {offset}, where nothing begins");
        return Err(flaw(format!("{what} ({size} bytes)")));
    }
    let symbol = symbol.map(|symbol| symbol.0).filter(|&symbol| symbol < symbols);
    let none = || flaw(format!("the relocation for offset {offset} refers to no symbol"));
    Ok(Relocation { offset, symbol: symbol.ok_or_else(none)? })
}

// Identifies the file type: only little-endian 64-bit eBPF objects are parsed further.
//
// For other files the error says what they are, because it is easy to pass the wrong file.

/// The header of an eBPF object.
pub(super) type Header = FileHeader64<LittleEndian>;

/// Length of the header of a 64-bit file, in bytes.
const HEADER_LEN: usize = 64;

/// Offsets of class (32 or 64 bits), byte order, and architecture in the header.
const CLASS_AT: usize = 4;
const BYTE_ORDER_AT: usize = 5;

/// Checks whether `bytes` are an eBPF object, and returns its header.
pub(super) fn identify(bytes: &[u8]) -> Result<&Header, Flaw> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(Flaw::NotAnObject(what_else(bytes)));
    }
    let other = |what: &str| Err(Flaw::NotAnObject(what.into()));
    let cut =
        || Flaw::Damaged(None, format!("it ends within the ELF header, at byte {}", bytes.len()));
    let (Some(&class), Some(&byte_order)) = (bytes.get(CLASS_AT), bytes.get(BYTE_ORDER_AT)) else {
        return Err(cut());
    };
    if class == elf::ELFCLASS32.0 {
        return other("it is a 32-bit file, and eBPF has 64 bits");
    }
    if byte_order == elf::ELFDATA2MSB.0 {
        return other(
            "it was built for big-endian, and this machine is little-endian; build it for bpfel (`clang -target bpfel`, `--target bpfel-unknown-none`)",
        );
    }
    if bytes.len() < HEADER_LEN {
        return Err(cut());
    }
    let header = Header::parse(bytes)
        .map_err(|error| Flaw::Damaged(None, format!("the ELF header cannot be read: {error}")))?;
    let machine = header.e_machine(LittleEndian);
    // Before eBPF had a number, clang wrote none at all (libbpf accepts those too).
    if machine != elf::EM_BPF && machine != elf::EM_NONE {
        return other(&format!(
            "it is machine code for {}, not for eBPF; build it with `clang -target bpf` or for bpfel-unknown-none",
            machine_name(machine)
        ));
    }
    match header.e_type(LittleEndian) {
        elf::ET_REL => Ok(header),
        elf::ET_EXEC | elf::ET_DYN => other(
            "it was linked as a program or a shared library; link it as an object (`ld -r`, bpf-linker)",
        ),
        kind => other(&format!("its ELF type is {}, not that of an object", kind.0)),
    }
}

/// Describes a file other than ELF.
fn what_else(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "it is empty".into();
    }
    let known: [(&[u8], &str); 5] = [
        (
            b"BC\xc0\xde",
            "it is LLVM bitcode; turn it into an object with `llc -march=bpf -filetype=obj` or bpf-linker",
        ),
        (b"!<arch>\n", "it is an archive (ar); take the object out of it with `ar x`"),
        (b"\x1f\x8b", "it is compressed (gzip)"),
        (b"\x28\xb5\x2f\xfd", "it is compressed (zstd)"),
        (b"\x9f\xeb", "it is type information (BTF) alone, without programs"),
    ];
    if let Some((_, what)) = known.iter().find(|(start, _)| bytes.starts_with(start)) {
        return (*what).into();
    }
    let head = bytes.get(..512).unwrap_or(bytes);
    if is_text(head) {
        return "it is a text file; pass the object file that the compiler makes from it".into();
    }
    let first: Vec<_> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("it is not an ELF file: it begins with {}", first.join(" "))
}

/// Whether it is readable text, as far as it goes. The end may cut a character in two.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => bytes
            .get(..error.valid_up_to())
            .map_or("", |valid| std::str::from_utf8(valid).unwrap_or("")),
        Err(_) => return false,
    };
    !text.is_empty() && text.chars().all(|c| !c.is_control() || matches!(c, '\t' | '\r' | '\n'))
}

fn machine_name(machine: elf::Machine) -> String {
    let name = match machine {
        elf::EM_X86_64 => "x86-64",
        elf::EM_AARCH64 => "ARM64",
        elf::EM_RISCV => "RISC-V",
        elf::EM_386 => "x86",
        elf::EM_ARM => "ARM",
        elf::EM_PPC64 => "PowerPC",
        elf::EM_S390 => "s390",
        elf::EM_MIPS => "MIPS",
        elf::EM_LOONGARCH => "LoongArch",
        elf::EM_SBF => "Solana's variant of BPF",
        other => return format!("the machine with ELF number {}", other.0),
    };
    name.into()
}
