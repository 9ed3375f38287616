//! Resolves an id, a name, a tag or a pin path to programs.

use std::{fmt, path::PathBuf};

use wingbeat_bpf_loader::program::ProgramInfo;

/// A candidate program: its name, in full if known, and its kernel info.
pub type Loaded<'a> = (&'a str, &'a ProgramInfo);

/// Maximum length of names in the kernel (`BPF_OBJ_NAME_LEN`, include/uapi/linux/bpf.h, minus one).
pub const KERNEL_NAME_LEN_MAX: usize = 15;

/// Maximum suggestions for an unknown name, and their minimum similarity (Jaro–Winkler).
const SUGGESTIONS_MAX: usize = 3;
const LIKENESS_MIN: f64 = 0.75;

/// A requested program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A pinned program or link: anything with a slash.
    Pin(PathBuf),
    /// An id, a tag, or a name.
    Word(String),
}

impl From<&str> for Wanted {
    fn from(text: &str) -> Self {
        if text.contains('/') { Self::Pin(text.into()) } else { Self::Word(text.to_owned()) }
    }
}

/// No loaded program matches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NotFound {
    pub wanted: String,
    /// Names of similar loaded programs, most similar first.
    pub alike: Vec<String>,
    pub loaded: usize,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no loaded program has the id, name or tag {:?}", self.wanted)?;
        match (self.alike.as_slice(), self.loaded) {
            (_, 0) => f.write_str("; none is loaded at all"),
            ([], loaded) => {
                write!(f, ", and none is similar; `wingbeat top --once` lists all {loaded}")
            }
            (alike, _) => write!(f, "; did you mean {}?", alike.join(" or ")),
        }
    }
}

/// Ids of the programs that match `word`: by id, else tag, else name. Several programs may share a
/// tag or a name, and then all match. A name that exceeds the kernel's limit also matches its
/// truncated form. Fails if nothing matches.
pub fn matching(word: &str, loaded: &[Loaded<'_>]) -> Result<Vec<u32>, NotFound> {
    let ids = |is_meant: &dyn Fn(&str, &ProgramInfo) -> bool| -> Vec<u32> {
        loaded.iter().filter(|(name, info)| is_meant(name, info)).map(|(_, info)| info.id).collect()
    };
    let id = word.parse::<u32>().ok();
    let tag = parse_tag(word);
    let found = [
        ids(&|_, info| Some(info.id) == id),
        ids(&|_, info| Some(info.tag) == tag),
        ids(&|name, info| !word.is_empty() && (name == word || info.name == word)),
        ids(&|name, info| is_cut_from(&info.name, word) && name == info.name),
    ];
    found.into_iter().find(|ids| !ids.is_empty()).ok_or_else(|| NotFound {
        wanted: word.to_owned(),
        alike: alike(word, loaded),
        loaded: loaded.len(),
    })
}

fn is_cut_from(kernel_name: &str, word: &str) -> bool {
    kernel_name.len() == KERNEL_NAME_LEN_MAX && word.starts_with(kernel_name)
}

/// Parses sixteen hexadecimal digits, bpftool's format of a tag.
fn parse_tag(text: &str) -> Option<[u8; 8]> {
    let is_tag = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_tag.then(|| u64::from_str_radix(text, 16).ok().map(u64::to_be_bytes)).flatten()
}

fn alike(word: &str, loaded: &[Loaded<'_>]) -> Vec<String> {
    let mut names: Vec<&str> = loaded.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    let likeness = |name: &str| {
        let is_part = !word.is_empty() && name.contains(word);
        if is_part { 1.0 } else { strsim::jaro_winkler(word, name) }
    };
    let mut rated: Vec<_> = names
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    rated.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    rated.into_iter().take(SUGGESTIONS_MAX).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found among some programs.
    fn find(word: &str) -> Result<Vec<u32>, NotFound> {
        let programs = [
            (3, "fun_xdp_v3", "fun_xdp_v3", 0xa0),
            (4, "fun_xdp_v4", "fun_xdp_v4", 0xa1),
            (5, "fun_xdp_v4", "fun_xdp_v4", 0xa1),
            (6, "count_packets_by_source", "count_packets_b", 0x06),
            (7, "without_btf_is_", "without_btf_is_", 0x07),
            (8, "", "", 0x08),
            (9, "3", "3", 0x09),
            (10, "12", "12", 0x0a),
        ];
        let programs = programs.map(|(id, name, kernel_name, tag)| {
            let info =
                ProgramInfo { id, name: kernel_name.into(), tag: [tag; 8], ..Default::default() };
            (name, info)
        });
        matching(word, &programs.each_ref().map(|(name, info)| (*name, info)))
    }

    #[test]
    fn ids_tags_and_names() {
        let check = |word, expected: &[u32]| {
            assert_eq!(find(word).as_deref(), Ok(expected), "{word}");
        };
        // An id takes precedence over a name that looks like one.
        check("3", &[3]);
        check("12", &[10]);
        check("fun_xdp_v4", &[4, 5]);
        check("a1a1a1a1a1a1a1a1", &[4, 5]);
        check("A0A0A0A0A0A0A0A0", &[3]);
        // The full name, the kernel's, and a full name of which only the kernel's is known.
        check("count_packets_by_source", &[6]);
        check("count_packets_b", &[6]);
        check("without_btf_is_cut_short", &[7]);
    }

    #[test]
    fn what_is_not_found_has_suggestions() {
        let check = |word, expected: &[&str]| {
            let error = find(word).expect_err(word);
            assert_eq!(error.alike, expected, "{word}");
        };
        check("fun_xdp_v5", &["fun_xdp_v3", "fun_xdp_v4"]);
        check("packets", &["count_packets_by_source"]);
        check("count_packets_by_destination", &["count_packets_by_source"]);
        check("zzzz", &[]);
        check("99999999999999999999", &[]);
        check("", &[]);
    }

    #[test]
    fn messages() {
        let check = |found: Result<_, NotFound>, expected: &str| {
            assert_eq!(found.expect_err(expected).to_string(), expected);
        };
        check(
            find("fun_xdp_v5"),
            "no loaded program has the id, name or tag \"fun_xdp_v5\"; did you mean fun_xdp_v3 or fun_xdp_v4?",
        );
        check(
            find("zzzz"),
            "no loaded program has the id, name or tag \"zzzz\", and none is similar; `wingbeat top --once` lists all 8",
        );
        check(
            matching("a", &[]),
            "no loaded program has the id, name or tag \"a\"; none is loaded at all",
        );
    }

    #[test]
    fn paths_are_pins() {
        let check = |text: &str, expected| assert_eq!(Wanted::from(text), expected);
        check("/sys/fs/bpf/x", Wanted::Pin("/sys/fs/bpf/x".into()));
        check("./x", Wanted::Pin("./x".into()));
        check("x", Wanted::Word("x".to_owned()));
    }
}
