//! The serialized names of a file: a magic number, a checksum, a message.

use std::collections::BTreeMap;

use flate2::Crc;
use prost::Message;

/// Magic number of the first version.
const MARK: &[u8; 8] = b"wbnames1";

/// Version of the writer: other versions may name functions differently.
const WRITER: &str = env!("CARGO_PKG_VERSION");

/// Functions by start address.
pub(crate) type Functions = BTreeMap<u64, KnownFunction>;

/// A function, or one of its addresses with a source position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownFunction {
    /// One past its last byte.
    pub end: u64,
    pub name: String,
    pub source: Option<(String, u32)>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredNames {
    #[prost(string, tag = "1")]
    writer: String,
    #[prost(bytes = "vec", tag = "2")]
    build_id: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    functions: Vec<StoredFunction>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredFunction {
    #[prost(uint64, tag = "1")]
    start: u64,
    #[prost(uint64, tag = "2")]
    bytes: u64,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, optional, tag = "4")]
    source_file: Option<String>,
    #[prost(uint32, tag = "5")]
    source_line: u32,
}

/// Serializes functions.
pub(crate) fn encode(build_id: &[u8], functions: &Functions) -> Vec<u8> {
    let stored = |(start, function): (&u64, &KnownFunction)| {
        let (source_file, source_line) = function.source.clone().unzip();
        StoredFunction {
            start: *start,
            bytes: function.end - start,
            name: function.name.clone(),
            source_file,
            source_line: source_line.unwrap_or(0),
        }
    };
    let message = StoredNames {
        writer: WRITER.to_owned(),
        build_id: build_id.to_vec(),
        functions: functions.iter().map(stored).collect(),
    };
    with_head(&message.encode_to_vec())
}

/// Prepends magic number and checksum to a message.
pub(crate) fn with_head(message: &[u8]) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    bytes.extend_from_slice(&sum(message).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// Deserializes the functions of the file with this build id; `None` if the bytes are damaged or of another version.
pub(crate) fn decode(bytes: &[u8], build_id: &[u8]) -> Option<Functions> {
    let (expected, message) = bytes.strip_prefix(MARK)?.split_first_chunk()?;
    if u32::from_le_bytes(*expected) != sum(message) {
        return None;
    }
    let stored = StoredNames::decode(message).ok()?;
    if stored.writer != WRITER || stored.build_id != build_id {
        return None;
    }
    let function = |stored: StoredFunction| {
        let end = stored.start.checked_add(stored.bytes.max(1))?;
        let source = stored.source_file.map(|file| (file, stored.source_line));
        Some((stored.start, KnownFunction { end, name: stored.name, source }))
    };
    stored.functions.into_iter().map(function).collect()
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_return_and_damage_is_noticed() {
        let function = |end, name: &str, source: Option<(&str, u32)>| KnownFunction {
            end,
            name: name.to_owned(),
            source: source.map(|(file, line)| (file.to_owned(), line)),
        };
        let functions = Functions::from([
            (0x1000, function(0x1040, "main", None)),
            (0x2000, function(0x2001, "main.run", Some(("run.go", 7)))),
        ]);
        let bytes = encode(b"abcd", &functions);
        assert_eq!(decode(&bytes, b"abcd").as_ref(), Some(&functions));
        assert_eq!(decode(&bytes, b"abce"), None);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length], b"abcd"), None, "{length} bytes");
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            assert_eq!(decode(&damaged, b"abcd"), None, "byte {place}");
        }
    }
}
