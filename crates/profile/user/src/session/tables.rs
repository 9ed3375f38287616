//! Keeps the kernel half supplied with unwind tables: which code is mapped where, and by which rules it
//! is walked.
//!
//! Tables are built a stretch of code at a time, those first that a walk has asked for, and between
//! looks at the ring buffer: no sample waits for a large file.

mod pool;
mod regions;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_bpf::loader::{LoadedMap, LoadedMaps};
use wingbeat_profile_common::{
    map,
    unwind::layout::{CodeMapping, GRANULES, Granule, MAPPINGS_MAX, STRETCH_BYTES, Space},
};
use wingbeat_unwind::{RuleId, Rules, Table};
use zerocopy::IntoBytes as _;

use self::{pool::Pool, regions::Regions};
use super::kernel::missing;
use crate::{
    error::RecordError,
    recorder::{
        Recorder,
        binaries::{Backing, Binaries, BinaryId},
        spaces::{GenerationId, Mapping},
    },
    unwind::Image,
};

/// How long tables are built before the ring buffer is looked at again.
const TURN: Duration = Duration::from_millis(10);
/// Code of one file: 512 MiB. Its directory has a block for each stretch, filled or not.
const STRETCHES_MAX: usize = 2048;

/// What the tables took, for the summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableCounts {
    /// Files with a table.
    pub files: u64,
    /// Memory of the kernel.
    pub bytes: u64,
    pub limit_bytes: u64,
    /// Tables that made room for others.
    pub evicted: u64,
    /// Files that found no room.
    pub refused: u64,
}

/// The tables of all files.
pub(super) struct Tables {
    rules: Rules,
    rules_written: usize,
    rules_map: LoadedMap,
    spaces_map: LoadedMap,
    pool: Pool,
    regions: Regions,
    /// None for a file whose code is walked along its frame pointers.
    files: FxHashMap<BinaryId, Option<FileTable>>,
    /// Stretches to be built.
    queue: VecDeque<(BinaryId, usize)>,
    evicted: u64,
    refused: u64,
    /// Uses of tables so far: a clock for which was used last.
    uses: u64,
}

/// The table of one file.
struct FileTable {
    /// Address of the first granule.
    start: u64,
    stretches: usize,
    /// First of the directory blocks, which follow one another.
    directory: u32,
    /// Blocks of the pool that the rows are in, by their number in the table.
    rows: Vec<u32>,
    /// The table while stretches are missing.
    table: Option<Table>,
    left: usize,
    used: u64,
}

/// Can a mapping have code that no ELF file has?
fn is_in_no_file(binaries: &Binaries, mapping: &Mapping) -> bool {
    let binary = binaries.get(mapping.binary);
    binary.is_some_and(|binary| binary.backing != Backing::Vdso && binary.image().is_none())
}

impl FileTable {
    /// What is to be added to an address, with wrap-around, to get its distance from the first granule.
    fn bias(&self, image: &Image, mapping: &Mapping) -> Option<u64> {
        let Mapping { start, end, offset, .. } = *mapping;
        let of_code = image.address_of_code(offset, end - start)?;
        Some(offset.wrapping_sub(start).wrapping_add(of_code).wrapping_sub(self.start))
    }
}

impl Tables {
    /// Tables for a kernel half, up to so many bytes.
    pub(super) fn new(maps: &LoadedMaps, limit_bytes: u64) -> Result<Self, RecordError> {
        let map = |name| maps.get(name).cloned().ok_or_else(|| missing(name));
        let mut tables = Self {
            rules: Rules::new(),
            rules_written: 0,
            rules_map: map(map::RULES)?,
            spaces_map: map(map::SPACES)?,
            pool: Pool::new(map(map::CHUNKS)?, limit_bytes),
            regions: Regions::new(map(map::MAPPINGS)?),
            files: FxHashMap::default(),
            queue: VecDeque::new(),
            evicted: 0,
            refused: 0,
            uses: 0,
        };
        tables.write_rules()?;
        Ok(tables)
    }

    pub(super) fn counts(&self) -> TableCounts {
        TableCounts {
            files: self.files.values().flatten().count() as u64,
            bytes: self.pool.bytes(),
            limit_bytes: self.pool.limit_bytes(),
            evicted: self.evicted,
            refused: self.refused,
        }
    }

    /// Is there something to build?
    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Brings the kernel half up to what the recorder knows of the time `as_of_ns`, and builds tables
    /// for a while.
    pub(super) fn update(
        &mut self,
        recorder: &mut Recorder,
        as_of_ns: u64,
    ) -> Result<(), RecordError> {
        let mut pids: FxHashSet<u32> = recorder.spaces.changed.drain(..).collect();
        pids.extend(recorder.jit.changed.drain(..));
        let wanted: FxHashSet<(u32, u64)> = recorder.wanted.drain(..).collect();
        for (pid, address) in wanted {
            pids.insert(pid);
            self.want(recorder, pid, address);
        }
        for pid in pids {
            self.write_space(recorder, pid, as_of_ns)?;
        }
        self.build(&recorder.binaries, Some(Instant::now() + TURN))
    }

    /// Builds what is to be built, however long it takes.
    pub(super) fn finish(&mut self, recorder: &Recorder) -> Result<(), RecordError> {
        self.build(&recorder.binaries, None)
    }

    /// A walk met code whose rules are not there: they are built next.
    fn want(&mut self, recorder: &Recorder, pid: u32, address: u64) {
        let space = recorder.spaces.current(pid);
        let space = space.and_then(|id| recorder.spaces.generation(id));
        let Some(mapping) = space.and_then(|space| space.find(address)) else { return };
        let binary = mapping.binary;
        let Some(image) = recorder.binaries.get(binary).and_then(|binary| binary.image()) else {
            return;
        };
        self.uses += 1;
        let Some(Some(file)) = self.files.get_mut(&binary) else { return };
        file.used = self.uses;
        let Some(bias) = file.bias(image, mapping) else { return };
        let stretch = (address.wrapping_add(bias) / STRETCH_BYTES) as usize;
        if stretch < file.stretches && file.left > 0 {
            self.queue.push_front((binary, stretch));
        }
    }

    /// Writes where the code of a process lies.
    fn write_space(
        &mut self,
        recorder: &Recorder,
        pid: u32,
        as_of_ns: u64,
    ) -> Result<(), RecordError> {
        let Some(id) = recorder.spaces.current(pid) else { return Ok(()) };
        let Some(region) = self.region(recorder, pid, id)? else { return Ok(()) };
        let (first, count) = region;
        self.spaces_map
            .set(&pid.to_ne_bytes(), Space { first, count, as_of_ns }.as_bytes())
            .map_err(RecordError::kernel("tell the profiler where code is mapped"))
    }

    /// The list of mappings of an address space: the first, and how many. `None` if there is no room.
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
            // User space has the rules of code that a compiler made, and walks on from there.
            if is_unframed && is_in_no_file(&recorder.binaries, mapping) {
                continue;
            }
            let next = self.code_mapping(&recorder.binaries, mapping)?;
            match list.last_mut() {
                Some(last)
                    if last.granules == 0 && next.granules == 0 && last.end == next.start =>
                {
                    last.end = next.end;
                }
                _ => list.push(next),
            }
        }
        list.truncate(MAPPINGS_MAX as usize);
        self.regions.write(id, list, &self.spaces_map)
    }

    fn code_mapping(
        &mut self,
        binaries: &Binaries,
        mapping: &Mapping,
    ) -> Result<CodeMapping, RecordError> {
        let Mapping { start, end, binary, .. } = *mapping;
        let plain = CodeMapping { start, end, ..CodeMapping::default() };
        let Some(image) = binaries.get(binary).and_then(|binary| binary.image()) else {
            return Ok(plain);
        };
        if !self.files.contains_key(&binary) {
            let file = self.open(binary, image)?;
            self.files.insert(binary, file);
        }
        self.uses += 1;
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(plain) };
        file.used = self.uses;
        let Some(bias) = file.bias(image, mapping) else { return Ok(plain) };
        Ok(CodeMapping {
            bias,
            directory: file.directory,
            granules: (file.stretches * GRANULES) as u32,
            ..plain
        })
    }

    /// Begins the table of a file, and has it built.
    fn open(&mut self, binary: BinaryId, image: &Image) -> Result<Option<FileTable>, RecordError> {
        let Some(rules) = image.rules().filter(|rules| rules.entries() > 0) else {
            return Ok(None);
        };
        let table = Table::new(rules);
        let stretches = table.stretches();
        if stretches == 0 || stretches > STRETCHES_MAX {
            self.refused += 1;
            return Ok(None);
        }
        let Some(directory) = self.allocate(stretches as u32, None)? else {
            self.refused += 1;
            return Ok(None);
        };
        self.queue.extend((0..stretches).map(|stretch| (binary, stretch)));
        Ok(Some(FileTable {
            start: table.start(),
            stretches,
            directory,
            rows: Vec::new(),
            table: Some(table),
            left: stretches,
            used: self.uses,
        }))
    }

    /// Blocks of the pool that follow one another; others than the file's that it is for make room.
    fn allocate(&mut self, count: u32, keep: Option<BinaryId>) -> Result<Option<u32>, RecordError> {
        loop {
            if let Some(first) = self.pool.allocate(count)? {
                return Ok(Some(first));
            }
            if !self.evict(keep)? {
                return Ok(None);
            }
        }
    }

    /// Drops the rows of the table that was not used for longest; false if there is none.
    fn evict(&mut self, keep: Option<BinaryId>) -> Result<bool, RecordError> {
        let candidates = self.files.iter_mut().filter(|(binary, _)| Some(**binary) != keep);
        let candidates = candidates.filter_map(|(_, file)| file.as_mut());
        let Some(file) =
            candidates.filter(|file| !file.rows.is_empty()).min_by_key(|file| file.used)
        else {
            return Ok(false);
        };
        // The directory first: walks begin to miss the rows before these are others'.
        for stretch in 0..file.stretches as u32 {
            self.pool.clear(file.directory + stretch)?;
        }
        for row in std::mem::take(&mut file.rows) {
            self.pool.free(row);
        }
        file.table = None;
        file.left = file.stretches;
        self.evicted += 1;
        Ok(true)
    }

    fn build(&mut self, binaries: &Binaries, deadline: Option<Instant>) -> Result<(), RecordError> {
        while let Some((binary, stretch)) = self.queue.pop_front() {
            self.build_stretch(binaries, binary, stretch)?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
        }
        Ok(())
    }

    fn build_stretch(
        &mut self,
        binaries: &Binaries,
        binary: BinaryId,
        stretch: usize,
    ) -> Result<(), RecordError> {
        let image = binaries.get(binary).and_then(|binary| binary.image());
        let Some(rules) = image.and_then(Image::rules) else { return Ok(()) };
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(()) };
        if file.left == 0 {
            return Ok(());
        }
        let table = file.table.get_or_insert_with(|| Table::new(rules));
        if table.directory(stretch).is_some() {
            return Ok(());
        }
        // The last block may have room left, and gets more rows.
        let first_changed = file.rows.len().saturating_sub(1);
        table.add(stretch, rules, &mut self.rules);
        let missing = table.blocks().len() - file.rows.len();
        self.write_rules()?;
        let mut numbers = Vec::with_capacity(missing);
        for _ in 0..missing {
            match self.allocate(1, Some(binary))? {
                Some(number) => numbers.push(number),
                None => return self.give_up(binary, numbers),
            }
        }
        let Some(Some(file)) = self.files.get_mut(&binary) else { return Ok(()) };
        file.rows.extend(numbers);
        let Some(table) = &file.table else { return Ok(()) };
        for (number, block) in file.rows.iter().zip(table.blocks()).skip(first_changed) {
            self.pool.write(*number, block.as_slice())?;
        }
        if let Some(granules) = table.directory(stretch) {
            let words: Vec<u8> = granules
                .iter()
                .map(|granule| match *granule {
                    Granule::NONE => granule.0,
                    granule => granule.moved_to(file.rows[granule.block() as usize]).0,
                })
                .flat_map(u32::to_le_bytes)
                .collect();
            self.pool.write(file.directory + stretch as u32, &words)?;
        }
        file.left -= 1;
        if file.left == 0 {
            file.table = None;
        }
        Ok(())
    }

    /// There is no room for the rest of a file: walks that come there are finished in user space.
    fn give_up(&mut self, binary: BinaryId, numbers: Vec<u32>) -> Result<(), RecordError> {
        numbers.into_iter().for_each(|number| self.pool.free(number));
        self.queue.retain(|(queued, _)| *queued != binary);
        self.refused += 1;
        if let Some(Some(file)) = self.files.get_mut(&binary) {
            file.left = 0;
            file.table = None;
        }
        Ok(())
    }

    /// Writes the rules that are new.
    fn write_rules(&mut self) -> Result<(), RecordError> {
        for number in self.rules_written..self.rules.all().len() {
            let rule = self.rules.get(RuleId(number as u16));
            self.rules_map
                .set(&(number as u32).to_ne_bytes(), rule.as_bytes())
                .map_err(RecordError::kernel("hand an unwind rule to the profiler"))?;
        }
        self.rules_written = self.rules.all().len();
        Ok(())
    }
}
