//! Call frame information of an ELF file, and the rules of any stretch of its code.

mod jit;

use std::{io::Read as _, ops::Range};

use flate2::read::ZlibDecoder;
use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame,
    EhFrameHdr, Register, RunTimeEndian, UnwindContext, UnwindOffset, UnwindSection,
};
use object::{
    CompressedData, CompressionFormat, Endian as _, Endianness, Object as _, ObjectSection as _,
    ObjectSymbol as _, ReadRef, SectionKind, SymbolKind,
    elf::{self, FileHeader64},
    read::elf::{ElfFile64, FileHeader, ProgramHeader as _},
};
use wingbeat_profiler_abi::unwind::Rule;

use crate::{
    code::{CodeRules, Sources},
    go_rules::GoRules,
    gopclntab::GoTable,
    interpret::{Bytes, Registers, rule_of},
};

/// Why a file has no tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("not a 64-bit ELF file")]
    NotElf,
    #[error("its architecture is neither x86-64 nor aarch64")]
    Architecture,
    #[error("no segment of it is executable")]
    NoCode,
    #[error("its code spans more than 4 GiB")]
    TooLarge,
}

/// Maximum bytes between the first and the last code address.
const CODE_BYTES_MAX: u64 = 1 << 32;

/// Call frame information that could not be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Function entries that are damaged, completely or from some point on.
    pub entries: u64,
}

/// A section's address and bytes.
#[derive(Debug)]
struct Section {
    address: u64,
    bytes: Vec<u8>,
}

/// A section with function entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    EhFrame,
    DebugFrame,
}

/// A function entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    start: u64,
    source: Source,
    /// Offset in its section.
    offset: usize,
}

/// A file's call frame information.
#[derive(Debug)]
pub struct Image {
    registers: Registers,
    endian: RunTimeEndian,
    /// Executable segments.
    code: Vec<Range<u64>>,
    text: Range<u64>,
    eh_frame: Option<Section>,
    debug_frame: Option<Section>,
    bases: BaseAddresses,
    /// Sorted by address.
    entries: Vec<Entry>,
    /// Rules from Go's function table, which take precedence over entries.
    go: Option<GoRules>,
    /// Rules derived from code without entries.
    code_rules: CodeRules,
}

impl Image {
    /// Reads the headers and the sections with call frame information, and nothing else. Without section headers,
    /// `.eh_frame` is found through program headers.
    pub fn parse<'data>(data: impl ReadRef<'data>) -> Result<Self, ImageError> {
        let object = ElfFile64::<Endianness, _>::parse(data).map_err(|_| ImageError::NotElf)?;
        let endian = object.endian();
        let registers = match object.elf_header().e_machine(endian) {
            elf::EM_X86_64 => Registers::X86_64,
            elf::EM_AARCH64 => Registers::AARCH64,
            _ => return Err(ImageError::Architecture),
        };
        let segments = Segments { headers: object.elf_program_headers(), endian, data };
        let code = segments.code();
        let start = code.iter().map(|range| range.start).min().ok_or(ImageError::NoCode)?;
        let end = code.iter().map(|range| range.end).max().ok_or(ImageError::NoCode)?;
        if end - start > CODE_BYTES_MAX {
            return Err(ImageError::TooLarge);
        }
        let section = |name| {
            let section = object.section_by_name(name)?;
            let bytes = uncompressed(&section.compressed_data().ok()?)?;
            (!bytes.is_empty()).then(|| Section { address: section.address(), bytes })
        };
        let address = |name| object.section_by_name(name).map_or(0, |section| section.address());
        let index = section(".eh_frame_hdr").or_else(|| segments.index());
        let mut image = Self {
            registers,
            endian: match endian.is_big_endian() {
                true => RunTimeEndian::Big,
                false => RunTimeEndian::Little,
            },
            code,
            text: start..end,
            eh_frame: section(".eh_frame"),
            debug_frame: section(".debug_frame"),
            bases: BaseAddresses::default().set_text(address(".text")).set_got(address(".got")),
            entries: Vec::new(),
            go: (registers == Registers::X86_64)
                .then(|| GoTable::find(data).and_then(|table| GoRules::read(&table)))
                .flatten(),
            code_rules: CodeRules::default(),
        };
        let index = index.and_then(|index| image.read_index(&index, &segments));
        image.find_entries(index);
        let read = |address, bytes| segments.read(address, bytes).map(<[u8]>::to_vec);
        if registers == Registers::AARCH64 {
            // Regardless of entries, so that all code of a file can be searched: only gaps of some length would
            // be, and a signal return is short.
            let code = match image.may_have_long_gaps() {
                true => instructions(&object).unwrap_or_else(|| image.code.clone()),
                false => section_range(&object, ".plt").into_iter().collect(),
            };
            image.code_rules = CodeRules::of_stubs(&code, &read);
        } else if image.may_have_long_gaps() {
            image.code_rules = CodeRules::read(&Sources {
                gaps: image.gaps(&instructions(&object).unwrap_or_else(|| image.code.clone())),
                entry: object.entry(),
                functions: &|| functions(&object),
                read: &read,
            });
        }
        Ok(image)
    }

    /// Addresses from the first code byte to the end.
    pub fn text(&self) -> Range<u64> {
        self.text.clone()
    }

    /// Whether a stretch has code.
    pub(crate) fn has_code(&self, stretch: &Range<u64>) -> bool {
        self.code.iter().any(|range| overlap(range, stretch))
    }

    /// Number of function entries, including Go's table.
    pub fn entries(&self) -> usize {
        self.entries.len() + self.go.as_ref().map_or(0, GoRules::functions)
    }

    /// Whether any of its code has a rule. Hand-written assembly may have rules without entries.
    pub fn has_rules(&self) -> bool {
        self.entries() > 0 || !self.code_rules.is_empty()
    }

    /// Size of the sections that the rules come from, in bytes.
    pub fn bytes(&self) -> usize {
        [&self.eh_frame, &self.debug_frame].into_iter().flatten().map(|it| it.bytes.len()).sum()
    }

    /// The entries listed in `.eh_frame_hdr`, which also locates `.eh_frame` without section headers.
    fn read_index<'data>(
        &mut self,
        index: &Section,
        segments: &Segments<'data, impl ReadRef<'data>>,
    ) -> Option<Vec<Entry>> {
        self.bases = self.bases.clone().set_eh_frame_hdr(index.address);
        let header = EhFrameHdr::new(&index.bytes, self.endian).parse(&self.bases, 8).ok()?;
        let start = header.eh_frame_ptr().direct().ok()?;
        if self.eh_frame.is_none() {
            self.eh_frame = segments.section_at(start);
        }
        let table = header.table()?;
        let mut listed = table.iter(&self.bases);
        // There cannot be more entries than bytes.
        if listed.size_hint().0 > index.bytes.len() {
            return None;
        }
        let mut entries = Vec::with_capacity(listed.size_hint().0);
        while let Ok(Some((address, entry))) = listed.next() {
            let (Ok(address), Ok(entry)) = (address.direct(), entry.direct()) else { return None };
            let offset = usize::try_from(entry.checked_sub(start)?).ok()?;
            entries.push(Entry { start: address, source: Source::EhFrame, offset });
        }
        Some(entries)
    }

    /// Lists the entries by address: those of the index, or else all of `.eh_frame`, and those of `.debug_frame`
    /// for other functions.
    fn find_entries(&mut self, index: Option<Vec<Entry>>) {
        if let Some(section) = &self.eh_frame {
            self.bases = self.bases.clone().set_eh_frame(section.address);
        }
        let all = |section: &Option<Section>, source| match (section, source) {
            (None, _) => Vec::new(),
            (Some(section), Source::EhFrame) => {
                list(&self.eh_frame_of(section), &self.bases, source)
            }
            (Some(section), Source::DebugFrame) => {
                list(&self.debug_frame_of(section), &self.bases, source)
            }
        };
        // LLD lists one entry per address, and drops a function's entry if an empty function has the same start.
        let is_whole = |index: &Vec<Entry>| {
            self.eh_frame
                .as_ref()
                .is_none_or(|section| index.len() >= count_functions(&section.bytes, self.endian))
        };
        let index = index.filter(is_whole);
        // The linker keeps entries of removed functions.
        let is_code = |entry: &Entry| self.text.contains(&entry.start);
        let mut entries = index.unwrap_or_else(|| all(&self.eh_frame, Source::EhFrame));
        entries.retain(is_code);
        entries.sort_by_key(|entry| (entry.start, entry.offset));
        let more: Vec<Entry> = all(&self.debug_frame, Source::DebugFrame)
            .into_iter()
            .filter(|more| {
                let before = entries.partition_point(|entry| entry.start <= more.start);
                let known = before.checked_sub(1).and_then(|index| self.range_of(entries[index]));
                is_code(more) && !known.is_some_and(|range| range.contains(&more.start))
            })
            .collect();
        entries.extend(more);
        entries.sort_by_key(|entry| (entry.start, entry.offset));
        entries.dedup();
        self.entries = entries;
    }

    fn eh_frame_of<'a>(&self, section: &'a Section) -> EhFrame<Bytes<'a>> {
        let mut frames = EhFrame::new(&section.bytes, self.endian);
        frames.set_address_size(8);
        frames.set_vendor(self.registers.vendor());
        frames
    }

    fn debug_frame_of<'a>(&self, section: &'a Section) -> DebugFrame<Bytes<'a>> {
        let mut frames = DebugFrame::new(&section.bytes, self.endian);
        frames.set_address_size(8);
        frames.set_vendor(self.registers.vendor());
        frames
    }

    /// Address range of an entry's function.
    fn range_of(&self, entry: Entry) -> Option<Range<u64>> {
        let section = self.eh_frame.as_ref().filter(|_| entry.source == Source::EhFrame)?;
        let frames = self.eh_frame_of(section);
        let found =
            frames.fde_from_offset(&self.bases, entry.offset.into(), EhFrame::cie_from_offset);
        found.ok().map(|found| found.initial_address()..found.end_address())
    }

    /// Start of the function at an address, from its entry.
    pub fn function_at(&self, address: u64) -> Option<u64> {
        let before = self.entries.partition_point(|entry| entry.start <= address);
        let entry = *self.entries.get(before.checked_sub(1)?)?;
        self.cover(entry).range.contains(&address).then_some(entry.start)
    }

    /// The rule for an address; [`Rule::GAP`] if no entry covers it.
    pub fn rule_at(&self, address: u64) -> Rule {
        let mut found = Rule::GAP;
        self.rules(address..address.saturating_add(1), |_, rule| found = rule);
        found
    }

    /// Passes the rules of a stretch to `sink`, each with its start address: in order, the first at the start of
    /// the stretch, and no two adjacent rules equal. Code without an entry has [`Rule::GAP`].
    pub fn rules(&self, stretch: Range<u64>, sink: impl FnMut(u64, Rule)) -> Unreadable {
        let mut last = None;
        let mut sink = sink;
        let mut emit = |address: u64, rule: Rule| {
            if last != Some(rule) && stretch.contains(&address) {
                sink(address, rule);
                last = Some(rule);
            }
        };
        let Some(go) = self.go.as_ref().filter(|go| overlap(&go.range(), &stretch)) else {
            return self.rules_of_entries(stretch.clone(), &mut emit);
        };
        let mut unreadable = Unreadable::default();
        let mut of_entries = |part: Range<u64>, emit: &mut dyn FnMut(u64, Rule)| {
            if part.start < part.end {
                unreadable.entries += self.rules_of_entries(part, emit).entries;
            }
        };
        of_entries(stretch.start..go.range().start, &mut emit);
        for (part, rule) in go.rules(stretch.clone()) {
            match rule {
                Some(rule) => emit(part.start, rule),
                None => of_entries(part, &mut emit),
            }
        }
        of_entries(go.range().end.max(stretch.start)..stretch.end, &mut emit);
        unreadable
    }

    /// Same, from call frame information alone. Adjacent rules may be equal.
    fn rules_of_entries(
        &self,
        stretch: Range<u64>,
        mut emit: &mut dyn FnMut(u64, Rule),
    ) -> Unreadable {
        let mut unreadable = Unreadable::default();
        let (mut context, mut shared) = (UnwindContext::new(), Shared::default());
        let mut at = stretch.start;
        let first = self.entries.partition_point(|entry| entry.start <= stretch.start);
        let first = first.saturating_sub(1);
        for (index, entry) in self.entries.iter().enumerate().skip(first) {
            if entry.start >= stretch.end {
                break;
            }
            if entry.start > at {
                self.code_rules.emit(at..entry.start, emit);
            }
            let next = self.entries.get(index + 1).map_or(u64::MAX, |next| next.start);
            let bounds = stretch.start..stretch.end.min(next);
            let function = Function { image: self, entry: *entry, bounds };
            match function.rules(&mut shared, &mut context, &mut emit) {
                Ok(end) => at = at.max(end),
                Err(Damaged { from, to }) => {
                    unreadable.entries += 1;
                    if from.max(at) < to {
                        emit(from.max(at), Rule::UNSUPPORTED);
                    }
                    at = at.max(to);
                }
            }
        }
        if at < stretch.end {
            self.code_rules.emit(at..stretch.end, emit);
        }
        unreadable
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Counts the function entries of `.eh_frame` by their lengths: only the first words of each are read (Linux
/// Standard Base Core 5.0, 10.6.1).
fn count_functions(bytes: &[u8], endian: RunTimeEndian) -> usize {
    let word = |at: usize| {
        let word = bytes.get(at..)?.first_chunk()?;
        Some(match endian {
            RunTimeEndian::Little => u32::from_le_bytes(*word),
            RunTimeEndian::Big => u32::from_be_bytes(*word),
        })
    };
    let (mut at, mut count) = (0, 0);
    // A length of zero is the end; all ones mean a longer length field, which no linker writes.
    while let Some(length @ 1..=0xffff_fffe) = word(at) {
        // Common entries have 0 there.
        count += usize::from(word(at + 4).is_some_and(|shared| shared != 0));
        at += 4 + length as usize;
    }
    count
}

/// All entries of a section for nonempty functions, up to the first damaged one.
fn list<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    source: Source,
) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(function) = partial.parse(S::cie_from_offset)
            && function.len() > 0
        {
            let (start, offset) = (function.initial_address(), function.offset());
            found.push(Entry { start, source, offset });
        }
    }
    found
}

/// Compressed sections with a larger announced size are rejected.
const SECTION_BYTES_MAX: u64 = 1 << 30;

type ProgramHeader = <FileHeader64<Endianness> as FileHeader>::ProgramHeader;

/// The segments of a file.
struct Segments<'data, R> {
    headers: &'data [ProgramHeader],
    endian: Endianness,
    data: R,
}

impl<'data, R: ReadRef<'data>> Segments<'data, R> {
    /// The executable segments, as far as the file has them.
    fn code(&self) -> Vec<Range<u64>> {
        let is_code = |header: &&ProgramHeader| {
            header.p_type(self.endian) == elf::PT_LOAD
                && header.p_flags(self.endian).contains(elf::PF_X)
        };
        let range = |header: &ProgramHeader| {
            let (start, (offset, size)) =
                (header.p_vaddr(self.endian), header.file_range(self.endian));
            let end = start.checked_add(size.min(self.data.len().ok()?.saturating_sub(offset)))?;
            (start < end).then_some(start..end)
        };
        self.headers.iter().filter(is_code).filter_map(range).collect()
    }

    /// `.eh_frame_hdr`, which has its own program header.
    fn index(&self) -> Option<Section> {
        let header =
            self.headers.iter().find(|it| it.p_type(self.endian) == elf::PT_GNU_EH_FRAME)?;
        let bytes = header.data(self.endian, self.data).ok()?.to_vec();
        Some(Section { address: header.p_vaddr(self.endian), bytes })
    }

    /// Bytes of a segment.
    fn read(&self, address: u64, bytes: u64) -> Option<&'data [u8]> {
        self.headers.iter().filter(|it| it.p_type(self.endian) == elf::PT_LOAD).find_map(|header| {
            let skipped = address.checked_sub(header.p_vaddr(self.endian))?;
            let (offset, size) = header.file_range(self.endian);
            if skipped.checked_add(bytes)? > size {
                return None;
            }
            self.data.read_bytes_at(offset.checked_add(skipped)?, bytes).ok()
        })
    }

    /// The rest of a segment from an address on.
    fn section_at(&self, address: u64) -> Option<Section> {
        self.headers.iter().filter(|it| it.p_type(self.endian) == elf::PT_LOAD).find_map(|header| {
            let skipped = address.checked_sub(header.p_vaddr(self.endian))?;
            let bytes = header.data(self.endian, self.data).ok()?;
            let bytes = bytes.get(usize::try_from(skipped).ok()?..)?.to_vec();
            (!bytes.is_empty()).then_some(Section { address, bytes })
        })
    }
}

/// Contents of a section. Go compresses its `.debug_frame`.
fn uncompressed(section: &CompressedData<'_>) -> Option<Vec<u8>> {
    match section.format {
        CompressionFormat::None => Some(section.data.to_vec()),
        CompressionFormat::Zlib if section.uncompressed_size <= SECTION_BYTES_MAX => {
            let mut bytes = Vec::new();
            let decoder = ZlibDecoder::new(section.data);
            decoder.take(section.uncompressed_size).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        }
        _ => None,
    }
}

/// A function entry, with an address range.
struct Function<'a> {
    image: &'a Image,
    entry: Entry,
    bounds: Range<u64>,
}

/// A function with unknown rules from some address on.
struct Damaged {
    from: u64,
    to: u64,
}

/// The last common entry. The next function mostly uses the same, which is then not parsed again.
#[derive(Default)]
struct Shared<'a> {
    last: Option<(Source, usize, CommonInformationEntry<Bytes<'a>>)>,
}

impl<'i> Function<'i> {
    /// Emits the rules, and returns their end address.
    fn rules(
        &self,
        shared: &mut Shared<'i>,
        context: &mut UnwindContext<usize>,
        emit: &mut impl FnMut(u64, Rule),
    ) -> Result<u64, Damaged> {
        let nothing = Damaged { from: self.entry.start, to: self.entry.start };
        match self.entry.source {
            Source::EhFrame => {
                let section = self.image.eh_frame.as_ref().ok_or(nothing)?;
                self.rules_of(&self.image.eh_frame_of(section), shared, context, emit)
            }
            Source::DebugFrame => {
                let section = self.image.debug_frame.as_ref().ok_or(nothing)?;
                self.rules_of(&self.image.debug_frame_of(section), shared, context, emit)
            }
        }
    }

    fn rules_of<S: UnwindSection<Bytes<'i>>>(
        &self,
        section: &S,
        shared: &mut Shared<'i>,
        context: &mut UnwindContext<usize>,
        emit: &mut impl FnMut(u64, Rule),
    ) -> Result<u64, Damaged> {
        let Range { start: first, end: bound } = self.bounds;
        let Self { image: Image { bases, registers, .. }, entry, .. } = self;
        let offset = S::Offset::from(entry.offset);
        let share = |section: &S, bases: &BaseAddresses, offset: S::Offset| {
            let at = (entry.source, UnwindOffset::into(offset));
            match &shared.last {
                Some((source, offset, known)) if (*source, *offset) == at => Ok(known.clone()),
                _ => {
                    let read = section.cie_from_offset(bases, offset)?;
                    shared.last = Some((at.0, at.1, read.clone()));
                    Ok(read)
                }
            }
        };
        let Ok(function) = section.fde_from_offset(bases, offset, share) else {
            return Err(Damaged { from: entry.start, to: entry.start });
        };
        let (mut at, end) = (function.initial_address(), function.end_address().min(bound));
        // An index that does not match its entry could refer to it from any number of addresses.
        if at != entry.start {
            return Err(Damaged { from: entry.start, to: entry.start });
        }
        let is_signal = function.is_signal_trampoline();
        let Ok(mut rows) = function.rows(section, bases, context) else {
            return Err(Damaged { from: at, to: end });
        };
        loop {
            match rows.next_row() {
                Ok(Some(row)) => {
                    let start = row.start_address().max(first);
                    if start >= end {
                        return Ok(end);
                    }
                    at = row.end_address().min(end);
                    if start < at {
                        emit(start, rule_of(row, section, *registers, is_signal));
                    }
                }
                Ok(None) => return Ok(end),
                Err(_) => return Err(Damaged { from: at, to: end }),
            }
        }
    }
}

// Code of a file without call frame information, and possible function starts in it.

/// In files with at most this much code, all entries are read.
const SMALL_CODE_BYTES: u64 = 2 << 20;
/// Also in files with at least this much code per entry.
const GAP_BYTES_MEAN: u64 = 4096;

impl Image {
    /// Code that no entry covers and that may be more than padding between functions.
    fn gaps(&self, parts: &[Range<u64>]) -> Vec<Range<u64>> {
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
    fn cover(&self, entry: Entry) -> Covered {
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
    fn may_have_long_gaps(&self) -> bool {
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
struct Covered {
    range: Range<u64>,
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
fn instructions<'data>(
    object: &ElfFile64<'data, Endianness, impl ReadRef<'data>>,
) -> Option<Vec<Range<u64>>> {
    let sections = object.sections().filter(|section| section.kind() == SectionKind::Text);
    let range = |address: u64, bytes: u64| Some(address..address.checked_add(bytes)?);
    let found: Vec<Range<u64>> =
        sections.filter_map(|section| range(section.address(), section.size())).collect();
    (!found.is_empty()).then_some(found)
}

/// Address range of a section, by name.
fn section_range<'data>(
    object: &ElfFile64<'data, Endianness, impl ReadRef<'data>>,
    name: &str,
) -> Option<Range<u64>> {
    let section = object.section_by_name(name)?;
    Some(section.address()..section.address().checked_add(section.size())?)
}

/// Function addresses in the symbol tables.
fn functions<'data>(object: &ElfFile64<'data, Endianness, impl ReadRef<'data>>) -> Vec<u64> {
    let symbols = object.symbols().chain(object.dynamic_symbols());
    symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && !symbol.is_undefined())
        .map(|symbol| symbol.address())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_counted_by_lengths() {
        let entry = |shared: u32, more: usize| {
            let length = (4 + more) as u32;
            [length.to_le_bytes().as_slice(), &shared.to_le_bytes(), &vec![9; more]].concat()
        };
        let check = |parts: &[Vec<u8>], expected| {
            assert_eq!(count_functions(&parts.concat(), RunTimeEndian::Little), expected);
        };
        let (shared, function) = (entry(0, 12), entry(20, 8));
        check(&[], 0);
        check(std::slice::from_ref(&shared), 0);
        check(&[shared.clone(), function.clone(), function.clone()], 2);
        check(&[shared, function.clone(), vec![0; 4], function.clone()], 1);
        check(&[function.clone(), vec![0xff; 4], function.clone()], 1);
        // Truncated: complete parts count.
        check(&[function.clone(), function[..8].to_vec()], 2);
        check(&[function[..6].to_vec()], 0);
    }
}
