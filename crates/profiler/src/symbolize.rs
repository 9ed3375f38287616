//! Symbolization: from a raw recording to a [`Profile`].
//!
//! Each distinct address is looked up once, in batches per file. Files are read through the descriptors that the
//! recording kept open, so later changes do not matter.

pub(crate) mod debug_info;
mod dwarf;
pub mod helper;
pub(crate) mod jit;
pub(crate) mod jitdump;
pub(crate) mod known;
mod locations;
pub(crate) mod lookup;
mod off_cpu;
mod symbols;
mod tables;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, hash_map::Entry},
};

use rustc_hash::FxHashMap;
use serde::Serialize;

use self::locations::Locations;
use crate::{
    debuginfod::{BuildId, DebugFiles, Wanted},
    heap::site_sums::RawSite,
    model::{Amount, Frame, Meta, Mode, Profile, Sample, Site, StackId, ThreadId},
    recorder::{
        RawSample, Recorder,
        binaries::{Backing, Binary, BinaryId},
        raw_stacks::{RawStack, RawStackId},
    },
    session::Finished,
    symbolize::{
        debug_info::DebugInfo,
        jit::Jits,
        known::KnownNames,
        lookup::{Asked, Detail},
        off_cpu::{Stacks, off_cpu},
    },
    untrusted_file::Distrust,
};

/// A profile, and the files that could have provided more names.
#[derive(Debug)]
pub struct Symbolized {
    pub profile: Profile,
    pub refused: Vec<Refused>,
    pub unusable: Vec<Unusable>,
}

/// Symbolizes a recording with its files and the given debug files. `progress` gets the number of addresses looked
/// up and the total.
pub fn symbolize(
    finished: &Finished,
    debug_files: &DebugFiles,
    progress: &mut dyn FnMut(usize, usize),
) -> Symbolized {
    let mut known = KnownNames::default();
    let started = &|pid| finished.disown(pid);
    let asked = Asked { debug_files, detail: Detail::Lines, known: &mut known, started };
    name(&finished.recorder, &finished.meta, asked, progress)
}

/// Same for the contents of a recorder.
pub(crate) fn name(
    recorder: &Recorder,
    meta: &Meta,
    asked: Asked<'_>,
    progress: &mut dyn FnMut(usize, usize),
) -> Symbolized {
    let mut locations = Locations::default();
    // The same code has other addresses in each process, so stacks that differ by address may become equal.
    let mut stacks = Stacks::default();
    let mut jits = Jits::new(recorder);
    let raw = recorder.stacks.in_order();
    stacks.ids = raw
        .iter()
        .map(|raw| stacks.stacks.id(locations.stack(*raw, recorder, &mut jits, None)))
        .collect();
    let mut of = |taken: &[RawSample]| {
        samples((recorder, taken), meta.start_ns, &raw, &mut locations, &mut stacks, &mut jits)
    };
    let (samples, faults) = (of(&recorder.samples), of(&recorder.faults));
    let (names, Unused { refused, unusable }) =
        lookup::names(&locations, recorder, asked, &mut jits, &mut stacks.tables, progress);
    stacks.frames = names
        .into_iter()
        .zip(locations.iter())
        .map(|(named, location)| Frame {
            binary: named.binary,
            address: location.address,
            lines: named.lines,
        })
        .collect();
    let mut off_cpu = off_cpu(recorder, meta.mode, &mut stacks);
    let mut threads = recorder.threads.threads.clone();
    for (id, thread) in (0..).zip(&mut threads) {
        thread.on_cpu_ns = off_cpu.on_cpu_ns.remove(&id);
    }
    let touched_or_allocated = match meta.mode {
        Mode::Heap => sites(&recorder.heap.blocks.sums.sites, &stacks),
        _ => touched(meta.fault_bytes, &faults),
    };
    let mapped = recorder.heap.space.as_ref();
    let mapped = mapped.map(|mapped| sites(&mapped.sums.sites, &stacks));
    let Stacks { tables, frames, stacks, .. } = stacks;
    let profile = Profile {
        meta: meta.clone(),
        functions: tables.functions.entries,
        binaries: tables.binaries,
        frames,
        stacks: stacks.entries,
        processes: recorder.threads.processes.clone(),
        threads,
        samples,
        blocked: off_cpu.blocked,
        intervals: off_cpu.intervals,
        sites: touched_or_allocated,
        mapped,
        sums: Vec::new(),
    };
    Symbolized { profile, refused, unusable }
}

/// Allocation sites, merged if their symbolized stacks are equal.
fn sites(raw: &[RawSite], stacks: &Stacks) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::with_capacity(raw.len());
    let mut known: FxHashMap<(ThreadId, StackId), usize> = FxHashMap::default();
    for raw in raw {
        let stack = stacks.ids.get(raw.key.stack as usize).copied().unwrap_or(0);
        let site = raw.named(stack);
        match known.entry((raw.key.process, stack)) {
            Entry::Occupied(at) => sites[*at.get()].merge(&site),
            Entry::Vacant(new) => {
                new.insert(sites.len());
                sites.push(site);
            }
        }
    }
    sites
}

/// Converts page fault samples to allocation sites: each represents the memory of a sampling period of faults.
fn touched(period: u64, samples: &[Sample]) -> Vec<Site> {
    let bytes = period as f64;
    let blocks = bytes / rustix::param::page_size() as f64;
    // The number of samples of a site is Poisson-distributed, unless each fault is sampled.
    let variance = bytes * bytes * (1.0 - 1.0 / blocks);
    let amount = Amount { blocks, bytes, variance, samples: 1 };
    let mut sites: Vec<Site> = Vec::new();
    let mut known: FxHashMap<(ThreadId, StackId), usize> = FxHashMap::default();
    for sample in samples {
        let at = *known.entry((sample.thread, sample.stack)).or_insert_with(|| {
            sites.push(Site { thread: sample.thread, stack: sample.stack, ..Site::default() });
            sites.len() - 1
        });
        sites[at].total += amount;
        sites[at].at_end += amount;
    }
    sites
}

/// The samples by time. A stack with JIT-compiled code is symbolized as of its sample's time.
fn samples(
    (recorder, taken): (&Recorder, &[RawSample]),
    start_ns: u64,
    raw_stacks: &[RawStack<'_>],
    locations: &mut Locations,
    stacks: &mut Stacks,
    jits: &mut Jits<'_>,
) -> Vec<Sample> {
    let named = stacks.ids.iter().map(|&id| &stacks.stacks.entries[id as usize]);
    let changes: Vec<Vec<u64>> =
        named.map(|stack| locations.changes(&stack.frames, jits)).collect();
    // The stack of a sample, by the number of these changes before it.
    let mut known: FxHashMap<(RawStackId, usize), StackId> = FxHashMap::default();
    let mut samples = Vec::with_capacity(taken.len());
    for raw in taken {
        let index = raw.stack as usize;
        let at_ns = start_ns.saturating_add(raw.time_ns);
        let stack = match &changes[index][..] {
            [] => stacks.ids[index],
            changes => {
                let before = changes.partition_point(|&change| change <= at_ns);
                *known.entry((raw.stack, before)).or_insert_with(|| {
                    let stack = locations.stack(raw_stacks[index], recorder, jits, Some(at_ns));
                    stacks.stacks.id(stack)
                })
            }
        };
        samples.push(Sample { time_ns: raw.time_ns, thread: raw.thread, stack, cpu: raw.cpu });
    }
    samples.sort_by_key(|sample| sample.time_ns);
    samples
}

/// Files that could have provided more names.
#[derive(Debug, Default)]
struct Unused {
    pub refused: Vec<Refused>,
    pub unusable: Vec<Unusable>,
}

impl Unused {
    /// Records why a file was not used, once per file.
    fn add(&mut self, path: &str, why: String, is_replaced: bool) {
        match self.unusable.iter_mut().find(|known| known.path == path) {
            Some(known) => known.reason = format!("{}; {why}", known.reason),
            None => {
                let path = path.to_owned();
                self.unusable.push(Unusable { path, reason: why, is_replaced });
            }
        }
    }
}

/// A symbol file that was not used, though code of its process is unnamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub pid: u32,
    /// As seen by the process.
    pub path: String,
    pub reason: String,
}

impl Refused {
    fn new(pid: u32, path: String, why: Distrust) -> Self {
        Self { pid, path, reason: why.to_string() }
    }
}

/// A file whose debug information, or a part of it, was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unusable {
    /// The code file, as seen by its process.
    pub path: String,
    pub reason: String,
    /// The file has been replaced since it ran, so it provides no names.
    pub is_replaced: bool,
}

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
