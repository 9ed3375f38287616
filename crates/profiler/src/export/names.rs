//! Frame names for the text formats, without characters that are special there.
//!
//! A line of collapsed stacks is `frame;frame;frame count`, and readers find the count by the last space. A name
//! that broke this rule would silently move samples to another stack. The same names are used in the SVG, and XML
//! cannot represent most control characters.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::checked::Checked;
use super::palette::NameKind;
use crate::model::{BinaryKind, Frame, FrameId, FunctionId, Profile};

/// Suffix of kernel frames in collapsed stacks, as in `stackcollapse-perf.pl --kernel`.
const KERNEL_SUFFIX: &str = "_[k]";

/// Replaces an empty name.
const UNNAMED: &str = "[unknown]";

/// The names of a profile's frames.
pub(super) struct Names {
    names: Vec<Name>,
    /// Indices into `names` of all frames, consecutively, outermost function first.
    expanded: Vec<u32>,
    /// Start of each frame in `expanded`; one more entry than frames.
    starts: Vec<usize>,
}

/// The name of a function in a frame.
pub(super) struct Name {
    /// Sanitized for collapsed stacks and XML.
    pub(super) text: String,
    pub(super) kind: NameKind,
}

impl Name {
    /// Without the suffix of the kernel.
    pub(super) fn plain(&self) -> &str {
        match self.kind {
            NameKind::Kernel => self.text.strip_suffix(KERNEL_SUFFIX).unwrap_or(&self.text),
            _ => &self.text,
        }
    }
}

impl Names {
    /// Names every frame of the profile. Each function is sanitized only once.
    pub(super) fn new(profile: Checked<'_>) -> Self {
        let mut names = Vec::new();
        let mut known: FxHashMap<(FunctionId, NameKind), u32> = FxHashMap::default();
        let mut expanded = Vec::with_capacity(profile.frames.len());
        let mut starts = Vec::with_capacity(profile.frames.len() + 1);
        for frame in &profile.frames {
            starts.push(expanded.len());
            for line in frame.lines.iter().rev() {
                let kind = kind_of(&profile, frame, line.function);
                let name = *known.entry((line.function, kind)).or_insert_with(|| {
                    let mut text = sanitized(&profile.functions[line.function as usize].name);
                    if kind == NameKind::Kernel {
                        text.to_mut().push_str(KERNEL_SUFFIX);
                    }
                    names.push(Name { text: text.into_owned(), kind });
                    names.len() as u32 - 1
                });
                expanded.push(name);
            }
        }
        starts.push(expanded.len());
        Self { names, expanded, starts }
    }

    /// Ids of a frame's names, outermost function first.
    pub(super) fn ids_of_frame(&self, frame: FrameId) -> &[u32] {
        let frame = frame as usize;
        &self.expanded[self.starts[frame]..self.starts[frame + 1]]
    }

    pub(super) fn get(&self, id: u32) -> &Name {
        &self.names[id as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.names.iter()
    }
}

fn kind_of(profile: &Profile, frame: &Frame, function: FunctionId) -> NameKind {
    let binary = frame.binary.map(|binary| profile.binaries[binary as usize].kind);
    match binary {
        Some(BinaryKind::Kernel) => NameKind::Kernel,
        Some(BinaryKind::Bpf) => NameKind::Bpf,
        Some(BinaryKind::State) => NameKind::State,
        _ if profile.functions[function as usize].is_symbol => NameKind::User,
        _ => NameKind::Unknown,
    }
}

/// Sanitizes a name for a frame of collapsed stacks and for XML.
pub(crate) fn sanitized(name: &str) -> Cow<'_, str> {
    let name = printable(name);
    let needs_care = |c: char| matches!(c, ';' | '#') || c.is_whitespace();
    if !name.is_empty() && !name.contains(needs_care) {
        return name;
    }
    let mut text = name.trim().replace(';', ":");
    if text.is_empty() {
        return UNNAMED.into();
    }
    // Readers of collapsed stacks skip lines starting with `# `.
    if text == "#" || text.starts_with("# ") {
        text.insert(0, '_');
    }
    // `worker 12` at the end of a line would be parsed as a count.
    if let Some(space) = text.rfind(' ')
        && text[space + 1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        text.replace_range(space..=space, "_");
    }
    text.into()
}

/// Removes characters that are invalid in XML or in a single line.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_fit = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    if text.chars().all(is_fit) {
        return text.into();
    }
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_fit(c) => c,
            _ => char::REPLACEMENT_CHARACTER,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_collapsed_stacks_parseable() {
        let check = |name: &str, expected: &str| assert_eq!(sanitized(name), expected, "{name:?}");
        check("main", "main");
        check("<T as Foo<'_>>::bar", "<T as Foo<'_>>::bar");
        check("<[u8; 8]>::len", "<[u8: 8]>::len");
        check("operator\"\" _s(char const*)", "operator\"\" _s(char const*)");
        check("a\nb\tc", "a b c");
        check("bell\u{7}", "bell\u{fffd}");
        check("\u{ffff}", "\u{fffd}");
        check("", "[unknown]");
        check(" \n ", "[unknown]");
        check("  padded ", "padded");
        check("tokio 1", "tokio_1");
        check("tokio 1 2", "tokio 1_2");
        check("load 0.5", "load_0.5");
        check("1", "1");
        check("# main", "_# main");
        check("#", "_#");
        check("#main", "#main");
        check("ünï;cödé", "ünï:cödé");
    }
}
