//! Unwind rules of JIT-compiled code, from jitdump files that are read while they grow.
//!
//! Changes are queued until the samples of their time arrive: an address has the rule of the code that was there then.

use std::{collections::VecDeque, fs::File, os::unix::fs::FileExt as _, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_profiler_abi::unwind::Rule;
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

/// Of longer records only the start is read: code is long, and its bytes do not matter.
const CHUNK: usize = 2 * EH_FRAME_BYTES_MAX;
/// Maximum bytes to read of one file.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Maximum bytes of one file per turn, so that many records do not delay the samples.
const TURN_BYTES_MAX: u64 = 64 << 20;
/// Maximum queued changes, over all files. Further ones take effect at once.
const WAITING_MAX: usize = 1 << 16;

/// State of the code of all processes.
#[derive(Debug, Default)]
pub(crate) struct JitRules {
    /// Rules are not used.
    pub is_off: bool,
    dumps: Vec<Dump>,
    by_pid: FxHashMap<u32, Arc<Pieces>>,
    /// Process, time and change.
    waiting: VecDeque<(u32, u64, Change)>,
    rules: Rules,
    /// Processes in which frame pointer walks go wrong.
    unframed: FxHashSet<u32>,
    /// Processes newly added to these.
    pub changed: Vec<u32>,
    chunk: Vec<u8>,
}

/// A file that a compiler writes.
#[derive(Debug)]
struct Dump {
    pid: u32,
    binary: BinaryId,
    reader: Option<Reader>,
    /// Offset of the next record.
    at: u64,
    /// The process has exited.
    has_ended: bool,
}

impl JitRules {
    /// Handles a process of this user mapping a jitdump file.
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

    /// Reads what was written since the last call.
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

    /// `None` if the file is finished.
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

    /// Bytes processed from the next record on, of `available` in the file; `None` if they are invalid.
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

    /// Applies changes up to the time of the next samples.
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

    /// The rule for an address of a process, if code with rules is there.
    pub(super) fn rule(&self, pid: u32, address: u64) -> Option<Rule> {
        let id = self.by_pid.get(&pid)?.rule_at(address)?;
        Some(self.rules.get(id))
    }

    /// Whether frame pointer walks go wrong in JIT-compiled code of a process.
    pub(crate) fn is_unframed(&self, pid: u32) -> bool {
        self.unframed.contains(&pid)
    }

    /// Copies the parent's code to a child.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        self.clear(child);
        if let Some(pieces) = self.by_pid.get(&parent) {
            self.by_pid.insert(child, Arc::clone(pieces));
        }
        if self.unframed.contains(&parent) {
            self.unframed.insert(child);
        }
    }

    /// Removes the code of a process after `exec`, or when its number is reused.
    pub(super) fn clear(&mut self, pid: u32) {
        self.dumps.retain(|dump| dump.pid != pid);
        self.waiting.retain(|(of, ..)| *of != pid);
        self.by_pid.remove(&pid);
        self.unframed.remove(&pid);
    }

    /// Marks a process as exited: its file is read once more.
    pub(super) fn ended(&mut self, pid: u32) {
        let of_pid = self.dumps.iter_mut().filter(|dump| dump.pid == pid);
        of_pid.for_each(|dump| dump.has_ended = true);
    }
}

#[cfg(test)]
mod tests;
