//! Collapsed stacks: one line per distinct stack, `process;outer;…;inner count`. The count is in samples, or in
//! nanoseconds if off-CPU time was measured.
//!
//! The format of Brendan Gregg's `stackcollapse-*.pl`, for flame graph tools, `grep` and `sort`.

use std::fmt::Write as _;
use std::io::Write;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::ExportError;
use super::checked::Checked;
use super::count::add_up;
use super::names::{Names, sanitized};

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
