//! Collapsed stacks: one line per distinct stack, `process;outer;…;inner count`. The count is in samples, or in
//! nanoseconds if off-CPU time was measured.
//!
//! The format of Brendan Gregg's `stackcollapse-*.pl`, for flame graph tools, `grep` and `sort`. Readers find the count
//! by the last space, so a name that broke this rule would silently move samples to another stack. The same names are
//! used in the SVG, and XML cannot represent most control characters.

use std::{borrow::Cow, fmt::Write as _, io::Write, ops::Range};

use rustc_hash::FxHashMap;

use super::{Checked, ExportError, add_up};
use crate::model::{BinaryKind, Frame, FrameId, FunctionId, Profile};

pub(super) fn write(
    profile: Checked<'_>,
    names: &Names,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    writer.write_all(fold(profile, names).as_bytes())?;
    writer.flush()?;
    Ok(())
}

/// Distinct stacks: process, ids of names (outermost first), and value. Sums by process name and frame names, because
/// different processes and addresses may have the same.
pub(super) fn stacks(profile: Checked<'_>, names: &Names) -> Vec<(u32, Vec<u32>, u64)> {
    let processes = process_names(profile);
    let by_process = profile.weights().map(|((stack, thread), weight)| {
        ((profile.threads[thread as usize].process, stack), weight)
    });
    let mut first_of: FxHashMap<&str, u32> = FxHashMap::default();
    let mut positions: FxHashMap<(u32, Vec<u32>), usize> = FxHashMap::default();
    let mut stacks: Vec<(u32, Vec<u32>, u64)> = Vec::new();
    for ((process, stack), weight) in add_up(by_process) {
        let value = weight.value(profile.meta.mode);
        if value == 0 {
            continue;
        }
        let process = *first_of.entry(&processes[process as usize]).or_insert(process);
        let frames = profile.stacks[stack as usize].frames.iter().rev();
        let frames: Vec<u32> =
            frames.flat_map(|&frame| names.ids_of_frame(frame)).copied().collect();
        let position = *positions.entry((process, frames)).or_insert_with_key(|(_, frames)| {
            stacks.push((process, frames.clone(), 0));
            stacks.len() - 1
        });
        stacks[position].2 = stacks[position].2.saturating_add(value);
    }
    stacks
}

/// The lines, sorted by stack and without duplicates.
fn fold(profile: Checked<'_>, names: &Names) -> String {
    let processes = process_names(profile);
    let mut text = String::new();
    let mut stacks: Vec<(Range<usize>, u64)> = stacks(profile, names)
        .into_iter()
        .map(|(process, frames, value)| {
            let start = text.len();
            text.push_str(&processes[process as usize]);
            for frame in frames {
                text.push(';');
                text.push_str(&names.get(frame).text);
            }
            (start..text.len(), value)
        })
        .collect();
    stacks.sort_unstable_by(|(a, _), (b, _)| text[a.clone()].cmp(&text[b.clone()]));

    let mut lines = String::with_capacity(text.len() + stacks.len() * 8);
    // Different functions may have the same name.
    for equal in stacks.chunk_by(|(a, _), (b, _)| text[a.clone()] == text[b.clone()]) {
        let value = equal.iter().fold(0_u64, |sum, (_, value)| sum.saturating_add(*value));
        lines.push_str(&text[equal[0].0.clone()]);
        // Writing to a String cannot fail.
        let _ = writeln!(lines, " {value}");
    }
    lines
}

/// Process names, sanitized for use as the first frame.
pub(super) fn process_names(profile: Checked<'_>) -> Vec<String> {
    profile.processes.iter().map(|process| sanitized(&process.name).into_owned()).collect()
}

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

/// Kind of code behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    /// A process: the first frame of a stack.
    Process,
    /// User code with a symbol.
    User,
    /// User code without one.
    Unknown,
    Kernel,
    Bpf,
    /// Not code: a state or a waker.
    State,
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
