//! Free words of the directory blocks. Words of a file are never released, so that cached entries of walks stay valid.

use std::ops::Range;

use wingbeat_profiler_abi::unwind::layout::{BLOCK_BYTES, WORDS};

use super::{
    memory::Memory,
    pool::{Pool, Room},
};
use crate::error::RecordError;

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
        let place = match self.fitting(count) {
            Some(place) => place,
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
        let free = &mut self.free[place];
        let first = free.start;
        free.start += count as u32;
        if free.start == free.end {
            self.free.swap_remove(place);
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
