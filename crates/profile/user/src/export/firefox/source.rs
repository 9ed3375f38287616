//! Files, lines, inlining and libraries, which `fxprof-processed-profile` 0.8 leaves empty.
//!
//! Frames go into the crate under keys instead of names; the columns of the written document that
//! hang on them are then filled from the profile. Format:
//! <https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.ts>, version 55.

use fxprof_processed_profile::LibraryInfo;
use fxprof_processed_profile::debugid::DebugId;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::tables::Tables;
use crate::export::ExportError;
use crate::model::{Binary, BinaryId, Profile};

/// What stands for a frame's function until [`fill`].
pub(super) fn key(frame: usize, line: usize) -> String {
    format!("{frame} {line}")
}

fn parse_key(key: &str) -> Option<(usize, usize)> {
    let (frame, line) = key.split_once(' ')?;
    Some((frame.parse().ok()?, line.parse().ok()?))
}

/// Fills the columns.
pub(super) fn fill(profile: &Profile, document: &mut Value) -> Result<(), ExportError> {
    let mut libraries = Libraries { profile, indices: FxHashMap::default(), values: Vec::new() };
    let threads = document.get_mut("threads").and_then(Value::as_array_mut);
    for thread in threads.ok_or(ExportError::UnexpectedDocument("threads"))? {
        let keys = frame_keys(thread).ok_or(ExportError::UnexpectedDocument("frameTable"))?;
        let mut tables = Tables::default();
        for (frame, line) in keys {
            let frame = profile.frames.get(frame);
            frame
                .and_then(|frame| tables.push(profile, frame, line, &mut libraries))
                .ok_or(ExportError::UnexpectedDocument("frame of that number"))?;
        }
        tables.keep_marker_texts(thread).ok_or(ExportError::UnexpectedDocument("markers"))?;
        tables.write_to(thread);
    }
    document["libs"] = libraries.values.into();

    let meta = &profile.meta;
    document["meta"]["startTimeAsClockMonotonicNanosecondsSinceBoot"] = meta.start_ns.into();
    document["meta"]["profilingStartTime"] = 0.into();
    document["meta"]["profilingEndTime"] = (meta.duration_ns as f64 / 1e6).into();
    Ok(())
}

/// The frame and line behind each row of a thread's `frameTable`.
fn frame_keys(thread: &Value) -> Option<Vec<(usize, usize)>> {
    let strings = thread["stringArray"].as_array()?;
    let names = thread["funcTable"]["name"].as_array()?;
    let functions = thread["frameTable"]["func"].as_array()?;
    functions
        .iter()
        .map(|function| {
            let name = names.get(function.as_u64()? as usize)?;
            parse_key(strings.get(name.as_u64()? as usize)?.as_str()?)
        })
        .collect()
}

/// The document's list of libraries, which all threads share.
pub(super) struct Libraries<'a> {
    profile: &'a Profile,
    indices: FxHashMap<BinaryId, usize>,
    values: Vec<Value>,
}

impl Libraries<'_> {
    /// The position of a binary in the list.
    pub(super) fn index(&mut self, id: BinaryId) -> usize {
        *self.indices.entry(id).or_insert_with(|| {
            let library = library(&self.profile.binaries[id as usize]);
            self.values.push(serde_json::to_value(&library).unwrap_or_default());
            self.values.len() - 1
        })
    }
}

fn library(binary: &Binary) -> LibraryInfo {
    // The first 16 bytes of a build id, padded, read as a GUID of age 0: Breakpad's rule for ELF.
    let mut guid = [0; 16];
    for (to, from) in guid.iter_mut().zip(&binary.build_id) {
        *to = *from;
    }
    let code_id: String = binary.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    LibraryInfo {
        name: binary.name().to_owned(),
        debug_name: binary.name().to_owned(),
        path: binary.path.clone(),
        debug_path: binary.path.clone(),
        debug_id: DebugId::from_guid_age(&guid, 0).unwrap_or_default(),
        code_id: (!code_id.is_empty()).then_some(code_id),
        arch: None,
        symbol_table: None,
    }
}
