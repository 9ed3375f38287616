//! What of the kernel half's memory the tables are written to. A trait, so that tests can walk what was
//! written without a kernel.

use std::{
    thread::{self, JoinHandle},
    time::Instant,
};

use rustc_hash::FxHashSet;
use wingbeat_bpf::loader::{LoadedMap, LoadedMaps, MapError};
use wingbeat_profile_common::{
    map,
    unwind::{
        Rule,
        layout::{CHUNK_BLOCKS, CodeMapping, Space},
    },
};
use zerocopy::IntoBytes as _;

use crate::{error::RecordError, proc, session::kernel::missing};

/// The memory in which the kernel half looks rules up, and the clock by which walks in it end.
pub(in crate::session) trait Memory {
    fn now(&self) -> Instant;

    /// Has the next chunk of blocks made, so that [`add_chunk`](Self::add_chunk) need not wait for it.
    fn order_chunk(&mut self) {}

    /// Adds a chunk of blocks, filled with zeros.
    fn add_chunk(&mut self) -> Result<(), RecordError>;

    fn write_block(&mut self, number: u32, bytes: &[u8]) -> Result<(), RecordError>;

    fn write_rule(&mut self, number: u32, rule: &Rule) -> Result<(), RecordError>;

    /// Length of the array of mappings.
    fn mappings_len(&self) -> u32;

    fn write_mapping(&mut self, index: u32, mapping: &CodeMapping) -> Result<(), RecordError>;

    fn write_space(&mut self, pid: u32, space: &Space) -> Result<(), RecordError>;

    /// The first elements of the lists that processes have. Processes that are gone are forgotten.
    fn lists_in_use(&mut self) -> Result<FxHashSet<u32>, RecordError>;
}

/// The maps of a loaded kernel half.
pub(in crate::session) struct Maps {
    chunks_map: LoadedMap,
    chunks: Vec<LoadedMap>,
    /// The next chunk on its way: the kernel waits until no program runs any more that may have seen the
    /// table of chunks before (`maybe_wait_bpf_programs` of kernel/bpf/syscall.c), which takes 20 to
    /// 40 ms.
    next: Option<JoinHandle<Result<LoadedMap, MapError>>>,
    rules: LoadedMap,
    mappings: LoadedMap,
    spaces: LoadedMap,
}

impl Maps {
    pub(super) fn of(maps: &LoadedMaps) -> Result<Self, RecordError> {
        let map = |name| maps.get(name).cloned().ok_or_else(|| missing(name));
        Ok(Self {
            chunks_map: map(map::CHUNKS)?,
            chunks: Vec::new(),
            next: None,
            rules: map(map::RULES)?,
            mappings: map(map::MAPPINGS)?,
            spaces: map(map::SPACES)?,
        })
    }
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

    fn write_block(&mut self, number: u32, bytes: &[u8]) -> Result<(), RecordError> {
        const WHAT: &str = "fill a part of the unwind tables";
        let chunk = self.chunks.get((number / CHUNK_BLOCKS) as usize);
        let chunk = chunk.ok_or_else(|| RecordError::Kernel {
            what: WHAT.to_owned(),
            reason: format!("there is no block {number}"),
        })?;
        chunk.set(&(number % CHUNK_BLOCKS).to_ne_bytes(), bytes).map_err(RecordError::kernel(WHAT))
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
