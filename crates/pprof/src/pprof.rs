//! Shared code of pprof readers and writers: compression, decompression with a limit, tables by id, string tables.

use std::{
    borrow::Cow,
    io::{self, Read as _, Write},
};

use anyhow::{anyhow, ensure};
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use prost::Message as _;
use rustc_hash::FxHashMap;

use crate::proto::{Function, Mapping, Profile};

/// Largest profile to read from a file, in decompressed bytes.
pub const BYTES_MAX: u64 = 1 << 30;

/// Magic number of gzip.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A message with an invalid reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pprof profile refers to {table} {id}, which is missing")]
pub struct Dangling {
    pub table: &'static str,
    pub id: i128,
}

/// Decompresses gzip'd bytes, or returns others unchanged; at most `most` bytes.
pub fn unpacked(bytes: &[u8], most: u64) -> anyhow::Result<Cow<'_, [u8]>> {
    let mut unpacked = Cow::Borrowed(bytes);
    if bytes.starts_with(&GZIP_MAGIC) {
        let mut owned = Vec::new();
        let read = MultiGzDecoder::new(bytes).take(most.saturating_add(1)).read_to_end(&mut owned);
        read.map_err(|error| anyhow!("cannot be decompressed: {error}"))?;
        unpacked = Cow::Owned(owned);
    }
    ensure!(unpacked.len() as u64 <= most, "exceeds the limit of {most} bytes");
    Ok(unpacked)
}

/// Parses a message.
pub fn decoded(bytes: &[u8]) -> anyhow::Result<Profile> {
    Profile::decode(bytes).map_err(|error| anyhow!("not a pprof profile: {error}"))
}

/// A message's tables, by id.
#[derive(Debug)]
pub struct Tables<'a> {
    pub message: &'a Profile,
    functions: FxHashMap<u64, &'a Function>,
    mappings: FxHashMap<u64, &'a Mapping>,
}

impl<'a> Tables<'a> {
    pub fn new(message: &'a Profile) -> Self {
        let functions = message.function.iter().map(|it| (it.id, it)).collect();
        let mappings = message.mapping.iter().map(|it| (it.id, it)).collect();
        Self { message, functions, mappings }
    }

    pub fn string(&self, index: i64) -> Result<&'a str, Dangling> {
        let found = usize::try_from(index).ok().and_then(|at| self.message.string_table.get(at));
        // The first text is empty, also of a profile without texts.
        let found = found.map(String::as_str).or((index == 0).then_some(""));
        found.ok_or(Dangling { table: "string", id: index.into() })
    }

    pub fn function(&self, id: u64) -> Result<&'a Function, Dangling> {
        self.functions.get(&id).copied().ok_or(Dangling { table: "function", id: id.into() })
    }

    pub fn mapping(&self, id: u64) -> Result<&'a Mapping, Dangling> {
        self.mappings.get(&id).copied().ok_or(Dangling { table: "mapping", id: id.into() })
    }

    /// The file of a mapping; empty for 0.
    pub fn file(&self, mapping: u64) -> Result<&'a str, Dangling> {
        match mapping {
            0 => Ok(""),
            id => self.string(self.mapping(id)?.filename),
        }
    }
}

/// String table of a message under construction, by index; 0 is the empty text.
#[derive(Debug)]
pub struct Strings<'a> {
    table: Vec<String>,
    numbers: FxHashMap<&'a str, i64>,
}

impl Default for Strings<'_> {
    fn default() -> Self {
        // The schema reserves the first entry for the empty text.
        Self { table: vec![String::new()], numbers: FxHashMap::from_iter([("", 0)]) }
    }
}

impl<'a> Strings<'a> {
    /// Index of a text.
    pub fn number(&mut self, text: &'a str) -> i64 {
        *self.numbers.entry(text).or_insert_with(|| push(&mut self.table, text.to_owned()))
    }

    /// Index of an owned text, which is not deduplicated.
    pub fn number_of_own(&mut self, text: String) -> i64 {
        if text.is_empty() { 0 } else { push(&mut self.table, text) }
    }

    /// Converts to [`Profile::string_table`].
    pub fn into_table(self) -> Vec<String> {
        self.table
    }
}

fn push(table: &mut Vec<String>, text: String) -> i64 {
    table.push(text);
    table.len() as i64 - 1
}

/// Writes a message as a pprof file: gzip'd.
pub fn pack(message: &Profile, writer: &mut dyn Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(writer, Compression::fast());
    gzip.write_all(&message.encode_to_vec())?;
    gzip.finish()?.flush()
}
