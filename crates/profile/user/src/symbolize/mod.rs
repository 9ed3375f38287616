//! Names for addresses: from a raw recording to a [`Profile`].
//!
//! Each distinct address is looked up once, in batches per file; files are read through the
//! descriptors that the recording kept open, so it does not matter what became of them.

mod demangle;
mod lookup;
mod off_cpu;
pub(crate) mod perf_map;
mod places;
pub mod refused;
mod tables;

use crate::{
    model::{Frame, Profile, Sample},
    session::Finished,
};

use self::{
    off_cpu::{Stacks, off_cpu},
    places::Places,
    refused::Refused,
};

/// A profile, and what could have named more of it.
#[derive(Debug)]
pub struct Symbolized {
    pub profile: Profile,
    pub refused: Vec<Refused>,
}

/// Gives names to everything in a recording. `progress` is told how many of how many addresses have
/// been looked up.
pub fn symbolize(finished: &Finished, progress: &mut dyn FnMut(usize, usize)) -> Symbolized {
    let recorder = &finished.recorder;
    let mut places = Places::default();
    // The same code lies at other addresses in each process, so that stacks which differed by
    // address become one.
    let mut stacks = Stacks::default();
    stacks.ids = recorder
        .stacks
        .in_order()
        .into_iter()
        .map(|raw| {
            let stack = places.stack(raw, &recorder.spaces, &recorder.binaries);
            stacks.stacks.id(stack)
        })
        .collect();
    let (names, refused) = lookup::names(&places, recorder, &mut stacks.tables, progress);
    stacks.frames = names
        .into_iter()
        .zip(places.iter())
        .map(|(named, place)| Frame {
            binary: named.binary,
            address: place.address,
            lines: named.lines,
        })
        .collect();
    let mut samples: Vec<Sample> = recorder
        .samples
        .iter()
        .map(|raw| Sample {
            time_ns: raw.time_ns,
            thread: raw.thread,
            stack: stacks.ids[raw.stack as usize],
            cpu: raw.cpu,
        })
        .collect();
    samples.sort_by_key(|sample| sample.time_ns);
    let mut off_cpu = off_cpu(recorder, finished.meta.mode, &mut stacks);
    let mut threads = recorder.threads.threads.clone();
    for (id, thread) in (0..).zip(&mut threads) {
        thread.on_cpu_ns = off_cpu.on_cpu_ns.remove(&id);
    }
    let Stacks { tables, frames, stacks, .. } = stacks;
    let profile = Profile {
        meta: finished.meta.clone(),
        functions: tables.functions.entries,
        binaries: tables.binaries,
        frames,
        stacks: stacks.entries,
        processes: recorder.threads.processes.clone(),
        threads,
        samples,
        blocked: off_cpu.blocked,
        intervals: off_cpu.intervals,
    };
    Symbolized { profile, refused }
}
