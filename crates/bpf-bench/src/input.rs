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
pub fn load(path: &Path, packets_max: usize) -> Result<Loaded, InputError> {
    parse(path, &source::stem_name(path), &read_file(path)?, packets_max)
}

/// Reads the inputs of several files; without files returns the default packet. Fails like
/// [`load`], and if two inputs have the same name.
pub fn load_all(sources: &[Source], packets_max: usize) -> Result<Loaded, InputError> {
    let mut all = Loaded::default();
    let mut paths = HashMap::new();
    for source in sources {
        let path = source.path();
        let loaded = parse(path, &source.name(), &read_file(path)?, packets_max)?;
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
    packets_max: usize,
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
        let capture = capture::parse(bytes, packets_max);
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
mod tests {
    use std::{fs, path::PathBuf};

    use super::{
        capture::tests::{Order, pcap, pcapng},
        *,
    };

    const PACKET: &[u8] = b"a packet of 22 bytes..";

    struct Files {
        folder: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().expect("folder") }
        }

        fn with(self, name: &str, bytes: &[u8]) -> Self {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            fs::write(path, bytes).expect("write");
            self
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn load(&self, name: &str) -> Result<Loaded, InputError> {
            load(&self.path(name), 2)
        }

        fn sources(&self, names: &[&str]) -> Vec<Source> {
            names.iter().map(|name| Source::new(self.path(name))).collect()
        }
    }

    fn input(name: &str, data: &[u8], link: Link) -> Input {
        Input { name: name.to_owned(), data: data.to_vec(), link }
    }

    #[test]
    fn files_make_inputs_by_content_and_suffix() {
        let capture = pcap(Order::Big, 0xa1b2_c3d4, 1, &[(PACKET, 22), (&PACKET[..20], 20)]);
        let files = Files::new()
            .with("a.bin", PACKET)
            .with("b.hex", b"00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d")
            .with("c.PCAP", &capture)
            .with("d", &pcapng(Order::Little, 101, &[(PACKET, 22)]));
        let check = |name, expected: &[Input]| {
            let loaded = files.load(name).expect(name);
            assert_eq!(loaded.inputs, expected);
            loaded.warnings
        };
        assert_eq!(check("a.bin", &[input("a", PACKET, Link::AsGiven)]), []);
        let bytes: Vec<u8> = (0..14).collect();
        assert_eq!(check("b.hex", &[input("b", &bytes, Link::AsGiven)]), []);
        let packets =
            [input("c#1", PACKET, Link::Ethernet), input("c#2", &PACKET[..20], Link::Ethernet)];
        assert_eq!(check("c.PCAP", &packets), []);
        let warnings = check("d", &[input("d#1", PACKET, Link::RawIp)]);
        let codes: Vec<_> = warnings.iter().map(|warning| warning.code).collect();
        assert_eq!(codes, ["raw-ip"]);
        assert!(warnings[0].cause.ends_with("d: 1 packet of the file begins with an IP header"));
        assert_eq!(load_bytes(&files.path("a.bin")).expect("bytes"), PACKET);
        assert_eq!(load_bytes(&files.path("b.hex")).expect("bytes"), bytes);
    }

    #[test]
    fn warns_of_what_spoils_figures() {
        let short = &PACKET[..13];
        let mut cut =
            pcap(Order::Little, 0xa1b2_c3d4, 0x2400_0001, &[(PACKET, 22), (short, 99), (b"", 0)]);
        cut.extend([0; 10]);
        let files = Files::new().with("a.pcap", &cut).with("b", b"00 01 02 03 04 05");
        let path = files.path("a.pcap");
        let warnings = files.load("a.pcap").expect("inputs").warnings;
        let expected = [
            "left-out: only the first 2 packets of the file are used, 1 is left out",
            "truncated: the capture kept only the beginning of 1 packet (the first is 2)",
            "cut-off: the file ends within a packet, after 3 whole ones",
            "check-sequence: packets end with 4 bytes of frame check sequence",
            "short: 1 input shorter than an Ethernet header of 14 bytes, a#2 first",
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            let (code, text) = expected.split_once(": ").expect("a code and a text");
            assert_eq!(warning.code, code);
            assert!(warning.cause.starts_with(&format!("{}: {text}", path.display())), "{warning}");
        }
        let warnings = files.load("b").expect("inputs").warnings;
        assert_eq!(warnings.iter().map(|it| it.code).collect::<Vec<_>>(), ["looks-like-hex"]);
    }

    #[test]
    fn says_what_is_wrong_with_a_file() {
        let files = Files::new()
            .with("empty.bin", b"")
            .with("text.hex", b"00\nnot hex")
            .with("not.pcap", b"bytes")
            .with("none.pcapng", &pcapng(Order::Big, 1, &[]))
            .with("any.pcap", &pcap(Order::Little, 0xa1b2_c3d4, 113, &[(PACKET, 22)]))
            .with("small.pcap.gz", b"\x1f\x8b\x08\0")
            .with("program.o", b"\x7fELF\x02\x01")
            .with("folder/file", b"");
        let check = |name: &str, parts: &[&str]| {
            let error = files.load(name).expect_err(name).to_string();
            assert!(error.starts_with("cannot take input from "), "{error}");
            for part in [&[name], parts].concat() {
                assert!(error.contains(part), "{error}");
            }
        };
        check("missing.bin", &["No such file"]);
        check("empty.bin", &["it is empty"]);
        check("text.hex", &["line 2, column 1", "'n'"]);
        check("not.pcap", &["neither pcap nor pcapng", "editcap"]);
        check("none.pcapng", &["no packets"]);
        check("any.pcap", &["Linux cooked", "tcpdump -i eth0"]);
        check("small.pcap.gz", &["gunzip"]);
        check("program.o", &["ELF"]);
        check("folder", &["is a folder"]);
        let error = load(Path::new("/dev/zero"), PACKETS_MAX).expect_err("a device");
        assert!(matches!(error.problem, Problem::Device));
        let shape = MapShape { kind: MapKind::Queue, key_bytes: 0, value_bytes: 1 };
        let error = load_map(&files.path("not.pcap"), shape).expect_err("no JSON").to_string();
        assert!(error.contains("not.pcap: it is not JSON"), "{error}");
    }

    #[test]
    fn several_files_need_several_names() {
        let capture = pcap(Order::Little, 0xa1b2_c3d4, 1, &[(PACKET, 22)]);
        let files = Files::new()
            .with("a/dns.bin", PACKET)
            .with("b/dns.bin", PACKET)
            .with("b/dns.pcap", &capture);
        let names = |sources: &[Source]| -> Result<Vec<String>, InputError> {
            let loaded = load_all(sources, PACKETS_MAX)?;
            Ok(loaded.inputs.into_iter().map(|input| input.name).collect())
        };
        let check = |sources: &[Source], expected: &[&str]| {
            assert_eq!(names(sources).expect("names"), expected);
        };
        check(&[], &["default"]);
        check(&files.sources(&["a/dns.bin", "b/dns.pcap"]), &["dns", "dns#1"]);
        let same = files.sources(&["a/dns.bin", "b/dns.bin"]);
        let error = names(&same).expect_err("the same name").to_string();
        let first = files.path("a/dns.bin").display().to_string();
        assert!(error.contains("input dns has the same name"), "{error}");
        assert!(error.contains(&format!("other={first}")), "{error}");
        let Ok(named) = format!("query={first}").parse::<Source>();
        check(&[named, same[1].clone()], &["query", "dns"]);
    }

    #[test]
    fn a_pipe_is_as_good_as_a_file() {
        let files = Files::new();
        let path = files.path("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        let writer = std::thread::spawn({
            let path = path.clone();
            move || fs::write(path, PACKET)
        });
        let loaded = load(&path, PACKETS_MAX);
        assert_eq!(loaded.expect("inputs").inputs, [input("pipe", PACKET, Link::AsGiven)]);
        writer.join().expect("writer").expect("written");
    }
}
