//! Type information (BTF) of the kernel or of an object, for lookup and modification.
//!
//! The format is that of Documentation/bpf/btf.rst (Linux 6.18), section 2. Parsing validates the
//! whole table: every id refers to a type and every name to a string, so that users need no further
//! checks.

use std::io::{Cursor, Read, Seek, SeekFrom};

/// A `BTF_KIND_*` number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeKind(u32);

impl TypeKind {
    pub(crate) const INT: Self = Self(1);
    pub(crate) const PTR: Self = Self(2);
    pub(crate) const ARRAY: Self = Self(3);
    pub(crate) const STRUCT: Self = Self(4);
    pub(crate) const UNION: Self = Self(5);
    pub(crate) const ENUM: Self = Self(6);
    pub(crate) const FWD: Self = Self(7);
    pub(crate) const TYPEDEF: Self = Self(8);
    pub(crate) const VOLATILE: Self = Self(9);
    pub(crate) const CONST: Self = Self(10);
    pub(crate) const RESTRICT: Self = Self(11);
    pub(crate) const FUNC: Self = Self(12);
    pub(crate) const FUNC_PROTO: Self = Self(13);
    pub(crate) const VAR: Self = Self(14);
    pub(crate) const DATASEC: Self = Self(15);
    pub(crate) const FLOAT: Self = Self(16);
    pub(crate) const DECL_TAG: Self = Self(17);
    pub(crate) const TYPE_TAG: Self = Self(18);
    pub(crate) const ENUM64: Self = Self(19);

    /// Words after the common three: fixed part, and per element.
    fn tail_len(self) -> Option<(usize, usize)> {
        Some(match self {
            Self::INT | Self::VAR | Self::DECL_TAG => (1, 0),
            Self::ARRAY => (3, 0),
            Self::STRUCT | Self::UNION | Self::DATASEC | Self::ENUM64 => (0, 3),
            Self::ENUM | Self::FUNC_PROTO => (0, 2),
            Self(2 | 7..=12 | 16 | 18) => (0, 0),
            _ => return None,
        })
    }

    /// Whether it has members.
    pub(crate) fn is_composite(self) -> bool {
        matches!(self, Self::STRUCT | Self::UNION)
    }

    /// Whether it has named values.
    pub(crate) fn is_enumeration(self) -> bool {
        matches!(self, Self::ENUM | Self::ENUM64)
    }

    /// Whether it refers to another type: a typedef, `const` and the like.
    fn is_modifier(self) -> bool {
        matches!(
            self,
            Self::TYPEDEF | Self::VOLATILE | Self::CONST | Self::RESTRICT | Self::TYPE_TAG
        )
    }
}

/// Linkage of functions and variables.
pub(crate) const STATIC: u32 = 0;
pub(crate) const GLOBAL: u32 = 1;
pub(crate) const EXTERN: u32 = 2;

/// `BTF_INT_SIGNED` and `BTF_INT_BOOL` (include/uapi/linux/btf.h, Linux 6.18).
pub(crate) const SIGNED: u32 = 1;
pub(crate) const BOOL: u32 = 4;

/// Bytes of a word, and words of the common part of a type.
const WORD: usize = 4;
const COMMON: usize = 3;
/// Sets [`Type::is_flagged`].
pub(crate) const FLAG: u32 = 1 << 31;
const HEADER_LEN: usize = 24;
/// Chunk size of reading in bytes, a multiple of a word.
const PIECE_LEN: usize = 64 << 10;
const MAGIC: u16 = 0xeb9f;

/// Maximum number of modifiers followed to a type, and of array dimensions: more than any compiler nests.
const DEPTH_MAX: usize = 32;

/// Types and their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeTable {
    words: Vec<u32>,
    /// Start of each type in `words`; that of id 1 is the first.
    starts: Vec<u32>,
    strings: Vec<u8>,
}

/// One type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type<'a> {
    pub(crate) id: u32,
    /// Offset of its name; 0 for none.
    pub(crate) name: u32,
    pub(crate) kind: TypeKind,
    /// Number of elements, or linkage of a function.
    pub(crate) vlen: u32,
    /// For a structure: offsets contain bit-field widths. For an enumeration: it is signed.
    pub(crate) is_flagged: bool,
    /// The referenced type, or its size in bytes.
    pub(crate) link: u32,
    /// Kind-specific data.
    pub(crate) tail: &'a [u32],
}

/// Reads parts of a section.
struct Part<'a, R> {
    source: &'a mut R,
    total: u64,
}

impl<R: Read + Seek> Part<'_, R> {
    /// `len` bytes at an offset; `None` if there are fewer.
    fn bytes(&mut self, at: usize, len: usize) -> Option<Vec<u8>> {
        self.seek(at, len)?;
        let mut bytes = vec![0; len];
        self.source.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn words(&mut self, at: usize, count: usize) -> Option<Vec<u32>> {
        self.seek(at, count.checked_mul(WORD)?)?;
        let mut words = Vec::with_capacity(count);
        let mut piece = vec![0; PIECE_LEN];
        while words.len() < count {
            let piece = &mut piece[..PIECE_LEN.min((count - words.len()) * WORD)];
            self.source.read_exact(piece).ok()?;
            words.extend(piece.as_chunks::<WORD>().0.iter().map(|word| u32::from_le_bytes(*word)));
        }
        Some(words)
    }

    fn seek(&mut self, at: usize, len: usize) -> Option<()> {
        let end = at.checked_add(len)?;
        if u64::try_from(end).ok()? > self.total {
            return None;
        }
        self.source.seek(SeekFrom::Start(at as u64)).ok().map(drop)
    }
}

fn unreadable(error: std::io::Error) -> String {
    format!("they cannot be read: {error}")
}

impl TypeTable {
    /// No types.
    pub(crate) fn empty() -> Self {
        Self { words: Vec::new(), starts: Vec::new(), strings: vec![0] }
    }

    /// Parses and validates a `.BTF` section. The error is a reason.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        Self::read(&mut Cursor::new(bytes))
    }

    /// Like `parse`, but reads a file without another copy: the kernel's has some megabytes.
    pub(crate) fn read(source: &mut (impl Read + Seek)) -> Result<Self, String> {
        let mut part = Part { total: source.seek(SeekFrom::End(0)).map_err(unreadable)?, source };
        let header = part.bytes(0, HEADER_LEN).ok_or("it ends within its header")?;
        let magic = header.first_chunk().map(|first: &[u8; 2]| u16::from_le_bytes(*first));
        if magic != Some(MAGIC) {
            return Err("it does not begin with the magic number of BTF".into());
        }
        let [len, types_at, types_len, strings_at, strings_len] =
            [4, 8, 12, 16, 20].map(|at| word_at(&header, at).unwrap_or(0) as usize);
        if len < HEADER_LEN {
            return Err(format!("its header gives its length as {len} bytes, which is too short"));
        }
        let beyond = |what: &str| format!("its {what} reach beyond its end");
        let types_at = len.saturating_add(types_at);
        part.seek(types_at, types_len).ok_or_else(|| beyond("types"))?;
        if !types_len.is_multiple_of(WORD) {
            return Err("its types are not made of whole words".into());
        }
        let words = part.words(types_at, types_len / WORD).ok_or_else(|| beyond("types"))?;
        let strings_at = len.saturating_add(strings_at);
        let strings = part.bytes(strings_at, strings_len).ok_or_else(|| beyond("strings"))?;
        if strings.first() != Some(&0) || strings.last() != Some(&0) {
            return Err("its strings do not begin and end with a terminator".into());
        }
        let starts = starts(&words)?;
        let table = Self { words, starts, strings };
        check(&table)?;
        Ok(table)
    }

    /// Serializes the section.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let types_len = count(self.words.len() * WORD);
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        let header = [count(HEADER_LEN), 0, types_len, types_len, count(self.strings.len())];
        bytes.extend(header.iter().chain(&self.words).flat_map(|word| word.to_le_bytes()));
        bytes.extend(&self.strings);
        bytes
    }

    /// Number of types, excluding `void`: the highest id.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    /// All types, by ascending id.
    pub(crate) fn all(&self) -> impl Iterator<Item = Type<'_>> {
        (1..=self.len()).filter_map(|id| self.get(id))
    }

    /// The type with this id; `None` for `void`.
    pub(crate) fn get(&self, id: u32) -> Option<Type<'_>> {
        let start = self.start(id)?;
        let (&[name, info, link], rest) = self.words.get(start..)?.split_first_chunk()?;
        let kind = TypeKind(info >> 24 & 0x1f);
        let (fixed, each) = kind.tail_len()?;
        let vlen = info & 0xffff;
        let tail = rest.get(..fixed + each * vlen as usize)?;
        Some(Type { id, name, kind, vlen, is_flagged: info & FLAG != 0, link, tail })
    }

    fn start(&self, id: u32) -> Option<usize> {
        self.starts.get(usize::try_from(id.checked_sub(1)?).ok()?).map(|&at| at as usize)
    }

    /// The first type of this kind and name.
    pub(crate) fn find(&self, kind: TypeKind, name: &str) -> Option<Type<'_>> {
        self.all().find(|found| found.kind == kind && self.is_text(found.name, name))
    }

    /// Whether the string at `offset` equals `text`.
    pub(crate) fn is_text(&self, offset: u32, text: &str) -> bool {
        let tail = usize::try_from(offset).ok().and_then(|offset| self.strings.get(offset..));
        let rest = tail.and_then(|tail| tail.strip_prefix(text.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    /// String at `offset`; `None` also if it is not UTF-8.
    pub(crate) fn text(&self, offset: u32) -> Option<&str> {
        std::str::from_utf8(self.text_bytes(offset)?).ok()
    }

    /// Whether the string at `offset` begins with `text`.
    pub(crate) fn text_begins(&self, offset: u32, text: &str) -> bool {
        let tail = usize::try_from(offset).ok().and_then(|offset| self.strings.get(offset..));
        tail.is_some_and(|tail| tail.starts_with(text.as_bytes()))
    }

    /// Bytes of the string at `offset`: source lines may be in any encoding.
    pub(crate) fn text_bytes(&self, offset: u32) -> Option<&[u8]> {
        let tail = self.strings.get(usize::try_from(offset).ok()?..)?;
        tail.split(|&byte| byte == 0).next().filter(|_| !tail.is_empty())
    }

    /// Name of the type; empty for none.
    pub(crate) fn name(&self, of: Type<'_>) -> &str {
        self.text(of.name).unwrap_or("")
    }

    /// Skips typedefs and modifiers; `None` for `void`.
    pub(crate) fn resolve(&self, id: u32) -> Option<Type<'_>> {
        let mut found = self.get(id)?;
        for _ in 0..DEPTH_MAX {
            if !found.kind.is_modifier() {
                return Some(found);
            }
            found = self.get(found.link)?;
        }
        None
    }

    /// Size of a value of this type in bytes; `None` for types without size.
    pub(crate) fn size(&self, id: u32) -> Option<u32> {
        let (mut id, mut count) = (id, 1_u32);
        for _ in 0..DEPTH_MAX {
            let found = self.resolve(id)?;
            let size = match found.kind {
                TypeKind::ARRAY => {
                    let &[element, _, len] = found.tail else { return None };
                    count = count.checked_mul(len)?;
                    id = element;
                    continue;
                }
                TypeKind::VAR => {
                    id = found.link;
                    continue;
                }
                TypeKind::PTR => 8,
                TypeKind::INT
                | TypeKind::STRUCT
                | TypeKind::UNION
                | TypeKind::ENUM
                | TypeKind::ENUM64
                | TypeKind::FLOAT => found.link,
                _ => return None,
            };
            return size.checked_mul(count);
        }
        None
    }

    /// Adds a string and returns its offset; 0, the offset of the empty string, if there is no room.
    pub(crate) fn add_text(&mut self, text: &str) -> u32 {
        let Ok(offset) = u32::try_from(self.strings.len()) else { return 0 };
        self.strings.extend(text.bytes().filter(|&byte| byte != 0));
        self.strings.push(0);
        offset
    }

    /// Adds a type and returns its id. `tail` is the kind-specific data; `vlen` may include [`FLAG`].
    pub(crate) fn add(
        &mut self,
        kind: TypeKind,
        name: u32,
        vlen: u32,
        link: u32,
        tail: &[u32],
    ) -> u32 {
        self.starts.push(self.words.len() as u32);
        self.words.extend([name, kind.0 << 24 | vlen & (FLAG | 0xffff), link]);
        self.words.extend(tail);
        self.len()
    }

    /// Adds `int`: signed, 32 bits.
    pub(crate) fn add_int(&mut self) -> u32 {
        let name = self.add_text("int");
        self.add(TypeKind::INT, name, 0, 4, &[SIGNED << 24 | 32])
    }

    /// Changes the name of a type.
    pub(crate) fn set_name(&mut self, id: u32, name: u32) {
        self.set(id, 0, name);
    }

    /// Changes the referenced type of a type, or its size.
    pub(crate) fn set_link(&mut self, id: u32, link: u32) {
        self.set(id, 2, link);
    }

    /// Changes the linkage of a function or a variable.
    pub(crate) fn set_linkage(&mut self, id: u32, linkage: u32) {
        match self.get(id).map(|found| found.kind) {
            Some(TypeKind::FUNC) => self.set(id, 1, TypeKind::FUNC.0 << 24 | linkage),
            Some(TypeKind::VAR) => self.set(id, COMMON, linkage),
            _ => {}
        }
    }

    /// Changes the kind-specific data; `tail` must have the same length.
    pub(crate) fn set_tail(&mut self, id: u32, tail: &[u32]) {
        for (index, &word) in tail.iter().enumerate() {
            self.set(id, COMMON + index, word);
        }
    }

    fn set(&mut self, id: u32, index: usize, word: u32) {
        if let Some(slot) = self.start(id).and_then(|start| self.words.get_mut(start + index)) {
            *slot = word;
        }
    }
}

impl Type<'_> {
    /// Linkage of a function or a variable.
    pub(crate) fn linkage(&self) -> u32 {
        match self.kind {
            TypeKind::VAR => self.tail.first().copied().unwrap_or(STATIC),
            _ => self.vlen,
        }
    }

    /// Offset of a structure member, and the width of a bit-field, 0 for others; both in bits.
    pub(crate) fn member_bits(&self, offset: u32) -> (u32, u32) {
        if self.is_flagged { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) }
    }

    /// Names (as offsets) and values of an enumeration.
    pub(crate) fn values(&self) -> Vec<(u32, u64)> {
        let narrow = |&[name, value]: &[u32; 2]| {
            let signed = i64::from(value.cast_signed()).cast_unsigned();
            (name, if self.is_flagged { signed } else { value.into() })
        };
        match self.kind {
            TypeKind::ENUM => self.pairs().map(narrow).collect(),
            TypeKind::ENUM64 => self
                .triples()
                .map(|&[name, low, high]| (name, u64::from(high) << 32 | u64::from(low)))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Encoding of an integer, and its offset in bits, which old compilers used for bit-fields.
    pub(crate) fn integer(&self) -> Option<(u32, u32)> {
        match (self.kind, self.tail) {
            (TypeKind::INT, [data]) => Some((data >> 24 & 0xf, data >> 16 & 0xff)),
            _ => None,
        }
    }

    /// Elements of a structure (name, type, offset in bits), a data section (type, offset, size) or
    /// a 64-bit enumeration.
    pub(crate) fn triples(&self) -> impl Iterator<Item = &[u32; 3]> {
        self.tail.as_chunks().0.iter()
    }

    /// Elements of a function prototype (name, type) or an enumeration (name, value).
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &[u32; 2]> {
        self.tail.as_chunks().0.iter()
    }
}

pub(crate) fn word_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn starts(words: &[u32]) -> Result<Vec<u32>, String> {
    let (mut starts, mut at) = (Vec::with_capacity(words.len() / 6), 0);
    while at < words.len() {
        let id = starts.len() + 1;
        let cut = || format!("type {id} reaches beyond the end of the types");
        let info = words.get(at + 1).ok_or_else(cut)?;
        let kind = info >> 24 & 0x1f;
        let (fixed, each) = TypeKind(kind)
            .tail_len()
            .ok_or_else(|| format!("type {id} is of kind {kind}, which is not known here"))?;
        let end = at + COMMON + fixed + each * (info & 0xffff) as usize;
        if end > words.len() {
            return Err(cut());
        }
        starts.push(u32::try_from(at).map_err(|_| cut())?);
        at = end;
    }
    Ok(starts)
}

// Validates a type table: ids and names refer to something, numbers are in range.

/// Checks every type; the error is a reason.
fn check(table: &TypeTable) -> Result<(), String> {
    table.all().try_for_each(|found| {
        Checked { table, found }.check().map_err(|reason| format!("type {}: {reason}", found.id))
    })
}

struct Checked<'a> {
    table: &'a TypeTable,
    found: Type<'a>,
}

impl Checked<'_> {
    fn check(&self) -> Result<(), String> {
        let Self { found, .. } = self;
        self.name(found.name)?;
        let named = |&[name, id]: &[u32; 2]| self.name(name).and_then(|()| self.type_id(id));
        match found.kind {
            TypeKind::PTR | TypeKind::DECL_TAG => self.type_id(found.link),
            kind if kind.is_modifier() => self.type_id(found.link),
            TypeKind::VAR => self.type_id(found.link).and_then(|()| self.linkage()),
            TypeKind::FUNC => {
                self.linkage()?;
                self.kind_of(found.link, &[TypeKind::FUNC_PROTO])
            }
            TypeKind::FUNC_PROTO => {
                self.type_id(found.link)?;
                found.pairs().try_for_each(named)
            }
            TypeKind::ARRAY => found.tail.iter().take(2).try_for_each(|&id| self.type_id(id)),
            TypeKind::STRUCT | TypeKind::UNION => {
                found.triples().try_for_each(|&[name, id, _]| named(&[name, id]))
            }
            TypeKind::ENUM => found.pairs().try_for_each(|&[name, _]| self.name(name)),
            TypeKind::ENUM64 => found.triples().try_for_each(|&[name, ..]| self.name(name)),
            TypeKind::DATASEC => found
                .triples()
                .try_for_each(|&[id, ..]| self.kind_of(id, &[TypeKind::VAR, TypeKind::FUNC])),
            _ => Ok(()),
        }
    }

    fn name(&self, offset: u32) -> Result<(), String> {
        // The strings end with a terminator, so that any offset within them is valid.
        match (offset as usize) < self.table.strings.len() {
            true => Ok(()),
            false => Err(format!("its name, at {offset}, is not in the strings")),
        }
    }

    fn type_id(&self, id: u32) -> Result<(), String> {
        match id <= self.table.len() {
            true => Ok(()),
            false => Err(format!("it refers to type {id}, of {}", self.table.len())),
        }
    }

    fn kind_of(&self, id: u32, kinds: &[TypeKind]) -> Result<(), String> {
        match self.table.get(id) {
            Some(other) if kinds.contains(&other.kind) => Ok(()),
            _ => Err(format!("it refers to type {id}, which is of the wrong kind")),
        }
    }

    fn linkage(&self) -> Result<(), String> {
        match self.found.linkage() {
            ..=EXTERN => Ok(()),
            other => Err(format!("its linkage is {other}, which does not exist")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Serializes a table with these words and strings.
    fn table(words: &[u32], strings: &[u8]) -> Vec<u8> {
        TypeTable { words: words.to_vec(), starts: Vec::new(), strings: strings.to_vec() }
            .to_bytes()
    }

    const INT: [u32; 4] = [1, 1 << 24, 4, 0x20];
    const STRINGS: &[u8] = b"\0int\0x\0";

    #[test]
    fn types_are_found_by_id_and_name() {
        // 1: int; 2: array of 3 int; 3: array of 2 of those; 4: typedef of 3 "x"; 5: pointer to 4
        let words = [
            INT.as_slice(),
            &[0, 3 << 24, 0, 1, 1, 3],
            &[0, 3 << 24, 0, 2, 1, 2],
            &[5, 8 << 24, 3],
            &[0, 2 << 24, 4],
        ]
        .concat();
        let table = TypeTable::parse(&table(&words, STRINGS)).unwrap();
        assert_eq!(table.len(), 5);
        assert_eq!(table.find(TypeKind::INT, "int").map(|found| found.id), Some(1));
        assert_eq!(table.find(TypeKind::PTR, "int").map(|found| found.id), None);
        assert_eq!(table.resolve(4).map(|found| found.id), Some(3));
        let check = |id, expected| assert_eq!(table.size(id), expected, "{id}");
        check(0, None);
        check(1, Some(4));
        check(3, Some(24));
        check(4, Some(24));
        check(5, Some(8));
        check(6, None);
    }

    #[test]
    fn what_is_changed_is_read_again() {
        let mut table = TypeTable::parse(&table(&INT, STRINGS)).unwrap();
        let name = table.add_text("data");
        let variable = table.add(TypeKind::VAR, name, 0, 1, &[EXTERN]);
        table.set_linkage(variable, GLOBAL);
        let section = table.add(TypeKind::DATASEC, name, 1, 8, &[variable, 0, 4]);
        table.set_tail(section, &[variable, 4, 4]);
        table.set_name(1, 5);
        let again = TypeTable::parse(&table.to_bytes()).unwrap();
        assert_eq!(again, table);
        assert_eq!(again.find(TypeKind::INT, "x").map(|found| found.id), Some(1));
        assert_eq!(again.get(variable).map(|found| found.linkage()), Some(GLOBAL));
        assert_eq!(again.get(section).map(|found| found.tail.to_vec()), Some(vec![variable, 4, 4]));
    }

    #[test]
    fn strings_may_be_in_any_encoding() {
        let table = TypeTable::parse(&table(&INT, b"\0\xff\0")).unwrap();
        assert_eq!(table.text_bytes(1), Some([0xff].as_slice()));
        assert_eq!(table.text(1), None);
        assert_eq!(table.text_bytes(2), Some([].as_slice()));
        assert_eq!(table.text_bytes(3), None);
    }

    #[test]
    fn types_that_go_round_in_circles_have_no_size() {
        // 1: array of itself; 2: const of itself
        let table =
            TypeTable::parse(&table(&[0, 3 << 24, 0, 1, 1, 1, 0, 10 << 24, 2], STRINGS)).unwrap();
        assert_eq!(table.size(1), None);
        assert_eq!(table.size(2), None);
        assert!(table.resolve(2).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(words in prop::collection::vec(any::<u32>(), 0..64), strings: Vec<u8>) {
            if let Ok(table) = TypeTable::parse(&table(&words, &strings)) {
                for found in table.all() {
                    _ = (table.size(found.id), table.name(found));
                }
                prop_assert_eq!(TypeTable::parse(&table.to_bytes()), Ok(table));
            }
        }
    }
}
