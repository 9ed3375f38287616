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
}
