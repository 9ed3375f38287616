//! Parses `.BTF.ext`: types of functions, source lines, accesses to kernel structures.
//!
//! Documentation/bpf/btf.rst (Linux 6.18), section 4. Records belong to sections by name.

use std::collections::BTreeMap;

use super::Flaw;
use crate::btf::table::{TypeKind, TypeTable, word_at};

/// Number of access kinds (`enum bpf_core_relo_kind`, include/uapi/linux/bpf.h, Linux 6.18).
const KINDS: u32 = 13;

/// Maximum parts of an access string, and their maximum value: more than C code ever uses.
const ACCESS_PARTS_MAX: usize = 64;
const ACCESS_INDEX_MAX: u32 = 1 << 24;

/// The records of one section. Offsets are in bytes from its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Records {
    /// Type of the function that begins at an offset.
    pub(super) functions: BTreeMap<u64, u32>,
    /// Ascending by offset.
    pub(super) lines: Vec<Line>,
    /// Ascending by offset.
    pub(super) accesses: Vec<Access>,
}

/// Start of a source line's code, see [`crate::code::LineInfo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) offset: u64,
    pub(super) file: u32,
    pub(super) text: u32,
    pub(super) line_column: u32,
}

/// An instruction that depends on the kernel's types (`struct bpf_core_relo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) offset: u64,
    pub(super) type_id: u32,
    /// The path to the member, such as `0:1:2`, as an offset into the strings.
    pub(super) path: u32,
    pub(super) kind: u32,
}

/// Records by section name.
pub(super) type BtfExt = BTreeMap<String, Records>;

const NAME: &str = ".BTF.ext";
const MAGIC: u16 = 0xeb9f;
/// Length of the header with two parts, and with three.
const HEADER_LEN: usize = 24;
const HEADER_LEN_WITH_ACCESSES: usize = 32;

/// Parses and validates the section.
pub(super) fn parse(bytes: &[u8], types: &TypeTable) -> Result<BtfExt, Flaw> {
    let flaw = |reason: String| Flaw::damaged(NAME, reason);
    let magic = bytes.first_chunk().map(|first: &[u8; 2]| u16::from_le_bytes(*first));
    if magic != Some(MAGIC) {
        return Err(flaw("it does not begin with the magic number of BTF".into()));
    }
    let header_len = word_at(bytes, 4).map_or(0, |len| len as usize);
    if header_len < HEADER_LEN || header_len > bytes.len() {
        return Err(flaw(format!("its header gives its length as {header_len} bytes")));
    }
    let part = |what: &'static str, at: usize, record_len_min: usize| {
        let (offset, len) = (word_at(bytes, at), word_at(bytes, at + 4));
        let (Some(offset), Some(len)) = (offset, len) else { return Ok(None) };
        let start = header_len.saturating_add(offset as usize);
        let bytes = bytes
            .get(start..start.saturating_add(len as usize))
            .ok_or_else(|| flaw(format!("its {what} reach beyond its end")))?;
        Part::new(what, bytes, record_len_min).map_err(flaw)
    };
    let mut found = BtfExt::new();
    let parts: [(&str, usize, usize, Take); 3] = [
        ("function records", 8, 8, function),
        ("line records", 16, 16, line),
        ("CO-RE records", 24, 16, access),
    ];
    let count = if header_len >= HEADER_LEN_WITH_ACCESSES { 3 } else { 2 };
    for (what, at, record_len_min, take) in parts.into_iter().take(count) {
        if let Some(part) = part(what, at, record_len_min)? {
            part.each(types, &mut found, take)?;
        }
    }
    for records in found.values_mut() {
        records.lines.sort_by_key(|line| line.offset);
        records.accesses.sort_by_key(|access| access.offset);
    }
    Ok(found)
}

/// Adds a record to its section. The error is a reason.
type Take = fn(&mut Records, &[u8], &TypeTable) -> Result<(), String>;

/// One of the three parts: the length of its records, then a block for each section.
struct Part<'a> {
    what: &'static str,
    record_len: usize,
    blocks: &'a [u8],
}

impl<'a> Part<'a> {
    fn new(
        what: &'static str,
        bytes: &'a [u8],
        record_len_min: usize,
    ) -> Result<Option<Self>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let record_len = word_at(bytes, 0).map_or(0, |len| len as usize);
        if record_len < record_len_min || !record_len.is_multiple_of(4) {
            return Err(format!(
                "its {what} say to have {record_len} bytes each, of at least {record_len_min}"
            ));
        }
        Ok(Some(Self { what, record_len, blocks: bytes.get(4..).unwrap_or(&[]) }))
    }

    /// Calls `take` with every record and the records of its section.
    fn each(&self, types: &TypeTable, found: &mut BtfExt, take: Take) -> Result<(), Flaw> {
        let flaw = |reason: &str| Flaw::damaged(NAME, format!("its {}: {reason}", self.what));
        let mut blocks = self.blocks;
        while !blocks.is_empty() {
            let (name, count) = word_at(blocks, 0)
                .zip(word_at(blocks, 4))
                .ok_or_else(|| flaw("a block ends within its header"))?;
            let name = types
                .text(name)
                .ok_or_else(|| flaw("the name of a section is not in the strings of .BTF"))?;
            let len =
                self.record_len.checked_mul(count as usize).and_then(|len| len.checked_add(8));
            let (block, rest) = len
                .and_then(|len| blocks.split_at_checked(len))
                .ok_or_else(|| flaw(&format!("those of section {name} reach beyond their end")))?;
            let records = found.entry(name.to_owned()).or_default();
            for record in block.get(8..).unwrap_or(&[]).chunks_exact(self.record_len) {
                take(records, record, types)
                    .map_err(|reason| flaw(&format!("one of section {name}: {reason}")))?;
            }
            blocks = rest;
        }
        Ok(())
    }
}

fn word(record: &[u8], at: usize) -> Result<u32, String> {
    word_at(record, at).ok_or_else(|| "it is cut short".into())
}

fn offset(record: &[u8]) -> Result<u64, String> {
    let offset = word(record, 0)?;
    match offset.is_multiple_of(8) {
        true => Ok(offset.into()),
        false => Err(format!("it is for offset {offset}, within an instruction")),
    }
}

fn function(records: &mut Records, record: &[u8], types: &TypeTable) -> Result<(), String> {
    let (offset, type_id) = (offset(record)?, word(record, 4)?);
    if types.get(type_id).is_none_or(|found| found.kind != TypeKind::FUNC) {
        return Err(format!("its type {type_id} is not that of a function"));
    }
    records.functions.insert(offset, type_id);
    Ok(())
}

fn line(records: &mut Records, record: &[u8], types: &TypeTable) -> Result<(), String> {
    let (file, text) = (word(record, 4)?, word(record, 8)?);
    for name in [file, text] {
        types.text_bytes(name).ok_or("its file or text is not in the strings of .BTF")?;
    }
    let (offset, line_column) = (offset(record)?, word(record, 12)?);
    records.lines.push(Line { offset, file, text, line_column });
    Ok(())
}

fn access(records: &mut Records, record: &[u8], types: &TypeTable) -> Result<(), String> {
    let (offset, type_id) = (offset(record)?, word(record, 4)?);
    let (path, kind) = (word(record, 8)?, word(record, 12)?);
    if kind >= KINDS {
        return Err(format!("it is of kind {kind}, which is not known here"));
    }
    types.get(type_id).ok_or_else(|| format!("there is no type {type_id}"))?;
    let text = types.text(path).ok_or("its path is not in the strings of .BTF")?;
    let parts: Vec<_> = text.split(':').collect();
    let is_index = |part: &&str| part.parse().is_ok_and(|index: u32| index <= ACCESS_INDEX_MAX);
    if parts.len() > ACCESS_PARTS_MAX || !parts.iter().all(is_index) {
        return Err(format!("its path is {text:?}"));
    }
    records.accesses.push(Access { offset, type_id, path, kind });
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 1: int; 2: prototype; 3: function "f". Strings: "xdp" at 1, "f" at 5, "0:1" at 7, "a" at 11.
    fn types() -> TypeTable {
        let words: [u32; 10] = [0, 1 << 24, 4, 0x20, 0, 13 << 24, 0, 5, 12 << 24, 2];
        let strings = b"\0xdp\0f\x000:1\0a\0";
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let header = [24, 0, 40, 40, strings.len() as u32];
        bytes.extend(header.iter().chain(&words).flat_map(|word| word.to_le_bytes()));
        bytes.extend(strings);
        TypeTable::parse(&bytes).unwrap()
    }

    /// The section with these three parts.
    fn section(functions: &[u32], lines: &[u32], accesses: &[u32]) -> Vec<u8> {
        let mut words = vec![32];
        let mut offset = 0;
        for part in [functions, lines, accesses] {
            let len = part.len() as u32 * 4;
            words.extend([offset, len]);
            offset += len;
        }
        words.extend([functions, lines, accesses].concat());
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn records_belong_to_sections() {
        let functions = [12, 1, 1, 8, 3, 99];
        let lines = [16, 1, 2, 16, 1, 5, 1 << 10, 8, 1, 5, 2 << 10, 5, 1, 0, 1, 5, 3 << 10];
        let accesses = [16, 1, 1, 24, 1, 7, 0];
        let found = parse(&section(&functions, &lines, &accesses), &types()).unwrap();
        let line = |offset, line_column| Line { offset, file: 1, text: 5, line_column };
        let xdp = Records {
            functions: [(8, 3)].into(),
            lines: vec![line(8, 2 << 10), line(16, 1 << 10)],
            accesses: vec![Access { offset: 24, type_id: 1, path: 7, kind: 0 }],
        };
        let f = Records { lines: vec![line(0, 3 << 10)], ..Default::default() };
        assert_eq!(found, [("xdp".to_owned(), xdp), ("f".to_owned(), f)].into());
        assert_eq!(parse(&section(&[], &[], &[]), &types()), Ok(BtfExt::new()));
    }

    #[test]
    fn what_is_broken_is_refused_with_the_reason() {
        let check = |bytes: &[u8], expected: &str| {
            let text = parse(bytes, &types()).expect_err(expected).in_file("f").to_string();
            assert!(text.contains(".BTF.ext") && text.contains(expected), "{text}");
        };
        let functions = |words: &[u32]| section(words, &[], &[]);
        check(b"", "magic number");
        check(&[0x9e, 0xeb, 1, 0], "magic number");
        check(&[0x9f, 0xeb, 1, 0, 23, 0, 0, 0], "23 bytes");
        check(&[0x9f, 0xeb, 1, 0, 99, 0, 0, 0], "99 bytes");
        check(&functions(&[])[..20], "32 bytes");
        check(&functions(&[7]), "7 bytes each");
        check(&functions(&[4]), "say to have 4 bytes each, of at least 8");
        check(&functions(&[9]), "9 bytes each");
        check(&functions(&[8, 1]), "ends within its header");
        check(&functions(&[8, 99, 0]), "not in the strings");
        check(&functions(&[8, 1, 1, 0]), "those of section xdp reach beyond");
        check(&functions(&[8, 1, u32::MAX, 0]), "those of section xdp reach beyond");
        check(&functions(&[8, 1, 1, 4, 3]), "offset 4, within an instruction");
        check(&functions(&[8, 1, 1, 0, 1]), "type 1 is not that of a function");
        check(&functions(&[8, 1, 1, 0, 4]), "type 4 is not that of a function");
        let beyond = |at: usize| {
            let mut bytes = functions(&[]);
            bytes[at + 3] = 0xff;
            bytes
        };
        check(&beyond(8), "its function records reach beyond its end");
        check(&beyond(12), "its function records reach beyond its end");
        check(&beyond(20), "its line records reach beyond its end");
        check(&beyond(28), "its CO-RE records reach beyond its end");
        check(&section(&[], &[12], &[]), "12 bytes each");
        check(&section(&[], &[16, 1, 1, 0, 99, 0, 0], &[]), "file or text");
        let access = |words: &[u32]| section(&[], &[], &[&[16, 1, 1], words].concat());
        check(&access(&[0, 1, 7, 13]), "kind 13");
        check(&access(&[0, 4, 7, 0]), "no type 4");
        check(&access(&[0, 0, 7, 0]), "no type 0");
        check(&access(&[0, 1, 99, 0]), "path is not in");
        check(&access(&[0, 1, 11, 0]), "path is \"a\"");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(words in prop::collection::vec(0..40_u32, 0..48)) {
            let at = words.len() / 3;
            _ = parse(&section(&words[..at], &words[at..2 * at], &words[2 * at..]), &types());
        }
    }
}
