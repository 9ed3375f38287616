//! Symbols of JIT-compiled code by process, from jitdump files and a perf map.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    rc::Rc,
};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    jitdump::{self, Code, JitCode},
    perf_map::PerfMap,
    refused::Refused,
};
use crate::{
    foreign::{Untold, trust},
    jitdump::is_dump,
    recorder::{Recorder, binaries::BinaryId},
};

/// Larger files are truncated.
const BYTES_MAX: u64 = 256 << 20;

/// Code of all processes, read on first use.
pub(super) struct Jits<'a> {
    recorder: &'a Recorder,
    by_pid: FxHashMap<u32, Rc<Told>>,
}

/// Symbols of one process.
#[derive(Debug, Default)]
pub(super) struct Told {
    code: JitCode,
    map: PerfMap,
    refused: Vec<Refused>,
}

impl<'a> Jits<'a> {
    pub(super) fn new(recorder: &'a Recorder) -> Self {
        Self { recorder, by_pid: FxHashMap::default() }
    }

    pub(super) fn of(&mut self, pid: u32) -> Rc<Told> {
        let told = self.by_pid.entry(pid);
        Rc::clone(told.or_insert_with(|| Rc::new(Told::read(pid, self.recorder))))
    }
}

impl Told {
    fn read(pid: u32, recorder: &Recorder) -> Self {
        let owner = recorder.owners.get(pid);
        let user = owner.map(|owner| owner.user);
        let mut told = Self::default();
        let mut codes = Vec::new();
        for id in dumps(pid, recorder) {
            let Some(binary) = recorder.binaries.get(id) else { continue };
            let Some(file) = binary.file() else { continue };
            match trust(file, user) {
                Ok(()) => codes.extend(read_dump(file)),
                Err(Untold::Refused(why)) => {
                    told.refused.push(Refused::new(pid, binary.path.clone(), why));
                }
                Err(Untold::Missing) => {}
            }
        }
        told.code = JitCode::new(codes);
        match PerfMap::read(pid, owner) {
            Ok(map) => told.map = map,
            Err(refused) => told.refused.push(refused),
        }
        told
    }

    /// The code at an address at a time; if there was none yet, the first one there. Without a time, the last.
    pub(super) fn code_at(&self, address: u64, time_ns: Option<u64>) -> Option<u32> {
        let known = self.code.at(address);
        let Some(time_ns) = time_ns else { return known.last().copied() };
        let since = |id: u32| self.code.get(id).map_or(0, |code| code.since_ns);
        let later = known.partition_point(|&id| since(id) <= time_ns);
        known.get(later.saturating_sub(1)).copied()
    }

    /// Times at which code at an address was replaced.
    pub(super) fn changes_at(&self, address: u64) -> impl Iterator<Item = u64> {
        let known = self.code.at(address).into_iter().skip(1);
        known.filter_map(|id| Some(self.code.get(id)?.since_ns))
    }

    pub(super) fn code(&self, id: u32) -> Option<&Code> {
        self.code.get(id)
    }

    /// The name of an address in the perf map.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        self.map.find(address)
    }

    pub(super) fn refused(&self) -> &[Refused] {
        &self.refused
    }
}

/// The jitdump files that a process has mapped, which is how compilers announce them.
fn dumps(pid: u32, recorder: &Recorder) -> FxHashSet<BinaryId> {
    let generations = recorder.spaces.all().filter(|generation| generation.pid == pid);
    let mapped = generations.flat_map(|generation| &generation.mappings);
    mapped
        .map(|mapping| mapping.binary)
        .filter(|&id| recorder.binaries.get(id).is_some_and(|binary| is_dump(&binary.path)))
        .collect()
}

/// The code in an open file; empty if its contents do not match its name.
fn read_dump(mut file: &File) -> Vec<Code> {
    let mut bytes = Vec::new();
    let read =
        file.seek(SeekFrom::Start(0)).and_then(|_| file.take(BYTES_MAX).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    jitdump::parse(&bytes).unwrap_or_default()
}
