//! Finds the table in an ELF file.

use std::{cell::Cell, ops::Range};

use object::{
    Endian as _, Endianness, Object as _, ObjectSection as _, ReadRef, elf,
    read::elf::{ElfFile64, ProgramHeader as _},
};

use super::GoTable;

/// Its section, depending on how the program was linked.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Maximum segments to search; Go creates three to five.
const SEGMENTS_MAX: usize = 16;
/// Maximum possible table headers to try in a file.
const TRIES_MAX: u32 = 8;
/// Bytes of a segment to search at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// Alignment of tables and words.
const ALIGNMENT: usize = 8;
/// Sections that identify a Go program. C linkers may put the table into a larger section.
const MARKS: [&str; 2] = [".go.buildinfo", ".note.go.buildid"];
/// Offset of the code address in the header, in Go 1.18 to 1.25.
const HEADER_TEXT_BYTES: u64 = 24;
/// The section with the runtime's module data, since Go 1.26.
const MODULE: &str = ".go.module";
/// Offset of the code address in it, after 22 words.
const MODULE_TEXT_BYTES: u64 = 22 * 8;

impl<'data, R: ReadRef<'data>> GoTable<R> {
    /// The table of an ELF file; `None` if it is not a Go program. Without a section header for it, the segments
    /// are searched.
    pub fn find(data: R) -> Option<Self> {
        let object = ElfFile64::<Endianness, R>::parse(data).ok()?;
        let endian = object.endian();
        if endian.is_big_endian() {
            return None;
        }
        let loaded = |header: &&_| is_loaded(header, endian);
        let segments: Vec<_> =
            object.elf_program_headers().iter().filter(loaded).take(SEGMENTS_MAX).collect();
        let tries = Cell::new(0);
        let code: Vec<Range<u64>> = segments
            .iter()
            .filter(|header| header.p_flags(endian).contains(elf::PF_X))
            .map(|header| range(header.p_vaddr(endian), header.p_filesz(endian)))
            .collect();
        let parts =
            || segments.iter().map(|header| (header.p_vaddr(endian), header.file_range(endian)));
        let at = |address, start, len| {
            let mut table = Self::parse(data, start, len)?;
            if table.layout.lacks_text() {
                tries.set(tries.get() + 1);
                if tries.get() > TRIES_MAX {
                    return None;
                }
                let module = object.section_by_name(MODULE).and_then(|it| it.file_range());
                let mut candidates = module.into_iter().chain(parts().map(|(_, part)| part));
                let mark = [address, table.layout.names.checked_add(address)?];
                let relocated = || relocated(&object, address.checked_add(HEADER_TEXT_BYTES)?);
                table.text =
                    relocated().or_else(|| candidates.find_map(|part| text(data, part, mark)))?;
            }
            let range = table.range()?;
            let holds = |code: &Range<u64>| code.start <= range.start && range.end <= code.end;
            code.iter().any(holds).then_some(table)
        };
        let sections = SECTIONS.iter().filter_map(|name| object.section_by_name(name));
        let mut candidates = sections.filter_map(|it| Some((it.address(), it.file_range()?)));
        let found = candidates.find_map(|(address, (start, len))| at(address, start, len));
        let is_go = || MARKS.iter().any(|name| object.section_by_name(name).is_some());
        if found.is_some() || object.sections().next().is_some() && !is_go() {
            return found;
        }
        parts().find_map(|(address, (start, len))| {
            let end = start.checked_add(len)?.min(data.len().ok()?);
            search(data, start..end, is_mark, |found| {
                at(address.checked_add(found - start)?, found, end - found)
            })
        })
    }
}

fn is_loaded(header: &elf::ProgramHeader64<Endianness>, endian: Endianness) -> bool {
    header.p_type(endian) == elf::PT_LOAD
}

fn range(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

/// The value that the dynamic linker writes at an address of a position-independent program, as if loaded at its
/// file's addresses.
fn relocated<'data, R: ReadRef<'data>>(
    object: &ElfFile64<'data, Endianness, R>,
    address: u64,
) -> Option<u64> {
    let mut all = object.dynamic_relocations()?;
    let (_, relocation) = all.find(|(at, _)| *at == address)?;
    u64::try_from(relocation.addend()).ok().filter(|&text| text != 0)
}

/// The address of the code, from the runtime's module data (`moduledata` of Go's runtime/symtab.go) somewhere in a
/// part of the file. It begins with the addresses of the table and of its names.
fn text<'data>(data: impl ReadRef<'data>, part: (u64, u64), mark: [u64; 2]) -> Option<u64> {
    let word = |at: u64| {
        let bytes = data.read_bytes_at(at, 8).ok()?;
        bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    };
    let part = part.0..part.0.checked_add(part.1)?.min(data.len().ok()?);
    let is_first = |bytes: &[u8]| bytes == mark[0].to_le_bytes();
    search(data, part, is_first, |found| {
        if word(found.checked_add(8)?)? != mark[1] {
            return None;
        }
        word(found.checked_add(MODULE_TEXT_BYTES)?)
    })
}

/// Searches a part of a file for words that match a mark, until `take` accepts one.
fn search<'data, T>(
    data: impl ReadRef<'data>,
    part: Range<u64>,
    is_mark: impl Fn(&[u8]) -> bool,
    take: impl Fn(u64) -> Option<T>,
) -> Option<T> {
    let mut at = part.start;
    while at < part.end {
        let piece = data.read_bytes_at(at, PIECE_BYTES.min(part.end - at)).ok()?;
        let marks = piece.chunks_exact(ALIGNMENT).enumerate().filter(|(_, mark)| is_mark(mark));
        for (index, _) in marks {
            if let Some(found) = take(at + (index * ALIGNMENT) as u64) {
                return Some(found);
            }
        }
        at += PIECE_BYTES;
    }
    None
}

/// The start of a table: the magic number of some version, zeros, and the pointer size.
fn is_mark(bytes: &[u8]) -> bool {
    matches!(bytes, [0xfb | 0xfa | 0xf0 | 0xf1, 0xff, 0xff, 0xff, 0, 0, 1 | 2 | 4, 8])
}
