//! Lists of mappings, one for each address space, in an array that all share.

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_bpf::loader::LoadedMap;
use wingbeat_profile_common::unwind::layout::{CodeMapping, MAPPINGS_MAX};
use zerocopy::IntoBytes as _;

use crate::{error::RecordError, proc, recorder::spaces::GenerationId};

/// A walk that uses a list is over after this.
const GRACE: Duration = Duration::from_millis(100);

/// The array, and what lies in it.
pub(super) struct Regions {
    mappings_map: LoadedMap,
    /// By their place.
    taken: Vec<Region>,
    /// The list of each address space as it was written last.
    lists: FxHashMap<GenerationId, (Vec<CodeMapping>, u32)>,
    swept: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Region {
    first: u32,
    count: u32,
    /// Since when no process has it.
    unused_since: Option<Instant>,
}

impl Regions {
    pub(super) fn new(mappings_map: LoadedMap) -> Self {
        Self { mappings_map, taken: Vec::new(), lists: FxHashMap::default(), swept: None }
    }

    /// Writes the list of an address space, unless it is there: the first, and how many. `None` if there
    /// is no room.
    pub(super) fn write(
        &mut self,
        id: GenerationId,
        list: Vec<CodeMapping>,
        spaces_map: &LoadedMap,
    ) -> Result<Option<(u32, u32)>, RecordError> {
        let count = list.len() as u32;
        if let Some((known, first)) = self.lists.get(&id)
            && *known == list
        {
            return Ok(Some((*first, count)));
        }
        let Some(first) = self.allocate(count, spaces_map)? else { return Ok(None) };
        for (index, mapping) in list.iter().enumerate() {
            self.mappings_map
                .set(&(first + index as u32).to_ne_bytes(), mapping.as_bytes())
                .map_err(RecordError::kernel("list where code is mapped"))?;
        }
        self.lists.insert(id, (list, first));
        Ok(Some((first, count)))
    }

    fn allocate(&mut self, count: u32, spaces_map: &LoadedMap) -> Result<Option<u32>, RecordError> {
        let found = match self.gap(count) {
            Some(found) => Some(found),
            None => {
                self.sweep(spaces_map)?;
                self.gap(count)
            }
        };
        let Some((place, first)) = found else { return Ok(None) };
        self.taken.insert(place, Region { first, count, unused_since: None });
        Ok(Some(first))
    }

    /// The first gap of some length: its place among the regions, and its first element.
    fn gap(&self, count: u32) -> Option<(usize, u32)> {
        let mut first = 0;
        for (place, region) in self.taken.iter().enumerate() {
            if region.first - first >= count {
                return Some((place, first));
            }
            first = region.first + region.count;
        }
        // A search may look at as many elements behind the list.
        let len = self.mappings_map.spec().entries_max - MAPPINGS_MAX;
        (len - first >= count).then_some((self.taken.len(), first))
    }

    /// Frees what no process has had for a while. Processes that are gone are forgotten.
    fn sweep(&mut self, spaces_map: &LoadedMap) -> Result<(), RecordError> {
        let now = Instant::now();
        if self.swept.is_some_and(|swept| now - swept < GRACE) {
            return Ok(());
        }
        self.swept = Some(now);
        const WHAT: &str = "read where code is mapped";
        let mut used = FxHashSet::default();
        for key in spaces_map.keys().map_err(RecordError::kernel(WHAT))? {
            let Some(space) = spaces_map.lookup(&key).map_err(RecordError::kernel(WHAT))? else {
                continue;
            };
            let pid = key.as_slice().try_into().map_or(0, u32::from_ne_bytes);
            if proc::exists(pid) {
                used.extend(space.first_chunk().map(|first| u32::from_ne_bytes(*first)));
            } else {
                spaces_map.remove(&key).map_err(RecordError::kernel(WHAT))?;
            }
        }
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
