//! Code of a file without call frame information, and possible function starts in it.

use std::ops::Range;

use gimli::{BaseAddresses, CallFrameInstruction, Register, UnwindSection};
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadRef, SectionKind,
    SymbolKind, read::elf::ElfFile64,
};

use super::{Entry, Image, Source};
use crate::interpret::Bytes;

/// In files with at most this much code, all entries are read.
const SMALL_CODE_BYTES: u64 = 2 << 20;
/// Also in files with at least this much code per entry.
const GAP_BYTES_MEAN: u64 = 4096;

impl Image {
    /// Code that no entry covers and that may be more than padding between functions.
    pub(super) fn gaps(&self, parts: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut covered: Vec<Covered> =
            self.entries.iter().map(|entry| self.cover(*entry)).collect();
        covered
            .extend(self.go.as_ref().map(|go| Covered { range: go.range(), is_outermost: false }));
        covered.sort_by_key(|covered| covered.range.start);
        let mut gaps = Vec::new();
        for code in parts {
            let mut at = code.start;
            let end = Covered { range: code.end..code.end, is_outermost: false };
            for Covered { range, is_outermost } in covered.iter().chain([&end]) {
                let gap = at..range.start.min(code.end);
                // Neither `.fini` nor the end of glibc's `clone` is long.
                let is_short = gap.end.saturating_sub(gap.start) < PADDING_BYTES_MAX;
                let may_be_short = *is_outermost || gap.start == code.start;
                if gap.start < gap.end && (may_be_short || !is_short) {
                    gaps.push(gap);
                }
                at = at.max(range.end);
            }
        }
        gaps
    }

    /// The code that an entry covers.
    pub(super) fn cover(&self, entry: Entry) -> Covered {
        let nothing = Covered { range: entry.start..entry.start, is_outermost: false };
        match entry.source {
            Source::EhFrame => self
                .eh_frame
                .as_ref()
                .map_or(nothing, |section| covered(&self.eh_frame_of(section), &self.bases, entry)),
            Source::DebugFrame => self.debug_frame.as_ref().map_or(nothing, |section| {
                covered(&self.debug_frame_of(section), &self.bases, entry)
            }),
        }
    }

    /// Whether looking for code without call frame information is worthwhile. It requires reading all entries, for
    /// which samples of a large file should not wait: such a file has entries for nearly all of its code, or for
    /// hardly any.
    pub(super) fn may_have_long_gaps(&self) -> bool {
        let bytes = self.text.end - self.text.start;
        bytes <= SMALL_CODE_BYTES || self.entries.len() as u64 * GAP_BYTES_MEAN < bytes
    }
}

/// Linkers and assemblers pad to the next multiple of 16; shorter gaps are ignored.
const PADDING_BYTES_MAX: u64 = 16;

/// `DW_CFA_undefined` of the return address on x86-64: the start of code without a caller.
const OUTERMOST: CallFrameInstruction<usize> =
    CallFrameInstruction::Undefined { register: Register(16) };

/// The code that an entry covers, and whether it begins like code without a caller.
pub(super) struct Covered {
    pub(super) range: Range<u64>,
    is_outermost: bool,
}

fn covered<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    entry: Entry,
) -> Covered {
    let offset = S::Offset::from(entry.offset);
    match section.fde_from_offset(bases, offset, S::cie_from_offset) {
        Ok(function) if function.initial_address() == entry.start => Covered {
            range: entry.start..function.end_address(),
            is_outermost: matches!(
                function.instructions(section, bases).next(),
                Ok(Some(OUTERMOST))
            ),
        },
        _ => Covered { range: entry.start..entry.start, is_outermost: false },
    }
}

/// The code sections, if there are section headers: executable segments may also have data.
pub(super) fn instructions<'data>(
    object: &ElfFile64<'data, Endianness, impl ReadRef<'data>>,
) -> Option<Vec<Range<u64>>> {
    let sections = object.sections().filter(|section| section.kind() == SectionKind::Text);
    let range = |address: u64, bytes: u64| Some(address..address.checked_add(bytes)?);
    let found: Vec<Range<u64>> =
        sections.filter_map(|section| range(section.address(), section.size())).collect();
    (!found.is_empty()).then_some(found)
}

/// Address range of a section, by name.
pub(super) fn section_range<'data>(
    object: &ElfFile64<'data, Endianness, impl ReadRef<'data>>,
    name: &str,
) -> Option<Range<u64>> {
    let section = object.section_by_name(name)?;
    Some(section.address()..section.address().checked_add(section.size())?)
}

/// Function addresses in the symbol tables.
pub(super) fn functions<'data>(
    object: &ElfFile64<'data, Endianness, impl ReadRef<'data>>,
) -> Vec<u64> {
    let symbols = object.symbols().chain(object.dynamic_symbols());
    symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && !symbol.is_undefined())
        .map(|symbol| symbol.address())
        .collect()
}
