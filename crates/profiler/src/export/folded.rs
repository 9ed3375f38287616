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

/// The lines, sorted by stack and without duplicates.
///
/// Text is expensive, so stacks are merged in three steps: by process and stack, by process name and frame names
/// (different addresses may have the same), and finally by text.
pub(super) fn fold(profile: Checked<'_>, names: &Names) -> String {
    let processes = process_names(profile);
    let by_process = profile.weights().map(|((stack, thread), weight)| {
        ((profile.threads[thread as usize].process, stack), weight)
    });
    let mut process_ids: FxHashMap<&str, u32> = FxHashMap::default();
    let mut merged: FxHashMap<Box<[u32]>, u64> = FxHashMap::default();
    let mut key = Vec::new();
    for ((process, stack), weight) in add_up(by_process) {
        let value = weight.value(profile.meta.mode);
        if value == 0 {
            continue;
        }
        let new_id = process_ids.len() as u32;
        key.clear();
        key.push(*process_ids.entry(&processes[process as usize]).or_insert(new_id));
        for &frame in profile.stacks[stack as usize].frames.iter().rev() {
            key.extend_from_slice(names.ids_of_frame(frame));
        }
        match merged.get_mut(key.as_slice()) {
            Some(sum) => *sum = u64::saturating_add(*sum, value),
            None => drop(merged.insert(key.as_slice().into(), value)),
        }
    }

    let mut process_names = vec![""; process_ids.len()];
    for (name, id) in process_ids {
        process_names[id as usize] = name;
    }
    let mut text = String::new();
    let mut stacks: Vec<(Range<usize>, u64)> = Vec::with_capacity(merged.len());
    for (key, value) in merged {
        let start = text.len();
        if let Some((&process, frames)) = key.split_first() {
            text.push_str(process_names[process as usize]);
            for name in names.of_ids(frames) {
                text.push(';');
                text.push_str(&name.text);
            }
        }
        stacks.push((start..text.len(), value));
    }
    stacks.sort_unstable_by(|(a, _), (b, _)| text[a.clone()].cmp(&text[b.clone()]));

    let mut lines = String::with_capacity(text.len() + stacks.len() * 8);
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
