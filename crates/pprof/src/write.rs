//! Shared code of pprof writers: a string table, and compression.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};
use prost::Message as _;
use rustc_hash::FxHashMap;

use crate::proto::Profile;

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
