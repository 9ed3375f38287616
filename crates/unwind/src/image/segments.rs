//! Reads segments and sections of a file.

use std::{io::Read as _, ops::Range};

use flate2::read::ZlibDecoder;
use object::{
    CompressedData, CompressionFormat, Endianness, ReadRef,
    elf::{self, FileHeader64},
    read::elf::{FileHeader, ProgramHeader as _},
};

use super::Section;

/// Compressed sections with a larger announced size are rejected.
const SECTION_BYTES_MAX: u64 = 1 << 30;

type ProgramHeader = <FileHeader64<Endianness> as FileHeader>::ProgramHeader;

/// The segments of a file.
pub(super) struct Segments<'data, R> {
    pub(super) headers: &'data [ProgramHeader],
    pub(super) endian: Endianness,
    pub(super) data: R,
}

impl<'data, R: ReadRef<'data>> Segments<'data, R> {
    /// The executable segments, as far as the file has them.
    pub(super) fn code(&self) -> Vec<Range<u64>> {
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
    pub(super) fn index(&self) -> Option<Section> {
        let header =
            self.headers.iter().find(|it| it.p_type(self.endian) == elf::PT_GNU_EH_FRAME)?;
        let bytes = header.data(self.endian, self.data).ok()?.to_vec();
        Some(Section { address: header.p_vaddr(self.endian), bytes })
    }

    /// Bytes of a segment.
    pub(super) fn read(&self, address: u64, bytes: u64) -> Option<&'data [u8]> {
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
    pub(super) fn section_at(&self, address: u64) -> Option<Section> {
        self.headers.iter().filter(|it| it.p_type(self.endian) == elf::PT_LOAD).find_map(|header| {
            let skipped = address.checked_sub(header.p_vaddr(self.endian))?;
            let bytes = header.data(self.endian, self.data).ok()?;
            let bytes = bytes.get(usize::try_from(skipped).ok()?..)?.to_vec();
            (!bytes.is_empty()).then_some(Section { address, bytes })
        })
    }
}

/// Contents of a section. Go compresses its `.debug_frame`.
pub(super) fn uncompressed(section: &CompressedData<'_>) -> Option<Vec<u8>> {
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
