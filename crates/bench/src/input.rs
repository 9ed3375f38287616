//! What a program is run on: packets from files, the default packet, context structures, contents of
//! maps. Bytes in, inputs out: nothing here touches a program or the kernel.
//!
//! - [`parse`] and [`load`]: the inputs of one file, [`load_all`]: of several.
//! - [`capture`]: pcap and pcapng. [`hex`]: hexadecimal text.
//! - [`MapContents`]: what stands in a map before a program runs.

pub mod capture;
mod default_packet;
mod error;
pub mod hex;
mod map_contents;
mod source;
#[cfg(test)]
mod tests;
mod warning;

use std::{
    collections::HashMap,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::FileTypeExt as _,
    path::Path,
};

use serde::Serialize;

pub use self::{
    default_packet::DEFAULT_PACKET,
    error::{InputError, Problem},
    map_contents::{Entry, EntryError, EntryValue, MapContents, MapError, MapKind, MapShape, Part},
    source::{MapSource, NotAMapSource, Source},
};
use crate::Warning;

/// Larger files are refused. A capture of a million packets of ordinary size is smaller.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Smallest packet that `BPF_PROG_TEST_RUN` takes (`ETH_HLEN` in `bpf_test_init` of
/// net/bpf/test_run.c, Linux 6.12).
pub const PACKET_BYTES_MIN: usize = 14;

/// Packets that are taken of a capture file unless told otherwise.
pub const PACKETS_MAX: usize = 1000;

/// Longer files are not looked at for being hexadecimal text under another name.
const HEX_LOOK_MAX: usize = 1 << 20;

pub const DEFAULT_NAME: &str = "default";

/// Something that a program is run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Short and without slashes: the second half of a benchmark's name, `PROGRAM/INPUT`. Made of the
    /// file's name alone, so that it stays the same in other folders and beside other inputs.
    pub name: String,
    pub data: Vec<u8>,
    /// What its first byte belongs to.
    pub link: Link,
}

/// What the first byte of a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    Ethernet,
    /// An IP header, version 4 or 6.
    RawIp,
    /// Nobody said: the bytes came without a word about them.
    AsGiven,
}

/// How inputs are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Packets of a capture file to take, from its beginning.
    pub packets_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { packets_max: PACKETS_MAX }
    }
}

/// Inputs, and what is to be said about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// At least one, each with a name of its own.
    pub inputs: Vec<Input>,
    pub warnings: Vec<Warning>,
}

impl Input {
    /// The input for those who give none.
    pub fn default_packet() -> Self {
        let name = DEFAULT_NAME.to_owned();
        Self { name, data: DEFAULT_PACKET.to_vec(), link: Link::Ethernet }
    }
}

/// Reads the inputs of one file, named after it. Fails when the file cannot be read, or makes no inputs.
pub fn load(path: &Path, options: &Options) -> Result<Loaded, InputError> {
    parse(path, &source::stem_name(path), &read_file(path)?, options)
}

/// Reads the inputs of several files; the default packet if there are none.
/// Fails as [`load`], and when two inputs would have the same name.
pub fn load_all(sources: &[Source], options: &Options) -> Result<Loaded, InputError> {
    let mut all = Loaded::default();
    let mut paths = HashMap::new();
    for source in sources {
        let path = source.path();
        let loaded = parse(path, &source.name(), &read_file(path)?, options)?;
        for input in &loaded.inputs {
            if let Some(other) = paths.insert(input.name.clone(), path.to_owned()) {
                let problem = Problem::SameName { name: input.name.clone(), other };
                return Err(InputError::new(path, problem));
            }
        }
        all.inputs.extend(loaded.inputs);
        all.warnings.extend(loaded.warnings);
    }
    if sources.is_empty() {
        all.inputs.push(Input::default_packet());
    }
    Ok(all)
}

/// Reads plain bytes from a file, raw or as hexadecimal text (`.hex`, `.txt`): a context structure.
/// Fails when the file cannot be read, is empty, or is not the text that its name promises.
pub fn load_bytes(path: &Path) -> Result<Vec<u8>, InputError> {
    let bytes = read_file(path)?;
    let wrong = |error: hex::HexError| InputError::new(path, error.into());
    if is_hex_name(path) { hex::parse(&bytes).map_err(wrong) } else { Ok(bytes) }
}

/// Reads the contents of a map of this shape.
/// Fails when the file cannot be read, is not JSON, or does not fit the map.
pub fn load_map(path: &Path, shape: MapShape) -> Result<MapContents, InputError> {
    let contents = MapContents::parse(&read_file(path)?, shape);
    contents.map_err(|error| InputError::new(path, error.into()))
}

/// Makes inputs of the bytes of a file. Its path tells the format where the bytes do not, and stands in
/// messages. Fails when the bytes are not of the format, or hold no packet.
pub fn parse(
    path: &Path,
    name: &str,
    bytes: &[u8],
    options: &Options,
) -> Result<Loaded, InputError> {
    let at = |problem: Problem| InputError::new(path, problem);
    if bytes.is_empty() {
        return Err(at(Problem::Empty));
    }
    if let Some(tool) = unpacker(path, bytes) {
        return Err(at(Problem::Compressed { tool }));
    }
    if bytes.starts_with(b"\x7fELF") {
        return Err(at(Problem::Object));
    }
    if capture::is_capture(bytes) || has_suffix(path, &["pcap", "pcapng", "cap"]) {
        let capture = capture::parse(bytes, options.packets_max);
        return Ok(from_capture(path, name, &capture.map_err(|error| at(error.into()))?));
    }
    let mut warnings = Vec::new();
    let data = if is_hex_name(path) {
        hex::parse(bytes).map_err(|error| at(error.into()))?
    } else {
        if bytes.len() <= HEX_LOOK_MAX && hex::parse(bytes).is_ok() {
            warnings.push(warning::looks_like_hex(path));
        }
        bytes.to_vec()
    };
    let inputs = vec![Input { name: name.to_owned(), data, link: Link::AsGiven }];
    warnings.extend(warning::short(path, &inputs));
    Ok(Loaded { inputs, warnings })
}

fn from_capture(path: &Path, name: &str, capture: &capture::Capture) -> Loaded {
    let inputs: Vec<_> = (1..)
        .zip(&capture.packets)
        .map(|(number, packet)| Input {
            name: format!("{name}#{number}"),
            data: packet.data.to_vec(),
            link: packet.link,
        })
        .collect();
    let mut warnings = warning::of_capture(path, capture);
    warnings.extend(warning::short(path, &inputs));
    Loaded { inputs, warnings }
}

/// Reads a whole file: a regular one, or a pipe, so that `<(command)` works in a shell.
fn read_file(path: &Path) -> Result<Vec<u8>, InputError> {
    let read = || {
        let kind = fs::metadata(path).map_err(Problem::Read)?.file_type();
        if kind.is_dir() {
            return Err(Problem::Folder);
        }
        if kind.is_block_device() || kind.is_char_device() || kind.is_socket() {
            return Err(Problem::Device);
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(Problem::Read)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Problem::Read)?;
        match bytes.len() as u64 {
            0 => Err(Problem::Empty),
            1..=FILE_BYTES_MAX => Ok(bytes),
            _ => Err(Problem::TooLarge),
        }
    };
    read().map_err(|problem| InputError::new(path, problem))
}

fn is_hex_name(path: &Path) -> bool {
    has_suffix(path, &["hex", "txt"])
}

fn has_suffix(path: &Path, suffixes: &[&str]) -> bool {
    let own = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    suffixes.iter().any(|suffix| own.eq_ignore_ascii_case(suffix))
}

/// The program that unpacks a compressed file. Its first bytes alone might be those of a packet.
fn unpacker(path: &Path, bytes: &[u8]) -> Option<&'static str> {
    let formats: [(_, &[u8], _); 4] = [
        ("gz", b"\x1f\x8b", "gunzip"),
        ("zst", b"\x28\xb5\x2f\xfd", "unzstd"),
        ("xz", b"\xfd7zXZ", "unxz"),
        ("bz2", b"BZh", "bunzip2"),
    ];
    let is_one = |suffix: &str, magic| has_suffix(path, &[suffix]) && bytes.starts_with(magic);
    formats.iter().find(|(suffix, magic, _)| is_one(suffix, magic)).map(|(_, _, tool)| *tool)
}
