//! Unwind rules of code that JIT compilers make, from jitdump files that are read while they grow.
//!
//! Changes wait until samples of their time come: an address has the rule of the code that was there then.

use std::{collections::VecDeque, fs::File, os::unix::fs::FileExt as _, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_profile_common::unwind::Rule;
use wingbeat_unwind::Rules;

use super::binaries::{Binaries, Binary, BinaryId};
use crate::{
    foreign::trust,
    jitdump::{HEADER, Header, Prefix},
    unwind::{
        jitdump::{Change, EH_FRAME_BYTES_MAX, Reader},
        pieces::{Pieces, needs_rules},
    },
};

/// Longer records are taken by their beginning: code is long, and what lies there does not matter.
const CHUNK: usize = 2 * EH_FRAME_BYTES_MAX;
/// Of one file: what comes later is not read.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Of one file in one turn, so that a flood of records does not keep samples from being read.
const TURN_BYTES_MAX: u64 = 64 << 20;
/// Changes that wait, of all files: others take effect at once.
const WAITING_MAX: usize = 1 << 16;

/// What is known of the code of all processes.
#[derive(Debug, Default)]
pub(crate) struct JitRules {
    /// Nobody walks by rules.
    pub is_off: bool,
    dumps: Vec<Dump>,
    by_pid: FxHashMap<u32, Arc<Pieces>>,
    /// Process and time.
    waiting: VecDeque<(u32, u64, Change)>,
    rules: Rules,
    /// Processes in which walks along frame pointers go wrong.
    unframed: FxHashSet<u32>,
    /// Those of them for which that is news.
    pub changed: Vec<u32>,
    chunk: Vec<u8>,
}

/// A file that a compiler writes.
#[derive(Debug)]
struct Dump {
    pid: u32,
    binary: BinaryId,
    reader: Option<Reader>,
    /// Where the next record is.
    at: u64,
    /// Its process is.
    has_ended: bool,
}

impl JitRules {
    /// A process has mapped a jitdump file, and runs as this user.
    pub(super) fn shown(
        &mut self,
        pid: u32,
        binary: BinaryId,
        user: Option<u32>,
        binaries: &Binaries,
    ) {
        let is_known =
            self.is_off || self.dumps.iter().any(|dump| (dump.pid, dump.binary) == (pid, binary));
        let file = binaries.get(binary).and_then(Binary::file);
        if !is_known && file.is_some_and(|file| trust(file, user).is_ok()) {
            self.dumps.push(Dump { pid, binary, reader: None, at: 0, has_ended: false });
            self.read(binaries);
        }
    }

    /// Reads what has been written since the last time.
    pub(super) fn read(&mut self, binaries: &Binaries) {
        let waited = self.waiting.len();
        let mut dumps = std::mem::take(&mut self.dumps);
        dumps.retain_mut(|dump| {
            let from = dump.at;
            let file = binaries.get(dump.binary).and_then(Binary::file);
            let is_sound = file.is_some_and(|file| self.read_dump(dump, file).is_some());
            is_sound && dump.at < FILE_BYTES_MAX && !(dump.has_ended && dump.at == from)
        });
        self.dumps = dumps;
        if self.waiting.len() > waited {
            self.waiting.make_contiguous().sort_by_key(|(_, time_ns, _)| *time_ns);
        }
    }

    /// `None` if nothing more is to be expected of a file.
    fn read_dump(&mut self, dump: &mut Dump, file: &File) -> Option<()> {
        let until = dump.at.saturating_add(TURN_BYTES_MAX);
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(CHUNK, 0);
        let mut done = Some(1);
        while dump.at < until && done.is_some_and(|len| len > 0) {
            done = file.read_at(&mut chunk, dump.at).ok().and_then(|got| {
                let available = file.metadata().ok()?.len().saturating_sub(dump.at);
                self.read_chunk(dump, chunk.get(..got)?, available)
            });
            dump.at = dump.at.saturating_add(done.unwrap_or(0));
        }
        self.chunk = chunk;
        done.map(|_| ())
    }

    /// How much of the bytes from the next record on is done with, of so many in the file; `None` if they
    /// make no sense.
    fn read_chunk(&mut self, dump: &mut Dump, bytes: &[u8], available: u64) -> Option<u64> {
        let Some(reader) = &mut dump.reader else {
            if bytes.len() < HEADER {
                return Some(0);
            }
            let header = Header::parse(bytes).ok()?;
            dump.reader = Some(Reader::new(header));
            return Some(header.size as u64);
        };
        let mut found = Vec::new();
        let mut take = |time_ns, change| found.push((time_ns, change));
        let mut len = reader.read(bytes, &mut self.rules, &mut take) as u64;
        if len == 0 && bytes.len() == CHUNK {
            let size = Prefix::parse(bytes)?.size as u64;
            if size <= available {
                reader.read_long(bytes, &mut self.rules, &mut take);
                len = size;
            }
        }
        found.into_iter().for_each(|(time_ns, change)| self.wait(dump.pid, time_ns, change));
        Some(len)
    }

    fn wait(&mut self, pid: u32, time_ns: u64, change: Change) {
        if let Change::Load { size, rows, .. } = &change
            && needs_rules(rows, *size, &self.rules)
            && self.unframed.insert(pid)
        {
            self.changed.push(pid);
        }
        self.waiting.push_back((pid, time_ns, change));
        if self.waiting.len() > WAITING_MAX {
            self.take_first();
        }
    }

    /// Samples of this time come next.
    pub(crate) fn advance(&mut self, time_ns: u64) {
        while self.waiting.front().is_some_and(|(_, since_ns, _)| *since_ns <= time_ns) {
            self.take_first();
        }
    }

    fn take_first(&mut self) {
        if let Some((pid, _, change)) = self.waiting.pop_front() {
            Arc::make_mut(self.by_pid.entry(pid).or_default()).take(change);
        }
    }

    /// The rule at an address of a process, if code with rules lies there.
    pub(super) fn rule(&self, pid: u32, address: u64) -> Option<Rule> {
        let id = self.by_pid.get(&pid)?.rule_at(address)?;
        Some(self.rules.get(id))
    }

    /// Do walks along frame pointers go wrong in code that a process made?
    pub(crate) fn is_unframed(&self, pid: u32) -> bool {
        self.unframed.contains(&pid)
    }

    /// A child begins with all that its parent has.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        self.clear(child);
        if let Some(pieces) = self.by_pid.get(&parent) {
            self.by_pid.insert(child, Arc::clone(pieces));
        }
        if self.unframed.contains(&parent) {
            self.unframed.insert(child);
        }
    }

    /// A process becomes another program, or its number is another's.
    pub(super) fn clear(&mut self, pid: u32) {
        self.dumps.retain(|dump| dump.pid != pid);
        self.waiting.retain(|(of, ..)| *of != pid);
        self.by_pid.remove(&pid);
        self.unframed.remove(&pid);
    }

    /// A process has ended: what it has written is read once more.
    pub(super) fn ended(&mut self, pid: u32) {
        let of_pid = self.dumps.iter_mut().filter(|dump| dump.pid == pid);
        of_pid.for_each(|dump| dump.has_ended = true);
    }
}

#[cfg(test)]
mod tests;
