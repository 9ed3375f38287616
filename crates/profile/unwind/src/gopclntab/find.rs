//! Where an ELF file has the table.

use std::ops::Range;

use object::{
    Endian as _, Endianness, Object as _, ObjectSection as _, ReadRef, elf,
    read::elf::{ElfFile64, ProgramHeader as _},
};

use super::GoTable;

/// Its section, by how the program was linked.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Bytes of a segment that are searched at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Tables begin at multiples of this.
const ALIGNMENT: usize = 8;
/// Bytes of the header that show what it is.
const MARK_BYTES: usize = 8;

impl<'data, R: ReadRef<'data>> GoTable<R> {
    /// The table of an ELF file; `None` if it was not made by Go. Where there are no section headers, the
    /// segments are searched for it.
    pub fn find(data: R) -> Option<Self> {
        let object = ElfFile64::<Endianness, R>::parse(data).ok()?;
        let endian = object.endian();
        if endian.is_big_endian() {
            return None;
        }
        let loaded = |header: &&_| is_loaded(header, endian);
        let segments = || object.elf_program_headers().iter().filter(loaded);
        let code: Vec<Range<u64>> = segments()
            .filter(|header| header.p_flags(endian).contains(elf::PF_X))
            .map(|header| {
                let start = header.p_vaddr(endian);
                start..start.saturating_add(header.p_filesz(endian))
            })
            .collect();
        let at = |start, len| {
            let table = Self::parse(data, start, len, object.entry())?;
            let range = table.range()?;
            let holds = |code: &Range<u64>| code.start <= range.start && range.end <= code.end;
            code.iter().any(holds).then_some(table)
        };
        if object.sections().next().is_some() {
            let sections = SECTIONS.iter().filter_map(|name| object.section_by_name(name));
            let mut places = sections.filter_map(|section| section.file_range());
            return places.find_map(|(start, len)| at(start, len));
        }
        segments().find_map(|header| {
            let (start, len) = header.file_range(endian);
            let end = start.checked_add(len)?.min(data.len().ok()?);
            search(data, start..end, |found| at(found, end - found))
        })
    }
}

fn is_loaded(header: &elf::ProgramHeader64<Endianness>, endian: Endianness) -> bool {
    header.p_type(endian) == elf::PT_LOAD
}

/// Searches a part of a file for what may be the header of a table, up to one that `is_table` takes.
fn search<'data, T>(
    data: impl ReadRef<'data>,
    part: Range<u64>,
    is_table: impl Fn(u64) -> Option<T>,
) -> Option<T> {
    let mut at = part.start;
    while at < part.end {
        let piece = data.read_bytes_at(at, PIECE_BYTES.min(part.end - at)).ok()?;
        let marks = piece.chunks_exact(ALIGNMENT).enumerate().filter(|(_, mark)| is_mark(mark));
        for (index, _) in marks {
            if let Some(table) = is_table(at + (index * ALIGNMENT) as u64) {
                return Some(table);
            }
        }
        at += PIECE_BYTES;
    }
    None
}

/// The magic number of some version, its zeroes, and the bytes of a pointer.
fn is_mark(bytes: &[u8]) -> bool {
    const _: () = assert!(MARK_BYTES == ALIGNMENT);
    matches!(bytes, [0xfb | 0xfa | 0xf0 | 0xf1, 0xff, 0xff, 0xff, 0, 0, 1 | 2 | 4, 8])
}
