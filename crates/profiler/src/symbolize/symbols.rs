//! Functions by the symbol tables of a file: its own, the compressed one in `.gnu_debugdata`, the dynamic one, and
//! the procedure linkage table.
//!
//! The file is read, not mapped: truncating it meanwhile must not crash the profiler.

use std::{fs::File, io::Read as _, ops::Range, os::unix::fs::FileExt as _};

use object::{
    Endianness, Object as _, ObjectSection as _, ReadRef, SectionIndex, elf,
    read::elf::{ElfFile, FileHeader, Rela as _, SectionHeader as _, Sym as _, SymbolTable},
};
use xz2::{read::XzDecoder, stream::Stream};

use crate::untrusted_file::Bounded;

/// Larger compressed symbol tables are not used.
const PACKED_BYTES_MAX: u64 = 256 << 20;
/// Maximum memory for decompression.
const UNPACK_BYTES_MAX: u64 = 128 << 20;
/// Longer names are truncated.
const NAME_BYTES_MAX: usize = 64 << 10;
/// Symbols before an address to consider: functions may be nested, and assembly has labels.
const NESTED_MAX: usize = 8;
/// Size of an entry of the procedure linkage table.
const PLT_ENTRY_BYTES: u64 = 16;

/// A function of a symbol table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub name: String,
    pub range: Range<u64>,
    /// Its end is from the table, and not a guess.
    pub is_sized: bool,
}

/// All functions of a table in a file. Tables are searched in order.
#[derive(Debug, Default)]
pub(super) struct Symbols<'a> {
    tables: Vec<Table<'a>>,
}

#[derive(Debug)]
struct Table<'a> {
    /// By start, the better one last.
    entries: Vec<Entry>,
    names: Names<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    start: u64,
    is_sized: bool,
    is_function: bool,
    is_global: bool,
    end: u64,
    /// Offset in the string table.
    name: u32,
    /// A linkage table entry for the function with this name.
    is_plt: bool,
}

/// A string table.
#[derive(Debug)]
enum Names<'a> {
    In(&'a File, Range<u64>),
    Unpacked(Vec<u8>),
}

impl<'a> Symbols<'a> {
    pub(super) fn read(file: &'a File) -> Self {
        let names = |range| Names::In(file, range);
        let data = &Bounded::new(file);
        let tables = match object::File::parse(data) {
            Ok(object::File::Elf32(elf)) => tables(&elf, &names),
            Ok(object::File::Elf64(elf)) => tables(&elf, &names),
            _ => Vec::new(),
        };
        Self { tables }
    }

    /// The function that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<Symbol> {
        self.tables.iter().find_map(|table| table.find(address))
    }
}

/// The function from the first table that has one. A signal handler returns to the first byte of a function, and
/// the byte before belongs to none.
pub(super) fn find_in(symbols: &[Symbols<'_>], address: u64) -> Option<Symbol> {
    let find = |address| symbols.iter().find_map(|symbols| symbols.find(address));
    find(address).or_else(|| find(address.checked_add(1)?))
}

impl Table<'_> {
    fn find(&self, address: u64) -> Option<Symbol> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let before = || {
            let before = self.entries[..after].iter().rev().take(NESTED_MAX);
            before.filter(|entry| address < entry.end)
        };
        // Symbols with a size take precedence.
        let sized = before().filter(|entry| entry.is_sized);
        sized.chain(before().filter(|entry| !entry.is_sized)).find_map(|entry| {
            let name = self.names.get(entry.name)?;
            let name = if entry.is_plt { format!("{name}@plt") } else { name };
            // Markers of the start of code and data, on some machines.
            let is_name = !name.is_empty() && !name.starts_with('$');
            is_name.then_some(Symbol {
                name,
                range: entry.start..entry.end,
                is_sized: entry.is_sized,
            })
        })
    }
}

impl Names<'_> {
    fn get(&self, at: u32) -> Option<String> {
        let mut bytes = Vec::new();
        match self {
            Self::Unpacked(names) => {
                bytes.extend_from_slice(names.get(at as usize..)?);
            }
            Self::In(file, range) => {
                let mut at = range.start.checked_add(at.into())?;
                let mut piece = [0; 256];
                while bytes.len() < NAME_BYTES_MAX && !bytes.contains(&0) && at < range.end {
                    let read = file.read_at(&mut piece, at).ok().filter(|read| *read > 0)?;
                    bytes.extend_from_slice(&piece[..read]);
                    at += read as u64;
                }
            }
        }
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned())
    }
}

fn tables<'a, 'data, Elf, R>(
    elf: &ElfFile<'data, Elf, R>,
    names: &dyn Fn(Range<u64>) -> Names<'a>,
) -> Vec<Table<'a>>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let mut tables = Vec::new();
    let mut add = |table: &SymbolTable<'data, Elf, R>, is_dynamic| {
        let mut entries = entries(elf, table, is_dynamic);
        if is_dynamic {
            entries.extend(plt(elf, table));
        }
        entries.sort_unstable();
        let strings = elf.elf_section_table().section(table.string_section()).ok();
        let range = strings.and_then(|section| section.file_range(elf.endian()));
        if let (false, Some((offset, size))) = (entries.is_empty(), range) {
            tables.push(Table { entries, names: names(offset..offset.saturating_add(size)) });
        }
    };
    add(elf.elf_symbol_table(), false);
    add(elf.elf_dynamic_symbol_table(), true);
    if elf.elf_symbol_table().is_empty()
        && let Some(packed) = elf.section_by_name(".gnu_debugdata")
        && let Some(unpacked) = packed.data().ok().and_then(unpacked)
    {
        tables.splice(0..0, packed_table(&unpacked));
    }
    tables
}

/// The symbol table of an embedded file.
fn packed_table<'a>(unpacked: &[u8]) -> Option<Table<'a>> {
    let names = |range: Range<u64>| {
        let range = range.start as usize..(range.end as usize).min(unpacked.len());
        Names::Unpacked(unpacked.get(range).unwrap_or_default().to_vec())
    };
    let found = match object::File::parse(unpacked).ok()? {
        object::File::Elf32(elf) if !elf.elf_symbol_table().is_empty() => tables(&elf, &names),
        object::File::Elf64(elf) if !elf.elf_symbol_table().is_empty() => tables(&elf, &names),
        _ => return None,
    };
    found.into_iter().next()
}

fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let stream = Stream::new_stream_decoder(UNPACK_BYTES_MAX, 0).ok()?;
    let mut bytes = Vec::new();
    let mut unpacked = XzDecoder::new_stream(packed, stream).take(PACKED_BYTES_MAX);
    unpacked.read_to_end(&mut bytes).ok()?;
    ((bytes.len() as u64) < PACKED_BYTES_MAX).then_some(bytes)
}

/// The functions of a table. A symbol without a size ends at the next one, at most at the end of its section. A
/// dynamic table is too sparse for that.
fn entries<'data, Elf, R>(
    elf: &ElfFile<'data, Elf, R>,
    table: &SymbolTable<'data, Elf, R>,
    is_dynamic: bool,
) -> Vec<Entry>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let endian = elf.endian();
    let mut entries = Vec::new();
    for (index, symbol) in table.enumerate() {
        let kind = symbol.st_type();
        let is_function = matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let section = table.symbol_section(endian, symbol, index).ok().flatten();
        if !(is_function || kind == elf::STT_NOTYPE) || section.is_none() {
            continue;
        }
        let Some(end_of_code) = section.and_then(|section| end_of_code(elf, section)) else {
            continue;
        };
        let (start, size) = (symbol.st_value(endian).into(), symbol.st_size(endian).into());
        let end: u64 = match size {
            0 if is_dynamic => u64::saturating_add(start, 1),
            0 => end_of_code,
            size => start.saturating_add(size),
        };
        entries.push(Entry {
            start,
            is_sized: size > 0,
            is_function,
            is_global: symbol.st_bind() == elf::STB_GLOBAL,
            end,
            name: symbol.st_name(endian),
            is_plt: false,
        });
    }
    entries.sort_unstable();
    let mut next = u64::MAX;
    for index in (0..entries.len()).rev() {
        if entries.get(index + 1).is_some_and(|after| after.start > entries[index].start) {
            next = entries[index + 1].start;
        }
        if !entries[index].is_sized {
            entries[index].end = entries[index].end.min(next);
        }
    }
    entries
}

/// End of a code section.
fn end_of_code<'data, Elf, R>(elf: &ElfFile<'data, Elf, R>, section: SectionIndex) -> Option<u64>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let section = elf.elf_section_table().section(section).ok()?;
    let endian = elf.endian();
    let is_code = section.sh_flags(endian).contains(elf::SHF_EXECINSTR);
    let (start, size) = (section.sh_addr(endian).into(), section.sh_size(endian).into());
    is_code.then_some(start.saturating_add(size))
}

/// The entries of the procedure linkage table, in the order of its relocations: `.plt` after a header, and
/// `.plt.sec` if there are two.
fn plt<'data, Elf, R>(
    elf: &ElfFile<'data, Elf, R>,
    table: &SymbolTable<'data, Elf, R>,
) -> Vec<Entry>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let endian = elf.endian();
    let header_bytes = match elf.elf_header().e_machine(endian) {
        elf::EM_X86_64 => PLT_ENTRY_BYTES,
        elf::EM_AARCH64 => 2 * PLT_ENTRY_BYTES,
        _ => return Vec::new(),
    };
    let relocations = elf.section_by_name(".rela.plt").and_then(|section| {
        let found = section.elf_section_header().rela(endian, elf.data()).ok()??;
        Some(found.0)
    });
    let starts = [(".plt", header_bytes), (".plt.sec", 0)].map(|(name, skipped)| {
        let section = elf.section_by_name(name)?;
        Some((section.address().checked_add(skipped)?, section.address() + section.size()))
    });
    let mut entries = Vec::new();
    for (index, relocation) in (0..).zip(relocations.unwrap_or_default()) {
        let symbol = relocation.symbol(endian, false);
        let Some(symbol) = symbol.and_then(|index| table.symbol(index).ok()) else { continue };
        for (first, end_of_section) in starts.into_iter().flatten() {
            let start = u64::saturating_add(first, PLT_ENTRY_BYTES.saturating_mul(index));
            if start < end_of_section {
                entries.push(Entry {
                    start,
                    is_sized: true,
                    is_function: true,
                    is_global: false,
                    end: start.saturating_add(PLT_ENTRY_BYTES),
                    name: symbol.st_name(endian),
                    is_plt: true,
                });
            }
        }
    }
    entries
}

// Demangling.

/// Demangles names of Rust (both manglings, without the hash) and C++. Any other name stays unchanged: to a
/// demangler that accepts everything, a C function called `w` is the type `wchar_t`. Within glibc, `nanosleep` is
/// `__GI___nanosleep`.
pub(super) fn demangled(name: &str) -> String {
    if let Some(internal) = name.strip_prefix("__GI_") {
        let public = internal.strip_prefix("__").filter(|public| !public.starts_with("libc_"));
        return public.unwrap_or(internal).to_owned();
    }
    if !is_mangled(name) {
        return of_others(name).unwrap_or_else(|| name.to_owned());
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    // An empty parameter pack leaves its comma.
    let of_cpp = |name: &str| {
        Some(cpp_demangle::Symbol::new(name).ok()?.demangle().ok()?.replace(", >", ">"))
    };
    /// Each part is tried, and a name may be anything.
    const PARTS_MAX: usize = 50;
    // Types that the demangler does not know are mostly those of the result and the arguments, as with
    // `make_shared`. The first prefix that is a valid name is sufficient.
    let ends = || name.match_indices('E').map(|(at, _)| at + 1).take(PARTS_MAX);
    let in_part = || ends().find_map(|end| of_cpp(&name[..end]));
    of_cpp(name).or_else(in_part).unwrap_or_else(|| name.to_owned())
}

/// Demangles OCaml (`camlModule__function_stamp`), D (`_D`, then each part preceded by its length) and gfortran
/// (`__module_MOD_procedure`).
fn of_others(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("caml")
        && rest.starts_with(|first: char| first.is_ascii_uppercase())
        && let Some((function, stamp)) = rest.rsplit_once('_')
        && stamp.bytes().all(|byte| byte.is_ascii_digit())
        && function.contains("__")
    {
        return Some(function.replace("__", "."));
    }
    if let Some(rest) = name.strip_prefix("__")
        && let Some((module, procedure)) = rest.split_once("_MOD_")
    {
        return Some(format!("{module}::{procedure}"));
    }
    let mut rest = name.strip_prefix("_D")?;
    if rest == "main" {
        return Some("D main".to_owned());
    }
    let mut parts: Vec<&str> = Vec::new();
    loop {
        // Before the name of a template.
        rest = rest.strip_prefix("__T").unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let (part, after) = rest[digits..].split_at_checked(length)?;
        parts.push(part);
        rest = after;
    }
    // Types follow.
    (!parts.is_empty() && !rest.is_empty()).then(|| parts.join("."))
}

/// Whether a name begins like mangled names of Rust and C++.
pub(super) fn is_mangled(name: &str) -> bool {
    let mangled = name.trim_start_matches('_');
    mangled.len() < name.len() && mangled.starts_with(['Z', 'R'])
}

#[cfg(test)]
mod tests {

    use super::*;

    fn entry(start: u64, end: u64, kind: [bool; 3], name: u32) -> Entry {
        let [is_sized, is_function, is_global] = kind;
        Entry { start, is_sized, is_function, is_global, end, name, is_plt: name == 0 }
    }

    #[test]
    fn the_best_symbol_that_contains_an_address_is_found() {
        let mut names = b"whole\0".to_vec();
        let mut add = |name: &[u8]| {
            let at = names.len() as u32;
            names.extend_from_slice(name);
            names.push(0);
            at
        };
        let (label, local, mark) = (add(b"label"), add(b"local"), add(b"$x"));
        let (global, odd, empty) = (add(b"global"), add(b"caml\xb7add"), add(b""));
        let mut entries = vec![
            entry(0x1000, 0x1100, [true, true, false], 0),
            entry(0x1010, 0x1200, [false, false, false], label),
            entry(0x1200, 0x1210, [true, true, false], local),
            entry(0x1200, 0x1210, [true, true, true], global),
            entry(0x1204, 0x1300, [false, false, false], mark),
            entry(0x1400, 0x1410, [true, true, true], odd),
            entry(0x1500, 0x1510, [true, true, true], empty),
        ];
        entries.sort_unstable();
        let table = Table { entries, names: Names::Unpacked(names) };
        let check = |address, expected: Option<&str>| {
            let found = table.find(address).map(|symbol| symbol.name);
            assert_eq!(found.as_deref(), expected, "{address:x}");
        };
        check(0xfff, None);
        check(0x1000, Some("whole@plt"));
        // A label within a function does not end it.
        check(0x1020, Some("whole@plt"));
        check(0x1100, Some("label"));
        check(0x1208, Some("global"));
        check(0x1220, None);
        check(0x1400, Some("caml\u{fffd}add"));
        check(0x1505, None);
        check(u64::MAX, None);
    }

    #[test]
    fn functions_of_a_file_are_found_by_its_tables() {
        let file = File::open("/proc/self/exe").expect("open");
        let symbols = Symbols::read(&file);
        let entries = symbols.tables.iter().flat_map(|table| &table.entries);
        let main = entries.clone().filter_map(|entry| symbols.find(entry.start));
        let main = main.into_iter().find(|symbol| symbol.name == "main").expect("main");
        assert!(main.is_sized && symbols.find(main.range.end - 1) == Some(main));
        // Invalid sizes and sections.
        assert!(entries.clone().all(|entry| entry.start <= entry.end));
        let not_elf = tempfile::tempfile().expect("file");
        assert!(Symbols::read(&not_elf).find(0x1000).is_none());
    }

    #[test]
    fn names_that_are_mangled_are_demangled() {
        let check = |name, expected| assert_eq!(demangled(name), expected);
        check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
        check("_RNvC6_123foo3bar", "123foo::bar");
        check(
            "_ZNSt6vectorIiSaIiEE9push_backEOi",
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
        );
        check("__GI___clock_nanosleep", "clock_nanosleep");
        check("__GI__exit", "_exit");
        check("__GI___libc_malloc", "__libc_malloc");
        let make_shared = "_ZSt11make_sharedI4NodeJEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES4_E4typeEEDpOT0_";
        check(make_shared, "std::make_shared<Node>");
        check("camlBusy__slow_81", "Busy.slow");
        check("camlStdlib__List__rev_append_104", "Stdlib.List.rev_append");
        check("caml_alloc_small_dispatch", "caml_alloc_small_dispatch");
        check("_D4busy__T4slowTiZQiFNaNbNiNfiZm", "busy.slow");
        check("_D3std5stdio4File5closeMFNeZv", "std.stdio.File.close");
        check("_Dmain", "D main");
        check("_D9999999x", "_D9999999x");
        check("__m_MOD_slow", "m::slow");
        check("w", "w");
        check("i", "i");
        check("main", "main");
        check("__libc_start_main_impl", "__libc_start_main_impl");
        check("_Zebra", "_Zebra");
        check("_Rest", "_Rest");
        check("", "");
    }
}
