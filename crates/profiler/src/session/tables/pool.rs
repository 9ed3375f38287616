//! Allocation of the tables' memory: blocks, words of the directory, and lists of mappings.

use std::{ops::Range, time::Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_profiler_abi::unwind::layout::{
    BLOCK_BYTES, BLOCKS_MAX, CHUNK_BLOCKS, CodeMapping, MAPPINGS_MAX, WORDS,
};
use wingbeat_unwind::OpenBlock;

use crate::{
    error::RecordError,
    recorder::address_spaces::GenerationId,
    session::tables::memory::{GRACE, Memory},
};

/// Result of a request for blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Room<T> {
    Here(T),
    /// Enough blocks were released, but walks may still read them.
    Later,
    Nowhere,
}

/// A block in which the rows of one file end, with room for those of another.
pub(super) struct Shared {
    pub number: u32,
    pub block: OpenBlock,
}

/// All blocks.
pub(super) struct Pool {
    blocks: Vec<State>,
    /// Most files are small, so the rows of the next file begin where those of one end.
    shared: Option<Shared>,
    /// Maximum number of blocks.
    limit: usize,
}

/// State of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Number of files with rows in it.
    Used(u32),
    /// Free from this time on.
    Free(Instant),
}

impl State {
    fn is_free(self, is_due: impl Fn(Instant) -> bool) -> bool {
        matches!(self, Self::Free(from) if is_due(from))
    }
}

impl Pool {
    /// A pool up to a maximum size in bytes, in whole chunks.
    pub(super) fn new(limit_bytes: u64) -> Self {
        let chunk_bytes = u64::from(CHUNK_BLOCKS) * BLOCK_BYTES as u64;
        let blocks = limit_bytes / chunk_bytes * u64::from(CHUNK_BLOCKS);
        Self::with_blocks(blocks.clamp(CHUNK_BLOCKS.into(), BLOCKS_MAX.into()) as usize)
    }

    /// A pool up to a maximum number of blocks.
    pub(super) fn with_blocks(limit: usize) -> Self {
        Self { blocks: Vec::new(), shared: None, limit }
    }

    /// Memory taken from the kernel.
    pub(super) fn bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK_BYTES) as u64
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        (self.limit * BLOCK_BYTES) as u64
    }

    /// Maximum number of blocks.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes consecutive blocks, and returns the first.
    pub(super) fn take_run(
        &mut self,
        count: usize,
        memory: &mut impl Memory,
    ) -> Result<Room<u32>, RecordError> {
        let now = memory.now();
        if let Some(first) = self.run(count, |from| from <= now) {
            self.grow(first + count, memory)?;
            self.blocks[first..first + count].fill(State::Used(1));
            return Ok(Room::Here(first as u32));
        }
        Ok(if self.run(count, |_| true).is_some() { Room::Later } else { Room::Nowhere })
    }

    /// Takes blocks at any positions: all or none.
    pub(super) fn take(
        &mut self,
        count: usize,
        memory: &mut impl Memory,
    ) -> Result<Room<Vec<u32>>, RecordError> {
        let now = memory.now();
        let unborn = self.blocks.len()..self.limit.max(self.blocks.len());
        let is_free = |number: &usize| self.blocks[*number].is_free(|from| from <= now);
        let free = (0..self.blocks.len()).filter(is_free);
        let numbers: Vec<usize> = free.chain(unborn.clone()).take(count).collect();
        if numbers.len() == count {
            self.grow(numbers.last().map_or(0, |last| last + 1), memory)?;
            for &number in &numbers {
                self.blocks[number] = State::Used(1);
            }
            return Ok(Room::Here(numbers.into_iter().map(|number| number as u32).collect()));
        }
        let free = self.blocks.iter().filter(|block| block.is_free(|_| true)).count();
        let free = free + unborn.len();
        Ok(if free >= count { Room::Later } else { Room::Nowhere })
    }

    /// Releases blocks to which no directory refers any more. Walks that read the directory just before may still
    /// read them.
    pub(super) fn give_back(&mut self, numbers: Vec<u32>, now: Instant) {
        for number in numbers {
            let block = &mut self.blocks[number as usize];
            *block = match *block {
                State::Used(files @ 2..) => State::Used(files - 1),
                _ => {
                    self.shared.take_if(|shared| shared.number == number);
                    State::Free(now + GRACE)
                }
            };
        }
    }

    /// Takes the block in which the next file may begin. It is released like any other.
    pub(super) fn take_shared(&mut self) -> Option<Shared> {
        let shared = self.shared.take()?;
        if let State::Used(files) = &mut self.blocks[shared.number as usize] {
            *files += 1;
        }
        Some(shared)
    }

    /// Offers the last block of a file to the next one, if it has more room than the current offer.
    pub(super) fn share(&mut self, offered: Shared) {
        if self.shared.as_ref().is_none_or(|shared| shared.block.room() < offered.block.room()) {
            self.shared = Some(offered);
        }
    }

    /// First of consecutive blocks that are free, or will be by growing.
    fn run(&self, count: usize, is_free: impl Fn(Instant) -> bool) -> Option<usize> {
        let mut run = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            run = if block.is_free(&is_free) { run + 1 } else { 0 };
            if run == count {
                return Some(number + 1 - count);
            }
        }
        // The free blocks at the end are the start of the run.
        let first = self.blocks.len() - run;
        (first + count <= self.limit).then_some(first)
    }

    /// Grows to `len` blocks, and orders the next chunk when few are left.
    fn grow(&mut self, len: usize, memory: &mut impl Memory) -> Result<(), RecordError> {
        while self.blocks.len() < len {
            memory.add_chunk()?;
            let born = State::Free(memory.now());
            let more = (self.blocks.len() + CHUNK_BLOCKS as usize).min(self.limit);
            self.blocks.resize(more, born);
        }
        let is_nearly_full = len + CHUNK_BLOCKS as usize / 2 > self.blocks.len();
        if is_nearly_full && self.blocks.len() < self.limit {
            memory.order_chunk();
        }
        Ok(())
    }
}

// Free words of the directory blocks. Words of a file are never released, so that cached entries of walks stay valid.

/// All directory blocks.
#[derive(Default)]
pub(super) struct Directory {
    /// Words left over between the ends of files.
    free: Vec<Range<u32>>,
    /// Number of blocks taken.
    blocks: usize,
}

impl Directory {
    /// Number of blocks with `count` more words.
    pub(super) fn blocks_with(&self, count: usize) -> usize {
        let new = if self.fitting(count).is_some() { 0 } else { count.div_ceil(WORDS) };
        self.blocks + new
    }

    /// Takes consecutive zero words, and returns the first.
    pub(super) fn take(
        &mut self,
        count: usize,
        pool: &mut Pool,
        memory: &mut impl Memory,
    ) -> Result<Room<u32>, RecordError> {
        let index = match self.fitting(count) {
            Some(index) => index,
            None => {
                let blocks = count.div_ceil(WORDS);
                let first = match pool.take_run(blocks, memory)? {
                    Room::Here(first) => first,
                    none => return Ok(none),
                };
                // They may have held rows.
                for number in first..first + blocks as u32 {
                    memory.write_block(number, &[0; BLOCK_BYTES])?;
                }
                self.blocks += blocks;
                let words = WORDS as u32;
                self.free.push(first * words..(first + blocks as u32) * words);
                self.free.len() - 1
            }
        };
        let free = &mut self.free[index];
        let first = free.start;
        free.start += count as u32;
        if free.start == free.end {
            self.free.swap_remove(index);
        }
        Ok(Room::Here(first))
    }

    /// The shortest sufficient run of free words.
    fn fitting(&self, count: usize) -> Option<usize> {
        let fitting = self.free.iter().enumerate().filter(|(_, free)| free.len() >= count);
        Some(fitting.min_by_key(|(_, free)| free.len())?.0)
    }

    #[cfg(test)]
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }
}

// Lists of mappings, one for each address space, in a shared array.

/// Contents of the array.
#[derive(Default)]
pub(super) struct Regions {
    /// By position.
    taken: Vec<Region>,
    /// The list last written for each address space.
    lists: FxHashMap<GenerationId, (Vec<CodeMapping>, u32)>,
    swept: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Region {
    first: u32,
    count: u32,
    /// Since when no process uses it.
    unused_since: Option<Instant>,
}

impl Regions {
    /// Writes the list of an address space unless it is there: returns the first index and the count. `None` if
    /// there is no room.
    pub(super) fn write(
        &mut self,
        id: GenerationId,
        list: Vec<CodeMapping>,
        memory: &mut impl Memory,
    ) -> Result<Option<(u32, u32)>, RecordError> {
        let count = list.len() as u32;
        if let Some((known, first)) = self.lists.get(&id)
            && *known == list
        {
            return Ok(Some((*first, count)));
        }
        let Some(first) = self.allocate(count, memory)? else { return Ok(None) };
        for (index, mapping) in list.iter().enumerate() {
            memory.write_mapping(first + index as u32, mapping)?;
        }
        self.lists.insert(id, (list, first));
        Ok(Some((first, count)))
    }

    fn allocate(
        &mut self,
        count: u32,
        memory: &mut impl Memory,
    ) -> Result<Option<u32>, RecordError> {
        // A search may read that many elements beyond the list.
        let len = memory.mappings_len() - MAPPINGS_MAX;
        let found = match self.gap(count, len) {
            Some(found) => Some(found),
            None => {
                self.sweep(memory)?;
                self.gap(count, len)
            }
        };
        let Some((index, first)) = found else { return Ok(None) };
        self.taken.insert(index, Region { first, count, unused_since: None });
        Ok(Some(first))
    }

    /// The first sufficient gap in an array of `len`: its index among the regions, and its first element.
    fn gap(&self, count: u32, len: u32) -> Option<(usize, u32)> {
        let mut first = 0;
        for (index, region) in self.taken.iter().enumerate() {
            if region.first - first >= count {
                return Some((index, first));
            }
            first = region.first + region.count;
        }
        (len - first >= count).then_some((self.taken.len(), first))
    }

    /// Frees lists that have been unused for a while.
    pub(super) fn sweep(&mut self, memory: &mut impl Memory) -> Result<(), RecordError> {
        let now = memory.now();
        if self.swept.is_some_and(|swept| now - swept < GRACE) {
            return Ok(());
        }
        self.swept = Some(now);
        let used = memory.lists_in_use()?;
        self.taken.retain_mut(|region| {
            if used.contains(&region.first) {
                region.unused_since = None;
                return true;
            }
            now - *region.unused_since.get_or_insert(now) < GRACE
        });
        let taken: FxHashSet<u32> = self.taken.iter().map(|region| region.first).collect();
        self.lists.retain(|_, (_, first)| taken.contains(first));
        Ok(())
    }
}
