//! The kernel half's memory of the tables. A trait, so that tests can walk the written tables without a kernel.

use std::{
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustc_hash::FxHashSet;
use wingbeat_bpf_loader::loader::{LoadedMap, LoadedMaps, MapError};
use wingbeat_profiler_abi::{
    map,
    unwind::{
        Rule,
        layout::{BLOCK_BYTES, Block, CHUNK_BLOCKS, CodeMapping, Space, WORDS, Word},
    },
};
use zerocopy::IntoBytes as _;

use crate::{error::RecordError, proc};

/// Time after which a walk that has read an address in the tables is over, so that the memory there may be reused.
/// A walk takes microseconds, in an interrupt or with interrupts disabled; only a hypervisor can delay it.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// The memory in which the kernel half looks up rules, and the clock of its walks.
pub(in crate::session) trait Memory {
    fn now(&self) -> Instant;

    /// Starts creating the next chunk of blocks, so that [`add_chunk`](Self::add_chunk) need not wait.
    fn order_chunk(&mut self) {}

    /// Adds a zeroed chunk of blocks.
    fn add_chunk(&mut self) -> Result<(), RecordError>;

    fn write_block(&mut self, number: u32, bytes: &Block) -> Result<(), RecordError>;

    /// Writes words of directory blocks from word `first` on.
    fn write_words(&mut self, first: u32, words: &[Word]) -> Result<(), RecordError>;

    fn write_rule(&mut self, number: u32, rule: &Rule) -> Result<(), RecordError>;

    /// Length of the array of mappings.
    fn mappings_len(&self) -> u32;

    fn write_mapping(&mut self, index: u32, mapping: &CodeMapping) -> Result<(), RecordError>;

    fn write_space(&mut self, pid: u32, space: &Space) -> Result<(), RecordError>;

    /// First indices of the lists of live processes. Removes exited processes.
    fn lists_in_use(&mut self) -> Result<FxHashSet<u32>, RecordError>;
}

/// The maps of a loaded kernel half.
pub(in crate::session) struct Maps {
    chunks_map: LoadedMap,
    chunks: Vec<LoadedMap>,
    /// The next chunk, being created. The kernel waits until all programs that may have seen the old table of
    /// chunks are done (`maybe_wait_bpf_programs` of kernel/bpf/syscall.c), which takes 20 to 40 ms.
    next: Option<JoinHandle<Result<LoadedMap, MapError>>>,
    rules: LoadedMap,
    mappings: LoadedMap,
    spaces: LoadedMap,
}

impl Maps {
    pub(super) fn of(maps: &LoadedMaps) -> Result<Self, RecordError> {
        let map = |name| maps.get(name).cloned().ok_or_else(|| RecordError::missing(name));
        Ok(Self {
            chunks_map: map(map::CHUNKS)?,
            chunks: Vec::new(),
            next: None,
            rules: map(map::RULES)?,
            mappings: map(map::MAPPINGS)?,
            spaces: map(map::SPACES)?,
        })
    }

    /// The chunk of a block.
    fn chunk(&self, number: u32) -> Result<&LoadedMap, RecordError> {
        let chunk = self.chunks.get((number / CHUNK_BLOCKS) as usize);
        chunk.ok_or_else(|| RecordError::Kernel {
            what: FILL.to_owned(),
            reason: format!("there is no block {number}"),
        })
    }
}

const FILL: &str = "fill a part of the unwind tables";

/// Key of a block within its chunk.
fn key(number: u32) -> [u8; 4] {
    (number % CHUNK_BLOCKS).to_ne_bytes()
}

impl Memory for Maps {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn order_chunk(&mut self) {
        if self.next.is_none() {
            let (chunks_map, number) = (self.chunks_map.clone(), self.chunks.len() as u32);
            self.next = Some(thread::spawn(move || chunks_map.put_new(number)));
        }
    }

    fn add_chunk(&mut self) -> Result<(), RecordError> {
        const WHAT: &str = "create a part of the unwind tables";
        self.order_chunk();
        if let Some(next) = self.next.take() {
            let chunk = next.join().map_err(|_| RecordError::Kernel {
                what: WHAT.to_owned(),
                reason: "a thread was stopped".to_owned(),
            })?;
            self.chunks.push(chunk.map_err(RecordError::kernel(WHAT))?);
        }
        Ok(())
    }

    fn write_block(&mut self, number: u32, bytes: &Block) -> Result<(), RecordError> {
        self.chunk(number)?.set(&key(number), bytes).map_err(RecordError::kernel(FILL))
    }

    fn write_words(&mut self, mut first: u32, mut words: &[Word]) -> Result<(), RecordError> {
        while !words.is_empty() {
            let (number, index) = (first / WORDS as u32, first as usize % WORDS);
            let (now, later) = words.split_at(words.len().min(WORDS - index));
            // The other words belong to other files, and are unchanged for concurrent walks.
            let found = self.chunk(number)?.lookup(&key(number));
            let found = found.map_err(RecordError::kernel(FILL))?.unwrap_or_default();
            let mut block = <Block>::try_from(found).unwrap_or([0; BLOCK_BYTES]);
            for (to, word) in block.as_chunks_mut().0[index..].iter_mut().zip(now) {
                *to = word.0.to_le_bytes();
            }
            self.write_block(number, &block)?;
            (first, words) = (first + now.len() as u32, later);
        }
        Ok(())
    }

    fn write_rule(&mut self, number: u32, rule: &Rule) -> Result<(), RecordError> {
        self.rules
            .set(&number.to_ne_bytes(), rule.as_bytes())
            .map_err(RecordError::kernel("hand an unwind rule to the profiler"))
    }

    fn mappings_len(&self) -> u32 {
        self.mappings.spec().entries_max
    }

    fn write_mapping(&mut self, index: u32, mapping: &CodeMapping) -> Result<(), RecordError> {
        self.mappings
            .set(&index.to_ne_bytes(), mapping.as_bytes())
            .map_err(RecordError::kernel("list where code is mapped"))
    }

    fn write_space(&mut self, pid: u32, space: &Space) -> Result<(), RecordError> {
        self.spaces
            .set(&pid.to_ne_bytes(), space.as_bytes())
            .map_err(RecordError::kernel("tell the profiler where code is mapped"))
    }

    fn lists_in_use(&mut self) -> Result<FxHashSet<u32>, RecordError> {
        const WHAT: &str = "read where code is mapped";
        let mut used = FxHashSet::default();
        for key in self.spaces.keys().map_err(RecordError::kernel(WHAT))? {
            let Some(space) = self.spaces.lookup(&key).map_err(RecordError::kernel(WHAT))? else {
                continue;
            };
            let pid = key.as_slice().try_into().map_or(0, u32::from_ne_bytes);
            if proc::exists(pid) {
                used.extend(space.first_chunk().map(|first| u32::from_ne_bytes(*first)));
            } else {
                self.spaces.remove(&key).map_err(RecordError::kernel(WHAT))?;
            }
        }
        Ok(used)
    }
}
