//! Names of frames as the text formats need them: free of the characters that carry meaning there.
//!
//! A line of collapsed stacks is `frame;frame;frame count`, and readers find the count by the last
//! space; a name that broke this rule would move samples to another stack without a word. The same
//! names go into the SVG, where XML has no notation at all for most control characters.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::checked::Checked;
use super::palette::NameKind;
use crate::model::{BinaryKind, Frame, FrameId, FunctionId, Profile};

/// What marks a kernel frame in collapsed stacks, as `stackcollapse-perf.pl --kernel` has it.
pub(crate) const KERNEL_SUFFIX: &str = "_[k]";

/// What stands for a name that is empty.
const UNNAMED: &str = "[unknown]";

/// The names of a profile's frames.
pub(super) struct Names {
    names: Vec<Name>,
    /// Indices into `names` for all frames, one after the other; each outermost function first.
    expanded: Vec<u32>,
    /// Where the frame with this id begins in `expanded`; one more entry than frames.
    starts: Vec<usize>,
}

/// The text of a frame.
pub(super) struct Name {
    /// Fit for collapsed stacks and XML.
    pub(super) text: String,
    pub(super) kind: NameKind,
}

impl Names {
    /// Names every frame of the profile; each function is made fit once, not once per frame.
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

    /// The names that a frame expands to, outermost function first, by their ids.
    pub(super) fn ids_of_frame(&self, frame: FrameId) -> &[u32] {
        let frame = frame as usize;
        &self.expanded[self.starts[frame]..self.starts[frame + 1]]
    }

    pub(super) fn of_ids(&self, ids: &[u32]) -> impl Iterator<Item = &Name> {
        ids.iter().map(|&id| &self.names[id as usize])
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

/// A name fit to be a frame of collapsed stacks, and fit for XML.
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
    // Readers of collapsed stacks skip lines that begin with `# `.
    if text == "#" || text.starts_with("# ") {
        text.insert(0, '_');
    }
    // `worker 12` at the end of a line would be read as a count.
    if let Some(space) = text.rfind(' ')
        && text[space + 1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        text.replace_range(space..=space, "_");
    }
    text.into()
}

/// A text without what XML, or one line, cannot hold.
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
