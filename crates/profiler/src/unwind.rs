//! Unwinding in user space: reads the unwind rules of files ([`Image`]) for the kernel half's tables, continues
//! walks that reached code without a table ([`finish()`]), and keeps the rules of JIT-compiled code ([`jitdump`]).

mod finish;
pub(crate) mod jitdump;

pub(crate) use finish::{Copied, Memory, finish};

use std::fs::File;

use object::{Object as _, ObjectSegment as _, ReadRef, SegmentFlags, elf};
use wingbeat_profiler_abi::unwind::Rule;

use crate::untrusted_file::Bounded;

/// A loadable segment of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
    executable: bool,
}

/// The structure of an ELF file.
#[derive(Debug)]
pub(crate) struct Image {
    segments: Vec<Segment>,
    build_id: Vec<u8>,
    /// `None` for 32-bit programs and other architectures.
    rules: Option<wingbeat_unwind::Image>,
}

impl Image {
    /// Reads the necessary parts of a file; `None` if it is not ELF.
    pub(crate) fn read(file: &File) -> Option<Self> {
        Self::parse(&Bounded::new(file))
    }

    /// Same as [`read`](Self::read), from any reader.
    pub(crate) fn parse<'data>(data: impl ReadRef<'data>) -> Option<Self> {
        let object = object::File::parse(data).ok()?;
        let segments = object
            .segments()
            .map(|segment| {
                let (offset, size) = segment.file_range();
                let executable = matches!(
                    segment.flags(),
                    SegmentFlags::Elf { p_flags, .. } if p_flags.contains(elf::PF_X)
                );
                Segment { offset, address: segment.address(), size, executable }
            })
            .collect();
        let rules = wingbeat_unwind::Image::parse(data).ok();
        let build_id = object.build_id().ok().flatten().unwrap_or_default().to_vec();
        Some(Self { segments, build_id, rules })
    }

    /// GNU build id; empty if there is none.
    pub(crate) fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// Converts a file offset to an ELF address. They differ: LLD, the default linker for Rust, gives each segment
    /// its own address.
    pub(crate) fn address_of_offset(&self, offset: u64) -> Option<u64> {
        let holds =
            |segment: &&Segment| offset >= segment.offset && offset - segment.offset < segment.size;
        let executable = self.segments.iter().filter(|segment| segment.executable).find(holds);
        let segment = executable.or_else(|| self.segments.iter().find(holds))?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// Added with wrap-around to an offset within a mapped part of the file, gives the address of its code. A
    /// mapping begins at a page boundary, and that page may belong to the previous segment.
    pub(crate) fn address_of_code(&self, offset: u64, len: u64) -> Option<u64> {
        let end = offset.saturating_add(len);
        let is_mapped = |segment: &&Segment| {
            segment.executable
                && segment.offset < end
                && offset < segment.offset.saturating_add(segment.size)
        };
        let segment = self.segments.iter().find(is_mapped)?;
        Some(segment.address.wrapping_sub(segment.offset))
    }

    /// Its unwind rules; `None` for a 32-bit program.
    pub(crate) fn rules(&self) -> Option<&wingbeat_unwind::Image> {
        self.rules.as_ref()
    }

    /// Address range of the executable part, and the file offset of its first byte.
    pub(crate) fn text(&self) -> Option<((u64, u64), u64)> {
        let executable = || self.segments.iter().filter(|segment| segment.executable);
        let first = executable().min_by_key(|segment| segment.address)?;
        let end = executable().map(|segment| segment.address.saturating_add(segment.size)).max()?;
        Some(((first.address, end), first.offset))
    }

    /// Start of the function at an address, from the unwind information.
    pub(crate) fn function_at(&self, address: u64) -> Option<u64> {
        self.rules.as_ref()?.function_at(address)
    }

    /// The unwind rule for an ELF address; [`Rule::GAP`] if there is none.
    pub(crate) fn rule(&self, address: u64) -> Rule {
        self.rules.as_ref().map_or(Rule::GAP, |rules| rules.rule_at(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program() {
        let file = File::open("/proc/self/exe").expect("open");
        let image = Image::read(&file).expect("ELF");
        let ((start, end), offset) = image.text().expect("code");
        assert!(start < end);
        assert_eq!(image.address_of_offset(offset), Some(start));
        assert_eq!(image.address_of_offset(u64::MAX), None);
    }

    #[test]
    fn a_segment_beyond_the_last_address() {
        let segment = Segment { offset: 0, address: u64::MAX, size: 2, executable: true };
        let image = Image { segments: vec![segment], build_id: Vec::new(), rules: None };
        assert_eq!(image.address_of_offset(0), Some(u64::MAX));
        assert_eq!(image.address_of_offset(1), None);
    }

    #[test]
    fn not_elf() {
        let mut file = tempfile::tempfile().expect("file");
        assert!(Image::read(&file).is_none());
        std::io::Write::write_all(&mut file, &[0x7f; 300]).expect("write");
        assert!(Image::read(&file).is_none());
    }
}
