//! The blocks that tables lie in: memory of the kernel, which grows by chunks as it is needed.

use std::thread::{self, JoinHandle};

use wingbeat_bpf::loader::{LoadedMap, MapError};
use wingbeat_profile_common::unwind::layout::{BLOCK_BYTES, BLOCKS_MAX, CHUNK_BLOCKS};

use crate::error::RecordError;

/// All blocks.
pub(super) struct Pool {
    chunks_map: LoadedMap,
    chunks: Vec<LoadedMap>,
    /// The next chunk on its way: the kernel waits until no program runs any more that may have seen the
    /// table of chunks before (`maybe_wait_bpf_programs` of kernel/bpf/syscall.c), which takes 20 to
    /// 40 ms.
    next: Option<JoinHandle<Result<LoadedMap, MapError>>>,
    /// By block: is it used?
    used: Vec<bool>,
    /// Blocks at most.
    limit: usize,
}

impl Pool {
    /// A pool up to so many bytes, whose first chunk is on its way.
    pub(super) fn new(chunks_map: LoadedMap, limit_bytes: u64) -> Self {
        let chunk_bytes = u64::from(CHUNK_BLOCKS) * BLOCK_BYTES as u64;
        let blocks = limit_bytes / chunk_bytes * u64::from(CHUNK_BLOCKS);
        let limit = blocks.clamp(CHUNK_BLOCKS.into(), BLOCKS_MAX.into()) as usize;
        let mut pool = Self { chunks_map, chunks: Vec::new(), next: None, used: Vec::new(), limit };
        pool.order();
        pool
    }

    /// Has the next chunk made, if there may be one.
    fn order(&mut self) {
        let number = self.chunks.len();
        if self.next.is_none() && number * (CHUNK_BLOCKS as usize) < self.limit {
            let chunks_map = self.chunks_map.clone();
            self.next = Some(thread::spawn(move || chunks_map.put_new(number as u32)));
        }
    }

    /// Takes the next chunk, when it is there.
    fn grow(&mut self) -> Result<(), RecordError> {
        self.order();
        const WHAT: &str = "create a part of the unwind tables";
        if let Some(next) = self.next.take() {
            let chunk = next.join().map_err(|_| RecordError::Kernel {
                what: WHAT.to_owned(),
                reason: "a thread was stopped".to_owned(),
            })?;
            self.chunks.push(chunk.map_err(RecordError::kernel(WHAT))?);
            self.used.resize(self.chunks.len() * CHUNK_BLOCKS as usize, false);
        }
        Ok(())
    }

    /// Memory that was taken from the kernel.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks.len() as u64 * u64::from(CHUNK_BLOCKS) * BLOCK_BYTES as u64
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        (self.limit * BLOCK_BYTES) as u64
    }

    /// Takes blocks that follow one another; `None` if so many are not free.
    pub(super) fn allocate(&mut self, count: u32) -> Result<Option<u32>, RecordError> {
        let count = count as usize;
        let mut run = 0;
        let mut first = self.used.len();
        for (number, is_used) in self.used.iter().enumerate() {
            run = if *is_used { 0 } else { run + 1 };
            if run == count {
                first = number + 1 - count;
                break;
            }
        }
        if first == self.used.len() {
            // The free ones at the end are the beginning of the run.
            first -= run;
        }
        if first + count > self.limit {
            return Ok(None);
        }
        while self.used.len() < first + count {
            self.grow()?;
        }
        if first + count > self.used.len() - CHUNK_BLOCKS as usize / 2 {
            self.order();
        }
        self.used[first..first + count].fill(true);
        Ok(Some(first as u32))
    }

    /// Gives a block back.
    pub(super) fn free(&mut self, number: u32) {
        self.used[number as usize] = false;
    }

    /// Fills a block.
    pub(super) fn write(&self, number: u32, bytes: &[u8]) -> Result<(), RecordError> {
        let chunk = &self.chunks[(number / CHUNK_BLOCKS) as usize];
        chunk
            .set(&(number % CHUNK_BLOCKS).to_ne_bytes(), bytes)
            .map_err(RecordError::kernel("fill a part of the unwind tables"))
    }

    /// Fills a block with zeroes.
    pub(super) fn clear(&self, number: u32) -> Result<(), RecordError> {
        self.write(number, &[0; BLOCK_BYTES])
    }
}
