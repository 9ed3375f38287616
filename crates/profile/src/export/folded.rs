//! Collapsed stacks: one line per distinct stack, `process;outer;…;inner count`.
//!
//! The format of Brendan Gregg's `stackcollapse-*.pl`: what flame graph tools read, and what `grep`
//! and `sort` can work on.

use std::fmt::Write as _;
use std::io::Write;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::ExportError;
use super::checked::Checked;
use super::count::count;
use super::names::{Names, sanitized};

/// Writes collapsed stacks.
pub(super) fn write(
    profile: Checked<'_>,
    names: &Names,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    writer.write_all(fold(profile, names).as_bytes())?;
    writer.flush()?;
    Ok(())
}

/// The lines, sorted by stack, no stack twice.
///
/// Samples are merged by process name and stack id first, so that no text is built for a sample
/// that is like another; then by text, because different addresses may bear the same names.
pub(super) fn fold(profile: Checked<'_>, names: &Names) -> String {
    let processes = process_names(profile);
    let keys = profile
        .samples
        .iter()
        .map(|sample| (profile.threads[sample.thread as usize].process, sample.stack));
    let mut merged: FxHashMap<(&str, u32), u64> = FxHashMap::default();
    for ((process, stack), samples) in count(keys) {
        *merged.entry((processes[process as usize].as_str(), stack)).or_default() += samples;
    }

    let mut text = String::new();
    let mut stacks: Vec<(Range<usize>, u64)> = Vec::with_capacity(merged.len());
    for ((process, stack), samples) in merged {
        let start = text.len();
        text.push_str(process);
        for &frame in profile.stacks[stack as usize].frames.iter().rev() {
            for name in names.of_frame(frame) {
                text.push(';');
                text.push_str(&name.text);
            }
        }
        stacks.push((start..text.len(), samples));
    }
    stacks.sort_unstable_by(|(a, _), (b, _)| text[a.clone()].cmp(&text[b.clone()]));

    let mut lines = String::with_capacity(text.len() + stacks.len() * 8);
    for equal in stacks.chunk_by(|(a, _), (b, _)| text[a.clone()] == text[b.clone()]) {
        let samples: u64 = equal.iter().map(|(_, samples)| samples).sum();
        lines.push_str(&text[equal[0].0.clone()]);
        // Writing to a String cannot fail.
        let _ = writeln!(lines, " {samples}");
    }
    lines
}

/// Names of processes, fit to be the first frame.
pub(super) fn process_names(profile: Checked<'_>) -> Vec<String> {
    profile.processes.iter().map(|process| sanitized(&process.name).into_owned()).collect()
}
