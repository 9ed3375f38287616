//! Free blocks of the tables. Memory grows in chunks as needed.

use std::time::Instant;

use wingbeat_profiler_abi::unwind::layout::{BLOCK_BYTES, BLOCKS_MAX, CHUNK_BLOCKS};
use wingbeat_unwind::OpenBlock;

use super::{GRACE, memory::Memory};
use crate::error::RecordError;

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
