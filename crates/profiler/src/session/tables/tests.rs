//! Tables without a kernel: walks what was written like the kernel half.

use std::{
    collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, sync::LazyLock, time::Duration,
};

use proptest::prelude::*;
use wingbeat_profiler_abi::unwind::{
    Rule,
    layout::{
        self, BLOCK_BYTES, Block, CHUNK_BLOCKS, RULE_CACHE_LEN, WORD_CODE_BYTES, WORDS, Word,
        mappings_before, position, rule_number,
    },
};

use crate::{
    proc,
    recorder::{Scope, event::MappedFile},
    session::tables::{
        memory::GRACE,
        pool::{Pool, Room},
        *,
    },
};

#[test]
fn blocks_are_free_again_after_the_walks_that_read_them() {
    let mut memory = Fake::new();
    let mut pool = Pool::with_blocks(4);
    let start = memory.now;
    // Milliseconds since the start, blocks to release, and the expected result for a run of two.
    let mut check = |ms, back: &[u32], expected| {
        memory.now = start + Duration::from_millis(ms);
        pool.give_back(back.to_vec(), memory.now);
        assert_eq!(pool.take_run(2, &mut memory).expect("no kernel"), expected, "{ms}");
    };
    check(0, &[], Room::Here(0));
    check(0, &[], Room::Here(2));
    check(0, &[], Room::Nowhere);
    check(0, &[1, 3], Room::Nowhere);
    check(50, &[2], Room::Later);
    check(100, &[], Room::Later);
    check(149, &[], Room::Later);
    check(150, &[], Room::Here(1));
    check(150, &[], Room::Nowhere);
}

#[test]
fn scattered_blocks_are_all_taken_or_none() {
    let mut memory = Fake::new();
    let mut pool = Pool::with_blocks(5);
    let start = memory.now;
    let mut check = |ms, back: &[u32], count, expected: Room<&[u32]>| {
        memory.now = start + Duration::from_millis(ms);
        pool.give_back(back.to_vec(), memory.now);
        let expected = match expected {
            Room::Here(numbers) => Room::Here(numbers.to_vec()),
            Room::Later => Room::Later,
            Room::Nowhere => Room::Nowhere,
        };
        assert_eq!(pool.take(count, &mut memory).expect("no kernel"), expected, "{ms}");
    };
    check(0, &[], 0, Room::Here(&[]));
    check(0, &[], 6, Room::Nowhere);
    check(0, &[], 4, Room::Here(&[0, 1, 2, 3]));
    check(0, &[], 2, Room::Nowhere);
    check(0, &[2, 0], 3, Room::Later);
    check(50, &[], 1, Room::Here(&[4]));
    check(100, &[1], 3, Room::Later);
    check(100, &[], 2, Room::Here(&[0, 2]));
}

/// A world in which one process maps all files, far apart.
fn mapped(limit: usize) -> World {
    let mut world = World::new(limit);
    for file in 0..files().len() {
        world.map(1, file, file as u64);
    }
    world.turn();
    world
}

#[test]
fn with_room_for_all_each_address_has_its_rule() {
    let mut world = mapped(16 << 8);
    let checked = world.check().expect("right rules");
    assert!(checked.with_rules > 100 && checked.without == 0, "{checked:?}");
    let counts = world.tables.counts();
    assert_eq!((counts.evicted, counts.refused), (0, 0));
    assert!(!world.tables.has_work());
}

#[test]
fn a_file_without_room_is_not_walked_along_frame_pointers() {
    let mut world = mapped(1);
    let checked = world.check().expect("right rules");
    assert_eq!(checked.with_rules, 0);
    assert_eq!(world.tables.counts().refused, files().len() as u64);
    assert_eq!(world.walk(1, world.address(0, 0, 50)), None);
    // Code in memory has no rules and no table.
    world.recorder.spaces.map(1, Mapping { start: 1, end: 0x1000, offset: 0, binary: 9999 });
    world.turn();
    assert_eq!(world.walk(1, 0x800), Some(Rule::GAP));
}

/// Requests two files alternately, ten times a second, with room for only one.
#[test]
fn tables_are_not_built_again_and_again() {
    let mut world = mapped(16 << 8);
    let blocks = |file: &File| {
        let table = world.tables.files.get(&file.binary).and_then(Option::as_ref);
        table.map_or(0, |table| table.rows.len())
    };
    let sizes: Vec<usize> = files().iter().map(blocks).collect();
    let (rows, directories) = (sizes[0].max(sizes[1]), world.tables.directory.blocks());
    let limit = (directories + rows + 1).max(directories * 4 / 3 + 2);
    assert!(limit < directories + sizes[0] + sizes[1], "{sizes:?}");
    world = mapped(limit);
    for second in [60_u64, 600] {
        for _ in 0..second * 10 {
            for file in 0..2 {
                for percent in 0..100 {
                    world.want(1, world.address(file, file as u64, percent));
                }
                world.pass(Duration::from_millis(50));
                world.turn();
            }
        }
        let counts = world.tables.counts();
        // Absent for 1, 2, 4, … 64 seconds, and present for a while.
        let most = 2 * (7 + second / 10);
        assert!(counts.rebuilt > 2 && counts.rebuilt < most, "{counts:?}");
    }
    world.check().expect("right rules");
}

/// A PID that does not exist, so that files are found by path.
const NOBODY: u32 = 5_000_000;

struct Fake {
    pub now: Instant,
    blocks: Vec<Block>,
    rules: Vec<Rule>,
    mappings: Vec<CodeMapping>,
    spaces: BTreeMap<u32, Space>,
}

impl Fake {
    fn new() -> Self {
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
struct File {
    pub binary: BinaryId,
    mapped: MappedFile,
    offset: u64,
    len: u64,
}

/// Files with rules: this program's libraries, and some programs. All different.
fn files() -> &'static [File] {
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
struct World {
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
struct Checked {
    pub with_rules: usize,
    pub without: usize,
}

impl World {
    fn new(limit: usize) -> Self {
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

    fn address(&self, file: usize, slot: u64, percent: u64) -> u64 {
        Self::base(slot) + files()[file].len * percent / 100
    }

    fn map(&mut self, pid: u32, file: usize, slot: u64) {
        let File { binary, offset, len, .. } = files()[file];
        let start = Self::base(slot);
        self.recorder.spaces.map(pid, Mapping { start, end: start + len, offset, binary });
    }

    fn want(&mut self, pid: u32, address: u64) {
        self.recorder.wanted.push((pid, address));
    }

    fn pass(&mut self, time: Duration) {
        self.tables.memory.now += time;
    }

    fn turn(&mut self) {
        self.tables.update(&mut self.recorder, 0).expect("no kernel");
    }

    /// The rule that a walk finds; `None` if there is no table.
    fn walk(&self, pid: u32, address: u64) -> Option<Rule> {
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
    fn check(&mut self) -> Result<Checked, String> {
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

#[derive(Debug, Clone, Copy)]
enum Step {
    Map { pid: u32, file: usize, slot: u64 },
    Want { pid: u32, file: usize, slot: u64, percent: u64 },
    Fork { parent: u32, child: u32 },
    Exec { pid: u32 },
    Turn { after_ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (pid, file, slot) = (1..=3_u32, 0..files().len(), 0..6_u64);
    let map = (pid.clone(), file.clone(), slot.clone()).prop_map(|(pid, file, slot)| Step::Map {
        pid,
        file,
        slot,
    });
    let want = (pid.clone(), file, slot, 0..100_u64)
        .prop_map(|(pid, file, slot, percent)| Step::Want { pid, file, slot, percent });
    let fork = (pid.clone(), pid.clone()).prop_map(|(parent, child)| Step::Fork { parent, child });
    let often = (0..60_u64).prop_map(|after_ms| Step::Turn { after_ms });
    let seldom = (100..30_000_u64).prop_map(|after_ms| Step::Turn { after_ms });
    prop_oneof![
        6 => map,
        12 => want,
        1 => fork,
        1 => pid.prop_map(|pid| Step::Exec { pid }),
        12 => often,
        3 => seldom,
    ]
}

fn apply(world: &mut World, step: Step) {
    match step {
        Step::Map { pid, file, slot } => world.map(pid, file, slot),
        Step::Want { pid, file, slot, percent } => {
            world.want(pid, world.address(file, slot, percent));
        }
        Step::Fork { parent, child } => {
            world.recorder.spaces.fork(parent, child);
            world.recorder.spaces.changed.push(child);
        }
        Step::Exec { pid } => {
            world.recorder.spaces.clear(pid);
            world.recorder.spaces.changed.push(pid);
        }
        Step::Turn { after_ms } => {
            world.pass(Duration::from_millis(after_ms));
            world.turn();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_those_of_the_file(
        limit in 8..64_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(limit);
        for step in steps {
            apply(&mut world, step);
            if matches!(step, Step::Turn { .. }) {
                world.check().map_err(TestCaseError::fail)?;
            }
        }
    }
}
