//! Selects the debug information that would provide more names: of files that occur in stacks and have no names
//! themselves. Requests reveal to a server what runs here, so nothing else is requested.

use std::{cmp::Reverse, collections::BTreeMap};

use rustc_hash::FxHashMap;

use super::debug_info::DebugInfo;
use crate::{
    debuginfod::{BuildId, Wanted},
    recorder::{
        Recorder,
        binaries::{Backing, Binary, BinaryId},
    },
    session::Finished,
};

/// Files of a recording whose debug information is missing on this machine, most samples first.
pub fn wanted(finished: &Finished) -> Vec<Wanted> {
    let recorder = &finished.recorder;
    // Two files with the same build id are copies.
    let mut by_build: BTreeMap<BuildId, (u64, &str)> = BTreeMap::new();
    for (id, hits) in hits(recorder) {
        let Some(binary) = recorder.binaries.get(id) else { continue };
        if let Some(build_id) = missing(binary) {
            by_build.entry(build_id).or_insert((0, &binary.path)).0 += hits;
        }
    }
    let mut wanted: Vec<_> = by_build.into_iter().collect();
    wanted.sort_by_key(|(_, (hits, _))| Reverse(*hits));
    let wanted = wanted.into_iter();
    wanted.map(|(build_id, (_, path))| Wanted { path: path.to_owned(), build_id }).collect()
}

/// Number of samples and blocks with an address in each file, in file order.
fn hits(recorder: &Recorder) -> BTreeMap<BinaryId, u64> {
    let stacks = recorder.stacks.in_order();
    let mut weights = vec![0_u64; stacks.len()];
    let sampled = recorder.samples.iter().map(|sample| (sample.stack, 1));
    let blocked = recorder.blocks.rows.iter().map(|row| (row.kind.stack, row.durations.count()));
    for (stack, weight) in sampled.chain(blocked) {
        if let Some(sum) = weights.get_mut(stack as usize) {
            *sum += weight;
        }
    }
    let mut hits: BTreeMap<BinaryId, u64> = BTreeMap::new();
    for (stack, weight) in stacks.iter().zip(weights) {
        let Some(generation) = recorder.spaces.generation(stack.generation) else { continue };
        let mut in_stack: FxHashMap<BinaryId, u64> = FxHashMap::default();
        for &address in stack.user {
            if let Some(mapping) = generation.find(address) {
                in_stack.insert(mapping.binary, weight);
            }
        }
        for (binary, weight) in in_stack {
            *hits.entry(binary).or_default() += weight;
        }
    }
    hits
}

/// The build of a file without names here.
fn missing(binary: &Binary) -> Option<BuildId> {
    if binary.backing != Backing::File {
        return None;
    }
    let info = DebugInfo::read(binary.file()?)?;
    let build_id = BuildId::new(&info.build_id).filter(|_| !info.has_names)?;
    let installed = info.find_installed(binary.whereabouts(), &mut |_, _| {});
    installed.is_none().then_some(build_id)
}
