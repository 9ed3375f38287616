//! The kernel half's memory, walked like the kernel half, and processes that map files of this machine.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, sync::LazyLock};

use wingbeat_profiler_abi::unwind::{
    Rule,
    layout::{
        self, BLOCK_BYTES, Block, CHUNK_BLOCKS, RULE_CACHE_LEN, WORD_CODE_BYTES, WORDS, Word,
        mappings_before, position, rule_number,
    },
};

use super::*;
use crate::{
    proc,
    recorder::{Scope, event::MappedFile},
};

/// A PID that does not exist, so that files are found by path.
const NOBODY: u32 = 5_000_000;

pub(super) struct Fake {
    pub now: Instant,
    blocks: Vec<Block>,
    rules: Vec<Rule>,
    mappings: Vec<CodeMapping>,
    spaces: BTreeMap<u32, Space>,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self {
            now: Instant::now(),
            blocks: Vec::new(),
            rules: Vec::new(),
            mappings: vec![CodeMapping::default(); 2 * MAPPINGS_MAX as usize],
            spaces: BTreeMap::new(),
        }
    }
}

impl Memory for Fake {
    fn now(&self) -> Instant {
        self.now
    }

    fn add_chunk(&mut self) -> Result<(), RecordError> {
        self.blocks.resize(self.blocks.len() + CHUNK_BLOCKS as usize, [0; BLOCK_BYTES]);
        Ok(())
    }

    fn write_block(&mut self, number: u32, bytes: &Block) -> Result<(), RecordError> {
        self.blocks[number as usize] = *bytes;
        Ok(())
    }

    fn write_words(&mut self, first: u32, words: &[Word]) -> Result<(), RecordError> {
        for (word, number) in words.iter().zip(first..) {
            let block = &mut self.blocks[number as usize / WORDS];
            block.as_chunks_mut().0[number as usize % WORDS] = word.0.to_le_bytes();
        }
        Ok(())
    }

    fn write_rule(&mut self, number: u32, rule: &Rule) -> Result<(), RecordError> {
        assert_eq!(number as usize, self.rules.len());
        self.rules.push(*rule);
        Ok(())
    }

    fn mappings_len(&self) -> u32 {
        self.mappings.len() as u32
    }

    fn write_mapping(&mut self, index: u32, mapping: &CodeMapping) -> Result<(), RecordError> {
        self.mappings[index as usize] = *mapping;
        Ok(())
    }

    fn write_space(&mut self, pid: u32, space: &Space) -> Result<(), RecordError> {
        self.spaces.insert(pid, *space);
        Ok(())
    }

    fn lists_in_use(&mut self) -> Result<FxHashSet<u32>, RecordError> {
        Ok(self.spaces.values().map(|space| space.first).collect())
    }
}

/// A file of this machine.
pub(super) struct File {
    pub binary: BinaryId,
    mapped: MappedFile,
    offset: u64,
    len: u64,
}

/// Files with rules: this program's libraries, and some programs. All different.
pub(super) fn files() -> &'static [File] {
    static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
        let own = proc::executable_mappings(std::process::id());
        let own = own.into_iter().map(|mapped| mapped.path).skip(1);
        let others = ["/bin/bash", "/bin/tar", "/bin/sed", "/bin/grep"].map(str::to_owned);
        let mut binaries = Binaries::default();
        let files = own.chain(others).filter_map(|path| file(&mut binaries, path));
        let mut files: Vec<File> = files.collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.len));
        assert!(files.len() > 2, "too few files");
        files
    });
    &FILES
}

fn file(binaries: &mut Binaries, path: String) -> Option<File> {
    let inode = fs::metadata(&path).ok()?.ino();
    let mapped = MappedFile { start: 0, end: 0, offset: 0, device: (0, 0), inode, path };
    let binary = binaries.find_or_open(NOBODY, None, &mapped);
    let image = binaries.get(binary)?.image()?;
    image.rules().filter(|rules| rules.has_rules())?;
    let ((start, end), offset) = image.text()?;
    Some(File { binary, mapped, offset, len: end - start })
}

/// Processes, and the tables of their mappings.
pub(super) struct World {
    pub recorder: Recorder,
    pub tables: Tables<Fake>,
    /// Look-ups in progress.
    pending: Vec<PendingLookup>,
    /// Rules cached by walks.
    cached: Vec<layout::CachedRule>,
}

/// A walk between two steps of a look-up.
struct PendingLookup {
    at: Instant,
    word: Word,
    position: u64,
    expected: Rule,
}

/// Number of addresses with a rule, and without a table.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub with_rules: usize,
    pub without: usize,
}

impl World {
    pub(super) fn new(limit: usize) -> Self {
        let mut recorder = Recorder::new(0, Scope::All);
        let mut by_number: Vec<&File> = files().iter().collect();
        by_number.sort_by_key(|file| file.binary);
        // In numerical order, so that they get the same numbers again.
        for id in 0..=by_number.last().map_or(0, |file| file.binary) {
            let file = by_number.iter().find(|file| file.binary == id);
            let unused = MappedFile {
                start: 0,
                end: 0,
                offset: 0,
                device: (0, 0),
                inode: 0,
                path: format!("unused {id}"),
            };
            let mapped = file.map_or(&unused, |file| &file.mapped);
            assert_eq!(recorder.binaries.find_or_open(NOBODY, None, mapped), id);
        }
        let tables = Tables::within(Fake::new(), Pool::with_blocks(limit)).expect("no kernel");
        let cached = vec![layout::CachedRule(0); RULE_CACHE_LEN as usize];
        Self { recorder, tables, pending: Vec::new(), cached }
    }

    /// Start address of a file mapped in a slot.
    fn base(slot: u64) -> u64 {
        (slot + 1) << 32
    }

    pub(super) fn address(&self, file: usize, slot: u64, percent: u64) -> u64 {
        Self::base(slot) + files()[file].len * percent / 100
    }

    pub(super) fn map(&mut self, pid: u32, file: usize, slot: u64) {
        let File { binary, offset, len, .. } = files()[file];
        let start = Self::base(slot);
        self.recorder.spaces.map(pid, Mapping { start, end: start + len, offset, binary });
    }

    pub(super) fn want(&mut self, pid: u32, address: u64) {
        self.recorder.wanted.push((pid, address));
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.tables.memory.now += time;
    }

    pub(super) fn turn(&mut self) {
        self.tables.update(&mut self.recorder, 0).expect("no kernel");
    }

    /// The rule that a walk finds; `None` if there is no table.
    pub(super) fn walk(&self, pid: u32, address: u64) -> Option<Rule> {
        match self.look_up(pid, address)? {
            Some((word, position)) => self.rule(self.number(word, position)?),
            None => Some(Rule::GAP),
        }
    }

    /// Location of an address in a mapping; the inner `None` if it is outside the table.
    fn locate(&self, pid: u32, address: u64) -> Option<Option<(u32, u64)>> {
        let Fake { mappings, spaces, .. } = &self.tables.memory;
        let space = spaces.get(&pid)?;
        let first = u64::from(space.first);
        let start = |index| Some(mappings.get((first + index) as usize)?.start);
        let found = mappings_before(space.count.into(), address, start)?.checked_sub(1)?;
        let mapping = mappings[(first + found) as usize];
        if address >= mapping.end {
            return None;
        }
        let distance = address.wrapping_add(mapping.bias);
        let word = distance / WORD_CODE_BYTES;
        let is_within = word < u64::from(mapping.words);
        Some(is_within.then(|| (mapping.word + word as u32, distance)))
    }

    fn position(&self, pid: u32, address: u64) -> Option<u64> {
        let (word, distance) = self.locate(pid, address)??;
        Some(position(word, distance))
    }

    /// First half of a look-up; the inner `None` if the address is outside the table.
    fn look_up(&self, pid: u32, address: u64) -> Option<Option<(Word, u64)>> {
        let Some((number, distance)) = self.locate(pid, address)? else {
            return Some(None);
        };
        let words = self.tables.memory.blocks[number as usize / WORDS].as_chunks().0;
        let word = Word(u64::from_le_bytes(words[number as usize % WORDS]));
        (word != Word::NONE).then_some(Some((word, position(number, distance))))
    }

    /// Second half of a look-up.
    fn number(&self, word: Word, position: u64) -> Option<u16> {
        let rows = self.tables.memory.blocks.get(word.block() as usize)?;
        Some(rule_number(rows, word.granule(position), position as u8))
    }

    fn rule(&self, number: u16) -> Option<Rule> {
        self.tables.memory.rules.get(usize::from(number)).copied()
    }

    /// Walks at addresses of all mappings of all processes, and continues earlier look-ups: each must find the
    /// file's own rule, or no table. Cached rules must stay right.
    pub(super) fn check(&mut self) -> Result<Checked, String> {
        let now = self.tables.memory.now;
        self.pending.retain(|it| now.duration_since(it.at) < GRACE);
        for PendingLookup { word, position, expected, .. } in &self.pending {
            let found = self.number(*word, *position).and_then(|number| self.rule(number));
            if found != Some(*expected) {
                return Err(format!("a walk that had begun: {found:?}, not {expected:?}"));
            }
        }
        let mut checked = Checked::default();
        for pid in 1..=3 {
            let space = self.recorder.spaces.current(pid);
            let space = space.and_then(|id| self.recorder.spaces.generation(id)).cloned();
            for mapping in space.map(|space| space.mappings).unwrap_or_default() {
                for step in 0..40 {
                    let address = mapping.start + (mapping.end - mapping.start) * step / 40;
                    self.check_at(pid, &mapping, address, &mut checked)?;
                }
            }
        }
        Ok(checked)
    }

    fn check_at(
        &mut self,
        pid: u32,
        mapping: &Mapping,
        address: u64,
        checked: &mut Checked,
    ) -> Result<(), String> {
        let image = self.recorder.binaries.get(mapping.binary).and_then(|binary| binary.image());
        let of_file = image.and_then(|image| {
            Some(image.rule(image.address_of_offset(mapping.offset_of(address))?))
        });
        let expected = of_file.unwrap_or(Rule::GAP);
        match self.walk(pid, address) {
            None => checked.without += 1,
            Some(found) if found == expected => checked.with_rules += 1,
            Some(found) => {
                let file = mapping.binary;
                return Err(format!("{found:?}, not {expected:?}, at {address:#x} of {file}"));
            }
        }
        let cached = self.position(pid, address).and_then(|position| {
            self.rule(self.cached[layout::CachedRule::index(position) as usize].rule_at(position)?)
        });
        if cached.is_some_and(|cached| cached != expected) {
            return Err(format!("cached: {cached:?}, not {expected:?}, at {address:#x}"));
        }
        if let Some(Some((word, position))) = self.look_up(pid, address) {
            self.pending.push(PendingLookup {
                at: self.tables.memory.now,
                word,
                position,
                expected,
            });
            if let Some(number) = self.number(word, position) {
                self.cached[layout::CachedRule::index(position) as usize] =
                    layout::CachedRule::new(position, number);
            }
        }
        Ok(())
    }
}
