//! Functions of an object: instructions, references, and metadata.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Flaw,
    btf_ext::{Access, BtfExt, Records},
    elf::{Definition, Elf, Relocation, Role, Section, Symbol},
    externs::Externs,
    section::{Attachment, ProgramSpec},
};
use crate::{
    btf::table::{Type, TypeKind, TypeTable},
    code::{Insn, LineInfo},
    program_type::ProgramType,
};

/// A function in the object. Indices are of instructions, from its start.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) name: String,
    /// Index of its section, and its offset there in bytes.
    pub(super) section: usize,
    pub(super) start: u64,
    pub(super) insns: Vec<Insn>,
    /// Its type in the object's BTF.
    pub(super) type_id: Option<u32>,
    pub(super) lines: Vec<LineInfo>,
    /// Accesses to kernel structures; their offsets are from the function's start.
    pub(super) accesses: Vec<Access>,
    /// References of instructions.
    pub(super) references: BTreeMap<usize, Target>,
    pub(super) is_local: bool,
    pub(super) is_hidden: bool,
}

/// Target of a relocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A location in the object; the instruction may contain a distance from there.
    Address {
        section: usize,
        offset: u64,
        /// Symbol, empty for the section itself.
        symbol: String,
    },
    /// A kernel symbol: its number in [`Externs`].
    Extern(usize),
    /// An undefined symbol.
    Nowhere(String),
    /// A common symbol, which only a linker would allocate.
    Common(String),
}

/// All functions, ascending by section and start.
#[derive(Debug, Clone, Default)]
pub(super) struct Functions(pub(super) Vec<Function>);

impl Functions {
    /// Finds them by their symbols.
    pub(super) fn find(elf: &Elf<'_>, btf_ext: &BtfExt, externs: &Externs) -> Result<Self, Flaw> {
        check_names(elf, btf_ext)?;
        let mut found = Vec::new();
        let nothing = Records::default();
        for (index, section) in elf.sections.iter().enumerate() {
            if !matches!(section.role, Role::Code { .. }) {
                continue;
            }
            let records = btf_ext.get(section.name).unwrap_or(&nothing);
            for symbol in functions_in(elf, index, section)? {
                found.push(function(elf, index, &symbol, records, externs));
            }
        }
        check_visible(elf, &found)?;
        Ok(Self(found))
    }

    /// Whether exactly one function has this name.
    pub(super) fn is_only(&self, name: &str) -> bool {
        self.0.iter().filter(|function| function.name == name).count() == 1
    }

    /// Functions of a section, with their numbers.
    pub(super) fn in_section(&self, section: usize) -> impl Iterator<Item = (usize, &Function)> {
        let start = self.0.partition_point(|found| found.section < section);
        let those = self.0.iter().enumerate().skip(start);
        those.take_while(move |(_, found)| found.section == section)
    }

    /// Number of the function that begins at an offset of a section.
    pub(super) fn at(&self, section: usize, start: u64) -> Option<usize> {
        self.0.binary_search_by_key(&(section, start), |found| (found.section, found.start)).ok()
    }
}

/// Code records refer to section names, which therefore must be unique.
fn check_names(elf: &Elf<'_>, btf_ext: &BtfExt) -> Result<(), Flaw> {
    let mut names: Vec<_> = elf
        .sections
        .iter()
        .filter(|section| matches!(section.role, Role::Code { .. }))
        .map(|section| section.name)
        .collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1] && btf_ext.contains_key(pair[0])) {
        Some(pair) => Err(Flaw::Unsupported(format!(
            "two sections with code are called {:?}, so .BTF.ext is ambiguous; link the object \
             again (`ld.lld -r`, `bpftool gen object`)",
            pair[0]
        ))),
        None => Ok(()),
    }
}

/// Programs are selected by name, so names must be unique. Compilers and linkers always give global
/// functions unique names.
fn check_visible(elf: &Elf<'_>, functions: &[Function]) -> Result<(), Flaw> {
    let mut seen = BTreeMap::new();
    for function in functions.iter().filter(|function| !function.is_local) {
        if let Some(other) = seen.insert(&function.name, function.section) {
            let section = |index: usize| elf.sections.get(index).map_or("", |found| found.name);
            let reason = format!(
                "two functions are called {:?}, in sections {} and {}",
                function.name,
                section(other),
                section(function.section)
            );
            return Err(Flaw::Damaged(None, reason));
        }
    }
    Ok(())
}

/// Function symbols in a section, ascending. Of several for the same instructions keeps one, preferably global.
fn functions_in<'a>(
    elf: &'a Elf<'_>,
    index: usize,
    section: &Section<'_>,
) -> Result<Vec<Symbol<'a>>, Flaw> {
    let mut symbols: Vec<Symbol<'a>> =
        elf.symbols_in(index).filter(|symbol| symbol.is_function).copied().collect();
    if symbols.is_empty() {
        symbols = untyped_functions(elf, index, section);
    }
    symbols.sort_by_key(|symbol| (symbol.value, symbol.size, symbol.is_local));
    symbols.dedup_by_key(|symbol| (symbol.value, symbol.size));
    let end = |symbol: &Symbol<'_>| symbol.value.saturating_add(symbol.size);
    match symbols.windows(2).find(|pair| end(&pair[0]) > pair[1].value) {
        Some(pair) => Err(Flaw::damaged(
            section.name,
            format!("functions {:?} and {:?} overlap", pair[0].name, pair[1].name),
        )),
        None => Ok(symbols),
    }
}

/// Compilers before LLVM 7 do not mark symbols as functions, nor give their size. Labels are local,
/// so a global symbol in a code section is a function up to the next one.
fn untyped_functions<'a>(elf: &'a Elf<'_>, index: usize, section: &Section<'_>) -> Vec<Symbol<'a>> {
    let visible = |symbol: &&Symbol<'_>| {
        !symbol.is_local && symbol.size == 0 && symbol.value.is_multiple_of(8)
    };
    let mut symbols: Vec<Symbol<'a>> = elf.symbols_in(index).filter(visible).copied().collect();
    symbols.sort_by_key(|symbol| symbol.value);
    let mut end = section.size;
    for symbol in symbols.iter_mut().rev() {
        symbol.size = end.saturating_sub(symbol.value);
        end = end.min(symbol.value);
    }
    symbols.retain(|symbol| symbol.size > 0);
    symbols
}

fn function(
    elf: &Elf<'_>,
    index: usize,
    symbol: &Symbol<'_>,
    records: &Records,
    externs: &Externs,
) -> Function {
    let start = symbol.value;
    let range = start..start.saturating_add(symbol.size);
    // Offsets within a function are multiples of 8, and below the file size.
    let insn_index = |offset: u64| usize::try_from((offset - start) / 8).unwrap_or(usize::MAX);
    let section = elf.sections.get(index);
    let bytes = usize::try_from(range.start)
        .ok()
        .zip(usize::try_from(range.end).ok())
        .and_then(|(start, end)| section?.data.get(start..end));
    let lines = within(&records.lines, &range, |line| line.offset);
    let accesses = within(&records.accesses, &range, |access| access.offset);
    let relocations = section.map_or(&[][..], |section| &section.relocations);
    let relocations = within(relocations, &range, |relocation| relocation.offset);
    Function {
        name: symbol.name.to_owned(),
        section: index,
        start,
        insns: instructions(bytes.unwrap_or(&[])),
        type_id: records.functions.get(&start).copied(),
        lines: lines
            .iter()
            .map(|line| LineInfo {
                insn_index: u32::try_from(insn_index(line.offset)).unwrap_or(u32::MAX),
                file_offset: line.file,
                text_offset: line.text,
                line_column: line.line_column,
            })
            .collect(),
        accesses: accesses
            .iter()
            .map(|access| Access { offset: access.offset - start, ..*access })
            .collect(),
        references: relocations
            .iter()
            .map(|relocation| {
                (insn_index(relocation.offset), target(elf, relocation.symbol, externs))
            })
            .collect(),
        is_local: symbol.is_local,
        is_hidden: symbol.is_hidden,
    }
}

/// Items in a range of offsets; `all` is sorted by offset.
pub(super) fn within<'a, T>(
    all: &'a [T],
    range: &Range<u64>,
    offset: impl Fn(&T) -> u64,
) -> &'a [T] {
    let start = all.partition_point(|one| offset(one) < range.start);
    let end = all.partition_point(|one| offset(one) < range.end);
    all.get(start..end).unwrap_or(&[])
}

fn target(elf: &Elf<'_>, index: usize, externs: &Externs) -> Target {
    let Some(symbol) = elf.symbols.get(index) else { return Target::Nowhere(String::new()) };
    match symbol.definition {
        Definition::Section(section) => Target::Address {
            section,
            offset: symbol.value,
            symbol: if symbol.is_section { String::new() } else { symbol.name.to_owned() },
        },
        Definition::Undefined => externs
            .by_symbol(index)
            .map_or_else(|| Target::Nowhere(symbol.name.to_owned()), Target::Extern),
        Definition::Nowhere => Target::Nowhere(symbol.name.to_owned()),
        Definition::Common => Target::Common(symbol.name.to_owned()),
    }
}

/// Decodes instructions from the bytes of a little-endian object.
pub(super) fn instructions(bytes: &[u8]) -> Vec<Insn> {
    bytes.as_chunks().0.iter().map(|insn| Insn::from_bytes(*insn)).collect()
}

// struct_ops programs: resolves which member of which kernel structure they implement.
//
// The section's name does not define this. A variable in `.struct_ops` is such a structure with
// initial values: a relocation assigns a program to a member. The object's definition of the
// structure provides the member's name, which is looked up in the kernel's definition, where
// offsets may differ (tools/lib/bpf/libbpf.c, `bpf_object__collect_st_ops_relos`, Linux 6.12).

/// Sets the attach targets of programs of this type. Programs that no structure refers to have none.
pub(super) fn attach(
    programs: &mut [(ProgramSpec, usize)],
    elf: &Elf<'_>,
    types: Option<&TypeTable>,
    functions: &Functions,
) {
    let Some(types) = types else { return };
    let members = members(elf, types, functions);
    for (program, number) in programs {
        if program.r#type == ProgramType::STRUCT_OPS {
            program.attachment = members.get(number).cloned();
        }
    }
}

/// Members implemented by functions, by function number. A function in several structures uses the first, as in libbpf.
fn members(elf: &Elf<'_>, types: &TypeTable, functions: &Functions) -> BTreeMap<usize, Attachment> {
    let variables = types.all().filter(|found| found.kind == TypeKind::VAR);
    let variables: BTreeMap<_, _> = variables.map(|it| (types.name(it), it.link)).collect();
    let mut found = BTreeMap::new();
    for (index, section) in elf.with_role(Role::StructOps) {
        for symbol in elf.symbols_in(index) {
            let structure = variables.get(symbol.name).and_then(|&id| types.resolve(id));
            let Some(structure) = structure.filter(|it| it.kind == TypeKind::STRUCT) else {
                continue;
            };
            let members = by_offset(structure);
            let range = symbol.value..symbol.value.saturating_add(symbol.size);
            for relocation in within(&section.relocations, &range, |it| it.offset) {
                let name = members.get(&(relocation.offset - symbol.value));
                let name = name.and_then(|&name| types.text(name));
                let function = referenced(elf, functions, section, relocation);
                if let (Some(function), Some(member)) = (function, name) {
                    found.entry(function).or_insert_with(|| Attachment::Member {
                        structure: without_flavour(types.name(structure)).to_owned(),
                        member: member.to_owned(),
                    });
                }
            }
        }
    }
    found
}

/// Names of the members other than bit-fields, by their offsets in bytes.
fn by_offset(structure: Type<'_>) -> BTreeMap<u64, u32> {
    let members = structure.triples().filter_map(|&[name, _, offset]| {
        let (bits, width) = structure.member_bits(offset);
        (width == 0).then(|| (u64::from(bits / 8), name))
    });
    members.collect()
}

/// The function that a relocation refers to. The addend in its place is added to the symbol's offset.
fn referenced(
    elf: &Elf<'_>,
    functions: &Functions,
    section: &Section<'_>,
    relocation: &Relocation,
) -> Option<usize> {
    let symbol = elf.symbols.get(relocation.symbol)?;
    let Definition::Section(target) = symbol.definition else { return None };
    let at = usize::try_from(relocation.offset).ok()?;
    let addend = section.data.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    functions.at(target, symbol.value.checked_add(addend)?)
}

/// Strips the suffix after three underscores, which distinguishes variants of a structure.
fn without_flavour(name: &str) -> &str {
    match name.split_once("___") {
        Some((plain, _)) if !plain.is_empty() => plain,
        _ => name,
    }
}
