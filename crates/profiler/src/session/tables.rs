//! Supplies the kernel half with unwind tables: which code is mapped where, and its rules.
//!
//! Tables are built one stretch of code at a time, stretches requested by walks first, between checks of the ring
//! buffer, so that no sample waits for a large file. While there is room, all mapped code gets a table. After that
//! only requested stretches do, and the least recently requested table is evicted.

mod file;
mod memory;
mod pool;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_bpf_loader::loader::LoadedMaps;
use wingbeat_profiler_abi::unwind::layout::{CodeMapping, MAPPINGS_MAX, Space, Word};
use wingbeat_unwind::{RuleId, Rules};

use self::{
    file::{FileTable, Writes},
    memory::{Maps, Memory},
    pool::{Directory, Pool, Regions, Room},
};
use crate::{
    error::RecordError,
    recorder::{
        Recorder,
        address_spaces::{GenerationId, Mapping},
        binaries::{Backing, Binaries, BinaryId},
    },
    unwind::Image,
};

/// How long to build tables before checking the ring buffer.
const TURN: Duration = Duration::from_millis(10);
/// Same for requested stretches: without them each sample carries a copy of its stack, which takes longer to walk.
const WANTED_TURN: Duration = Duration::from_millis(100);
/// Maximum code of one file: 512 MiB. Its directory has a word per KiB, filled or not.
const STRETCHES_MAX: usize = 2048;

/// Counts of the tables, for the summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableCounts {
    /// Files with a table.
    pub files: u64,
    /// Kernel memory.
    pub bytes: u64,
    pub limit_bytes: u64,
    /// Number of evictions.
    pub evicted: u64,
    /// Tables built again after an eviction.
    pub rebuilt: u64,
    /// Files of which at least a part did not fit.
    pub refused: u64,
}

/// The tables of all files.
pub(super) struct Tables<M = Maps> {
    memory: M,
    rules: Rules,
    rules_written: usize,
    pool: Pool,
    regions: Regions,
    /// `None` for a file whose code is walked by frame pointers.
    files: FxHashMap<BinaryId, Option<FileTable>>,
    /// Stretches requested by walks, latest first.
    wanted: VecDeque<(BinaryId, usize)>,
    /// Stretches not requested, built while there is room.
    ahead: VecDeque<(BinaryId, usize)>,
    /// Building continues when the released blocks are free.
    is_waiting: bool,
    directory: Directory,
    evicted: u64,
    rebuilt: u64,
    /// Number of uses so far: the clock for least recent use.
    uses: u64,
}

/// Whether a mapping may have code that is in no ELF file.
fn is_in_no_file(binaries: &Binaries, mapping: &Mapping) -> bool {
    let binary = binaries.get(mapping.binary);
    binary.is_some_and(|binary| binary.backing != Backing::Vdso && binary.image().is_none())
}

impl Tables {
    /// Creates the tables of a kernel half, up to a maximum size.
    pub(super) fn new(maps: &LoadedMaps, limit_bytes: u64) -> Result<Self, RecordError> {
        let mut memory = Maps::of(maps)?;
        memory.order_chunk();
        Self::within(memory, Pool::new(limit_bytes))
    }
}

impl<M: Memory> Tables<M> {
    fn within(memory: M, pool: Pool) -> Result<Self, RecordError> {
        let mut tables = Self {
            memory,
            rules: Rules::new(),
            rules_written: 0,
            pool,
            regions: Regions::default(),
            files: FxHashMap::default(),
            wanted: VecDeque::new(),
            ahead: VecDeque::new(),
            is_waiting: false,
            directory: Directory::default(),
            evicted: 0,
            rebuilt: 0,
            uses: 0,
        };
        tables.write_rules()?;
        Ok(tables)
    }

    pub(super) fn counts(&self) -> TableCounts {
        let files = || self.files.values().flatten();
        TableCounts {
            files: files().filter(|file| file.word.is_some()).count() as u64,
            bytes: self.pool.bytes(),
            limit_bytes: self.pool.limit_bytes(),
            evicted: self.evicted,
            rebuilt: self.rebuilt,
            refused: files().filter(|file| file.is_refused).count() as u64,
        }
    }

    /// Whether there is something to build.
    pub(super) fn has_work(&self) -> bool {
        !(self.is_waiting || self.wanted.is_empty() && self.ahead.is_empty())
    }

    /// Updates the kernel half with the recorder's state at `as_of_ns`, and builds tables for a while.
    pub(super) fn update(
        &mut self,
        recorder: &mut Recorder,
        as_of_ns: u64,
    ) -> Result<(), RecordError> {
        let begun = self.memory.now();
        let mut pids: FxHashSet<u32> = recorder.spaces.changed.drain(..).collect();
        pids.extend(recorder.jit.changed.drain(..));
        let wanted: FxHashSet<(u32, u64)> = recorder.wanted.drain(..).collect();
        for (pid, address) in wanted {
            pids.insert(pid);
            self.want(recorder, pid, address)?;
        }
        for pid in pids {
            // There may be many files: the other processes wait until the ring buffer has been checked.
            if self.memory.now() >= begun + WANTED_TURN {
                recorder.spaces.changed.push(pid);
            } else {
                self.write_space(recorder, pid, as_of_ns)?;
            }
        }
        let begun = self.memory.now();
        self.build(&recorder.binaries, Some(begun))
    }

    /// Releases the lists of exited processes.
    pub(super) fn sweep(&mut self) -> Result<(), RecordError> {
        self.regions.sweep(&mut self.memory)
    }

    /// Builds everything that fits, without a time limit.
    pub(super) fn finish(&mut self, recorder: &Recorder) -> Result<(), RecordError> {
        self.build(&recorder.binaries, None)
    }

    /// Requests the table for code that a walk reached: it is built next.
    fn want(&mut self, recorder: &Recorder, pid: u32, address: u64) -> Result<(), RecordError> {
        let space = recorder.spaces.current(pid);
        let space = space.and_then(|id| recorder.spaces.generation(id));
        let Some(mapping) = space.and_then(|space| space.find(address)) else { return Ok(()) };
        let binary = mapping.binary;
        let Some(image) = recorder.binaries.get(binary).and_then(|binary| binary.image()) else {
            return Ok(());
        };
        self.open(binary, image, true)?;
        let now = self.memory.now();
        if let Some(Some(file)) = self.files.get(&binary)
            && file.is_outdated(now)
        {
            self.evict(binary)?;
        }
        self.uses += 1;
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(()) };
        file.used = self.uses;
        let Some(bias) = file.bias(image, mapping) else { return Ok(()) };
        let Some(stretch) = file.missing_at(address.wrapping_add(bias), now) else { return Ok(()) };
        let is_asked = self.wanted.contains(&(binary, stretch));
        if file.word.is_some() && !is_asked {
            self.wanted.push_front((binary, stretch));
        }
        Ok(())
    }

    /// Writes the code mappings of a process.
    fn write_space(
        &mut self,
        recorder: &Recorder,
        pid: u32,
        as_of_ns: u64,
    ) -> Result<(), RecordError> {
        let Some(id) = recorder.spaces.current(pid) else { return Ok(()) };
        let Some((first, count)) = self.region(recorder, pid, id)? else { return Ok(()) };
        self.memory.write_space(pid, &Space { first, count, as_of_ns })
    }

    /// The list of an address space: first index and count. `None` if there is no room.
    fn region(
        &mut self,
        recorder: &Recorder,
        pid: u32,
        id: GenerationId,
    ) -> Result<Option<(u32, u32)>, RecordError> {
        let Some(generation) = recorder.spaces.generation(id) else { return Ok(None) };
        let is_unframed = recorder.jit.is_unframed(pid);
        let mut list: Vec<CodeMapping> = Vec::with_capacity(generation.mappings.len());
        for mapping in &generation.mappings {
            // User space has the rules of JIT-compiled code, and continues the walk there.
            if is_unframed && is_in_no_file(&recorder.binaries, mapping) {
                continue;
            }
            let Some(next) = self.code_mapping(&recorder.binaries, mapping)? else { continue };
            match list.last_mut() {
                Some(last) if last.words == 0 && next.words == 0 && last.end == next.start => {
                    last.end = next.end;
                }
                _ => list.push(next),
            }
        }
        list.truncate(MAPPINGS_MAX as usize);
        self.regions.write(id, list, &mut self.memory)
    }

    /// How to walk the code of a mapping. `None` if it has rules but no table: a walk that finds no mapping sends
    /// a copy of the stack.
    fn code_mapping(
        &mut self,
        binaries: &Binaries,
        mapping: &Mapping,
    ) -> Result<Option<CodeMapping>, RecordError> {
        let Mapping { start, end, binary, .. } = *mapping;
        let plain = CodeMapping { start, end, ..CodeMapping::default() };
        let Some(image) = binaries.get(binary).and_then(|binary| binary.image()) else {
            return Ok(Some(plain));
        };
        self.open(binary, image, false)?;
        self.uses += 1;
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(Some(plain)) };
        file.used = self.uses;
        let Some(bias) = file.bias(image, mapping) else { return Ok(Some(plain)) };
        let Some(word) = file.word else { return Ok(None) };
        Ok(Some(CodeMapping { bias, word, words: file.words as u32, ..plain }))
    }

    /// Begins the table of a file unless it exists, and queues its stretches. Evicts others only for one that a
    /// walk requested.
    fn open(
        &mut self,
        binary: BinaryId,
        image: &Image,
        is_wanted: bool,
    ) -> Result<(), RecordError> {
        let file = self.files.entry(binary).or_insert_with(|| FileTable::new(image));
        let Some(file) = file.as_mut().filter(|file| file.word.is_none()) else {
            return Ok(());
        };
        if file.is_closed {
            return Ok(());
        }
        let stretches = file.stretches();
        // Rows need room, too.
        let words = file.words;
        let is_too_large = self.directory.blocks_with(words) > self.pool.limit() / 4 * 3;
        if is_too_large || stretches > STRETCHES_MAX {
            (file.is_closed, file.is_refused) = (true, true);
            return Ok(());
        }
        let room = loop {
            match self.directory.take(words, &mut self.pool, &mut self.memory)? {
                Room::Nowhere if is_wanted && self.make_room(binary)? => {}
                room => break room,
            }
        };
        match room {
            Room::Here(word) => {
                if let Some(Some(file)) = self.files.get_mut(&binary) {
                    file.word = Some(word);
                }
                self.ahead.extend((0..stretches).map(|stretch| (binary, stretch)));
            }
            Room::Nowhere if is_wanted => self.refuse(binary),
            Room::Later | Room::Nowhere => {}
        }
        Ok(())
    }

    /// Marks a file that does not fit, as a whole or in part: walks that reach it are completed in user space.
    fn refuse(&mut self, binary: BinaryId) {
        self.wanted.retain(|(wanted, _)| *wanted != binary);
        if let Some(Some(file)) = self.files.get_mut(&binary) {
            file.is_refused = true;
            file.close();
        }
    }

    /// Evicts the least recently requested table; false if there is none.
    fn make_room(&mut self, binary: BinaryId) -> Result<bool, RecordError> {
        let tables = self.files.iter().filter_map(|(id, file)| Some((*id, file.as_ref()?)));
        let others = tables.filter(|(id, file)| *id != binary && !file.rows.is_empty());
        let Some((oldest, _)) = others.min_by_key(|(_, file)| file.used) else {
            return Ok(false);
        };
        self.evict(oldest)?;
        Ok(true)
    }

    /// Removes the rows of a table.
    fn evict(&mut self, binary: BinaryId) -> Result<(), RecordError> {
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(()) };
        for (first, count) in file.leading() {
            self.memory.write_words(first, &vec![Word::NONE; count])?;
        }
        // From now on no new walk reads the rows.
        let now = self.memory.now();
        self.pool.give_back(file.give_way(now), now);
        self.wanted.retain(|(wanted, _)| *wanted != binary);
        // Walks request what they need.
        self.ahead.clear();
        self.evicted += 1;
        Ok(())
    }

    /// Builds queued stretches, for one turn if it has `begun`.
    fn build(&mut self, binaries: &Binaries, begun: Option<Instant>) -> Result<(), RecordError> {
        self.is_waiting = false;
        loop {
            let is_wanted = !self.wanted.is_empty();
            let queue = if is_wanted { &mut self.wanted } else { &mut self.ahead };
            let Some((binary, stretch)) = queue.pop_front() else { break };
            if !self.build_stretch(binaries, binary, stretch, is_wanted)? {
                self.wanted.push_front((binary, stretch));
                self.is_waiting = true;
                break;
            }
            let turn = if self.wanted.is_empty() { TURN } else { WANTED_TURN };
            if begun.is_some_and(|begun| self.memory.now() >= begun + turn) {
                break;
            }
        }
        Ok(())
    }

    /// Builds a stretch if there is room. Returns false if there will be room a little later.
    fn build_stretch(
        &mut self,
        binaries: &Binaries,
        binary: BinaryId,
        stretch: usize,
        is_wanted: bool,
    ) -> Result<bool, RecordError> {
        let image = binaries.get(binary).and_then(|binary| binary.image());
        let Some(image) = image.and_then(Image::rules) else { return Ok(true) };
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(true) };
        let shared = || self.pool.take_shared();
        let Some(missing) = file.prepare(stretch, image, &mut self.rules, shared) else {
            return Ok(true);
        };
        self.write_rules()?;
        let numbers = loop {
            match self.pool.take(missing, &mut self.memory)? {
                Room::Here(numbers) => break numbers,
                _ if !is_wanted => {
                    self.ahead.clear();
                    return Ok(true);
                }
                Room::Later => return Ok(false),
                Room::Nowhere if self.make_room(binary)? => {}
                Room::Nowhere => {
                    self.refuse(binary);
                    return Ok(true);
                }
            }
        };
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(true) };
        self.rebuilt += u64::from(!file.has_rows() && file.is_back());
        let writes = file.fill(stretch, numbers, self.memory.now());
        if let Some(shared) = file.complete() {
            self.pool.share(shared);
        }
        if let Some(Writes { blocks, word, words }) = writes {
            for (number, block) in blocks {
                self.memory.write_block(number, &block)?;
            }
            self.memory.write_words(word, &words)?;
        }
        Ok(true)
    }

    /// Writes the new rules.
    fn write_rules(&mut self) -> Result<(), RecordError> {
        for number in self.rules_written..self.rules.all().len() {
            self.memory.write_rule(number as u32, &self.rules.get(RuleId(number as u16)))?;
        }
        self.rules_written = self.rules.all().len();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
