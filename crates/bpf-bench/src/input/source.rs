//! Input argument: `FILE`, or `NAME=FILE` to rename the input. Map contents are always `NAME=FILE`.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
};

use thiserror::Error;

/// Maximum length of names in characters; longer ones are truncated.
const NAME_MAX: usize = 60;

/// A file with inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    name: Option<String>,
    path: PathBuf,
}

impl Source {
    /// An input that is named after its file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { name: None, path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Name of the input, or prefix of its packets' names.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| stem_name(&self.path))
    }
}

/// Parses `NAME=FILE` if the part before the first `=` is a valid name; else the whole text is the
/// file. A file with a `=` in its name can be given as `./a=b`.
impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let is_name = |name: &str| !name.is_empty() && name == cleaned(name);
        Ok(match text.split_once('=') {
            Some((name, path)) if is_name(name) && !path.is_empty() => {
                Self { name: Some(name.to_owned()), path: path.into() }
            }
            _ => Self::new(text),
        })
    }
}

/// A file with map contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSource {
    pub map: String,
    pub path: PathBuf,
}

/// The text does not name map contents.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("found {0:?} where a map and its contents should be; write NAME=FILE")]
pub struct NotAMapSource(String);

impl FromStr for MapSource {
    type Err = NotAMapSource;

    fn from_str(text: &str) -> Result<Self, NotAMapSource> {
        match text.split_once('=') {
            Some((map, path)) if !map.is_empty() && !path.is_empty() => {
                Ok(Self { map: map.to_owned(), path: path.into() })
            }
            _ => Err(NotAMapSource(text.to_owned())),
        }
    }
}

/// Default input name of a file: its name without folder and suffix.
pub(super) fn stem_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = cleaned(&stem);
    if name.is_empty() { "input".to_owned() } else { name }
}

/// Sanitizes a text as part of a benchmark name: no blanks, no slashes, and no `#`, which numbers packets.
fn cleaned(text: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || "-_.+:@,".contains(c);
    text.chars().take(NAME_MAX).map(|c| if allowed(c) { c } else { '_' }).collect()
}

// The packet used if none is given: valid in every layer, so that programs which parse and
// validate do not stop at the first header.

/// A frame of 64 bytes: Ethernet, IPv4, UDP, and 22 bytes of text.
///
/// Addresses are reserved for documentation: 00:00:5e:00:53:xx (RFC 7042, section 2.1.2),
/// 192.0.2.0/24 and 198.51.100.0/24 (RFC 5737). Both checksums are valid.
#[rustfmt::skip]
pub const DEFAULT_PACKET: [u8; 64] = [
    // Ethernet, 14 bytes.
    0x00, 0x00, 0x5e, 0x00, 0x53, 0x02, // destination 00:00:5e:00:53:02
    0x00, 0x00, 0x5e, 0x00, 0x53, 0x01, // source 00:00:5e:00:53:01
    0x08, 0x00,                         // type: IPv4
    // IPv4, 20 bytes.
    0x45,                               // version 4, header of 5 words
    0x00,                               // no class of service, no congestion mark
    0x00, 0x32,                         // length: 50 bytes from here to the end
    0x00, 0x00,                         // identification
    0x40, 0x00,                         // do not fragment; offset 0
    0x40,                               // time to live: 64 hops
    0x11,                               // protocol: UDP
    0x4d, 0xbe,                         // checksum of this header
    192, 0, 2, 200,                     // source 192.0.2.200
    198, 51, 100, 1,                    // destination 198.51.100.1
    // UDP, 8 bytes.
    0xc0, 0x00,                         // source port 49152, the first that nobody owns
    0x00, 0x09,                         // destination port 9, discard
    0x00, 0x1e,                         // length: 30 bytes from here to the end
    0x50, 0xfe,                         // checksum, addresses included
    // 22 bytes of text.
    b'w', b'i', b'n', b'g', b'b', b'e', b'a', b't', b' ',
    b'd', b'e', b'f', b'a', b'u', b'l', b't', b' ',
    b'i', b'n', b'p', b'u', b't',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_files_or_users() {
        #[track_caller]
        fn check(text: &str, name: &str, path: &str) {
            let Ok(source) = text.parse::<Source>();
            assert_eq!((source.name().as_str(), source.path()), (name, Path::new(path)), "{text}");
        }
        check("packets/dns.bin", "dns", "packets/dns.bin");
        check("dns", "dns", "dns");
        check("dns.tar.gz", "dns.tar", "dns.tar.gz");
        check("query=packets/dns.bin", "query", "packets/dns.bin");
        check("query=a=b", "query", "a=b");
        check("packets/a=b.bin", "a_b", "packets/a=b.bin");
        check("./a=b.bin", "a_b", "./a=b.bin");
        check("=b", "_b", "=b");
        check("a=", "a_", "a=");
        check("my packet #1.hex", "my_packet__1", "my packet #1.hex");
        check("größe.hex", "größe", "größe.hex");
        check("..", "input", "..");
        check(&"x".repeat(200), &"x".repeat(NAME_MAX), &"x".repeat(200));
    }

    #[test]
    fn contents_of_maps_need_a_name() {
        let source = |map: &str, path: &str| MapSource { map: map.to_owned(), path: path.into() };
        assert_eq!("m=a=b.json".parse(), Ok(source("m", "a=b.json")));
        assert_eq!(".rodata=x".parse(), Ok(source(".rodata", "x")));
        for text in ["m", "=x", "m=", ""] {
            assert_eq!(text.parse::<MapSource>(), Err(NotAMapSource(text.to_owned())));
        }
    }

    /// Sum of 16-bit words, all ones for a valid checksum (RFC 1071).
    fn sum(parts: &[&[u8]]) -> u16 {
        let mut sum: u32 = 0;
        for part in parts {
            let (words, rest) = part.as_chunks::<2>();
            assert!(rest.is_empty());
            sum += words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>();
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn both_checksums_and_all_lengths_are_right() {
        let (ethernet, ip) = DEFAULT_PACKET.split_at(14);
        assert_eq!(ethernet[12..], [8, 0]);
        let (header, udp) = ip.split_at(20);
        assert_eq!(usize::from(header[0] & 15) * 4, header.len());
        assert_eq!(u16::from_be_bytes([header[2], header[3]]), 50);
        assert_eq!(ip.len(), 50);
        assert_eq!(sum(&[header]), 0xffff);
        assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
        let pseudo_header = [&header[12..20], &[0, header[9]], &udp[4..6]].concat();
        assert_eq!(sum(&[&pseudo_header, udp]), 0xffff);
        assert_ne!(udp[6..8], [0, 0], "zero would mean that there is no checksum");
    }
}
