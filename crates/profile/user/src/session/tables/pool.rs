//! Which of the blocks that tables lie in are free. The memory grows by chunks as it is needed.

use std::time::Instant;

use wingbeat_profile_common::unwind::layout::{BLOCK_BYTES, BLOCKS_MAX, CHUNK_BLOCKS};

use super::{GRACE, memory::Memory};
use crate::error::RecordError;

/// An answer to who asks for blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Room<T> {
    Here(T),
    /// Enough blocks were given back, but walks may still read them.
    Later,
    Nowhere,
}

/// All blocks.
pub(super) struct Pool {
    /// By block: from when on it is free; `None` while it is used.
    free_from: Vec<Option<Instant>>,
    /// Blocks at most.
    limit: usize,
}

impl Pool {
    /// A pool up to so many bytes, in whole chunks.
    pub(super) fn new(limit_bytes: u64) -> Self {
        let chunk_bytes = u64::from(CHUNK_BLOCKS) * BLOCK_BYTES as u64;
        let blocks = limit_bytes / chunk_bytes * u64::from(CHUNK_BLOCKS);
        Self::with_blocks(blocks.clamp(CHUNK_BLOCKS.into(), BLOCKS_MAX.into()) as usize)
    }

    /// A pool up to so many blocks.
    pub(super) fn with_blocks(limit: usize) -> Self {
        Self { free_from: Vec::new(), limit }
    }

    /// Memory that was taken from the kernel.
    pub(super) fn bytes(&self) -> u64 {
        (self.free_from.len() * BLOCK_BYTES) as u64
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        (self.limit * BLOCK_BYTES) as u64
    }

    /// Blocks at most.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes blocks that follow one another, and gives the first.
    pub(super) fn take_run(
        &mut self,
        count: usize,
        memory: &mut impl Memory,
    ) -> Result<Room<u32>, RecordError> {
        let now = memory.now();
        if let Some(first) = self.run(count, |from| from <= now) {
            self.grow(first + count, memory)?;
            self.free_from[first..first + count].fill(None);
            return Ok(Room::Here(first as u32));
        }
        Ok(if self.run(count, |_| true).is_some() { Room::Later } else { Room::Nowhere })
    }

    /// Takes blocks wherever they are: all or none.
    pub(super) fn take(
        &mut self,
        count: usize,
        memory: &mut impl Memory,
    ) -> Result<Room<Vec<u32>>, RecordError> {
        let now = memory.now();
        let unborn = self.free_from.len()..self.limit.max(self.free_from.len());
        let is_free = |number: &usize| self.free_from[*number].is_some_and(|from| from <= now);
        let free = (0..self.free_from.len()).filter(is_free);
        let numbers: Vec<usize> = free.chain(unborn.clone()).take(count).collect();
        if numbers.len() == count {
            self.grow(numbers.last().map_or(0, |last| last + 1), memory)?;
            for &number in &numbers {
                self.free_from[number] = None;
            }
            return Ok(Room::Here(numbers.into_iter().map(|number| number as u32).collect()));
        }
        let free = self.free_from.iter().flatten().count() + unborn.len();
        Ok(if free >= count { Room::Later } else { Room::Nowhere })
    }

    /// Gives blocks back that no directory leads to any more. Walks that read the directory just before
    /// still read them.
    pub(super) fn give_back(&mut self, numbers: Vec<u32>, now: Instant) {
        for number in numbers {
            self.free_from[number as usize] = Some(now + GRACE);
        }
    }

    /// The first of the blocks that follow one another and are free, or can be had by growing.
    fn run(&self, count: usize, is_free: impl Fn(Instant) -> bool) -> Option<usize> {
        let mut run = 0;
        for (number, free_from) in self.free_from.iter().enumerate() {
            run = if free_from.is_some_and(&is_free) { run + 1 } else { 0 };
            if run == count {
                return Some(number + 1 - count);
            }
        }
        // The free ones at the end are the beginning of the run.
        let first = self.free_from.len() - run;
        (first + count <= self.limit).then_some(first)
    }

    /// Grows to so many blocks, and has the next chunk made when few are left.
    fn grow(&mut self, len: usize, memory: &mut impl Memory) -> Result<(), RecordError> {
        while self.free_from.len() < len {
            memory.add_chunk()?;
            let born = Some(memory.now());
            let more = (self.free_from.len() + CHUNK_BLOCKS as usize).min(self.limit);
            self.free_from.resize(more, born);
        }
        let is_nearly_full = len + CHUNK_BLOCKS as usize / 2 > self.free_from.len();
        if is_nearly_full && self.free_from.len() < self.limit {
            memory.order_chunk();
        }
        Ok(())
    }
}
