//! Program inputs: packets from files, the default packet, context structures, map contents.
//! Converts bytes to inputs without touching programs or the kernel.
//!
//! - [`parse`] and [`load`]: inputs of one file, [`load_all`]: of several.
//! - [`capture`]: pcap and pcapng. [`hex`]: hexadecimal text.
//! - [`MapContents`]: initial contents of a map.

pub mod capture;
pub mod hex;
mod map_contents;
mod source;
mod warning;

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use serde::Serialize;
use thiserror::Error;

use crate::Warning;
use capture::CaptureError;
use hex::HexError;

pub use self::{
    map_contents::{Entry, EntryError, EntryValue, MapContents, MapError, MapKind, MapShape, Part},
    source::{MapSource, NotAMapSource, Source},
};
pub use source::DEFAULT_PACKET;

/// Maximum file size. A capture of a million packets of ordinary size is smaller.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Minimum packet size of `BPF_PROG_TEST_RUN` (`ETH_HLEN` in `bpf_test_init` of net/bpf/test_run.c, Linux 6.12).
pub const PACKET_BYTES_MIN: usize = 14;

/// Default number of packets taken from a capture file.
pub const PACKETS_MAX: usize = 1000;

/// Maximum size of files that are checked for hexadecimal text under another name.
const HEX_LOOK_MAX: usize = 1 << 20;

pub const DEFAULT_NAME: &str = "default";

/// An input of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Short and without slashes: the second half of a benchmark name, `PROGRAM/INPUT`. Derived
    /// from the file name alone, so that it does not depend on the folder or on other inputs.
    pub name: String,
    pub data: Vec<u8>,
    /// Layer of its first byte.
    pub link: Link,
}

/// Layer of the first byte of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    Ethernet,
    /// An IP header, version 4 or 6.
    RawIp,
    /// Unknown: the bytes came without a link type.
    AsGiven,
}

/// Options for reading inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Maximum packets to take from the beginning of a capture file.
    pub packets_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { packets_max: PACKETS_MAX }
    }
}

/// Inputs with warnings about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// At least one, with unique names.
    pub inputs: Vec<Input>,
    pub warnings: Vec<Warning>,
}

impl Input {
    /// The input to use if none is given.
    pub fn default_packet() -> Self {
        let name = DEFAULT_NAME.to_owned();
        Self { name, data: DEFAULT_PACKET.to_vec(), link: Link::Ethernet }
    }
}

/// Reads the inputs of one file, named after it. Fails if the file cannot be read or contains no inputs.
pub fn load(path: &Path, options: &Options) -> Result<Loaded, InputError> {
    parse(path, &source::stem_name(path), &read_file(path)?, options)
}

/// Reads the inputs of several files; without files returns the default packet. Fails like
/// [`load`], and if two inputs have the same name.
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

/// Reads a context structure from a file, as raw bytes or hexadecimal text (`.hex`, `.txt`). Fails
/// if the file cannot be read, is empty, or does not match its suffix.
pub fn load_bytes(path: &Path) -> Result<Vec<u8>, InputError> {
    let bytes = read_file(path)?;
    let wrong = |error: HexError| InputError::new(path, error.into());
    if is_hex_name(path) { hex::parse(&bytes).map_err(wrong) } else { Ok(bytes) }
}

/// Reads the contents of a map of this shape. Fails if the file cannot be read, is not JSON, or does not fit the map.
pub fn load_map(path: &Path, shape: MapShape) -> Result<MapContents, InputError> {
    let contents = MapContents::parse(&read_file(path)?, shape);
    contents.map_err(|error| InputError::new(path, error.into()))
}

/// Converts the bytes of a file to inputs. The path decides about the format if the bytes do not,
/// and appears in messages. Fails if the bytes do not match the format or contain no packet.
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

/// Reads a whole regular file or pipe, so that `<(command)` works in a shell.
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

/// A file without usable inputs, and why.
#[derive(Debug, Error)]
#[error("cannot take input from {}: {problem}", .path.display())]
pub struct InputError {
    pub path: PathBuf,
    #[source]
    pub problem: Problem,
}

impl InputError {
    fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// The problem with a file.
#[derive(Debug, Error)]
pub enum Problem {
    #[error("{0}")]
    Read(io::Error),
    #[error("it is a folder; pass the files in it")]
    Folder,
    #[error("it is a device or a socket; pass a file or a pipe")]
    Device,
    #[error("it is empty")]
    Empty,
    #[error("it is larger than 1 GiB; cut a capture with `editcap -r FILE OUT 1-1000`")]
    TooLarge,
    #[error("it is compressed; unpack it with `{tool}` first")]
    Compressed { tool: &'static str },
    #[error("it is a program (ELF), not a packet; were the files given in the wrong order?")]
    Object,
    #[error(transparent)]
    Hex(#[from] HexError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(
        "its input {name} has the same name as one from {}; name one of the two, for example \
         other={}", .other.display(), .other.display()
    )]
    SameName { name: String, other: PathBuf },
}

#[cfg(test)]
mod tests;
