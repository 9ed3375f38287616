//! Lists of mappings, one for each address space, in a shared array.

use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_profiler_abi::unwind::layout::{CodeMapping, MAPPINGS_MAX};

use super::{GRACE, memory::Memory};
use crate::{error::RecordError, recorder::spaces::GenerationId};

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
        let Some((place, first)) = found else { return Ok(None) };
        self.taken.insert(place, Region { first, count, unused_since: None });
        Ok(Some(first))
    }

    /// The first sufficient gap in an array of `len`: its index among the regions, and its first element.
    fn gap(&self, count: u32, len: u32) -> Option<(usize, u32)> {
        let mut first = 0;
        for (place, region) in self.taken.iter().enumerate() {
            if region.first - first >= count {
                return Some((place, first));
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
