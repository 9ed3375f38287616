//! The table that a walker searches: the rules of a file in about three bytes for each change.
//!
//! A table consists of blocks with [`layout`](wingbeat_profiler_abi::unwind::layout), so that the kernel half
//! can search it, and parts of a file can be added later.

use std::ops::Range;

use rustc_hash::FxHashMap;
use wingbeat_profiler_abi::unwind::{
    Rule,
    layout::{
        BLOCK_BYTES, BLOCKS_MAX, Block, GRANULE_BYTES, GRANULE_ROWS_MAX, ROW_BYTES, ROWS,
        RULES_MAX, STRETCH_BYTES, STRETCH_WORDS, WORD_CODE_BYTES, WORD_GRANULES, Word, rule_number,
    },
};

use crate::image::{Image, Unreadable};

/// Number of a rule in [`Rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u16);

impl RuleId {
    pub const GAP: Self = Self(0);
    pub const UNSUPPORTED: Self = Self(1);
}

/// The distinct rules of all files. Ten large programs together have 1,703.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    ids: FxHashMap<Rule, RuleId>,
    /// Rules that did not fit, and became [`Rule::UNSUPPORTED`].
    refused: u64,
}

impl Rules {
    /// Maximum number of rules.
    pub const COUNT_MAX: usize = RULES_MAX as usize;

    pub fn new() -> Self {
        let mut new = Self { rules: Vec::new(), ids: FxHashMap::default(), refused: 0 };
        new.id_of(Rule::GAP);
        new.id_of(Rule::UNSUPPORTED);
        new
    }

    /// Number of a rule, which is added if new.
    pub fn id_of(&mut self, rule: Rule) -> RuleId {
        if let Some(&id) = self.ids.get(&rule) {
            return id;
        }
        if self.rules.len() == Self::COUNT_MAX {
            self.refused += 1;
            return RuleId::UNSUPPORTED;
        }
        let id = RuleId(self.rules.len() as u16);
        self.rules.push(rule);
        self.ids.insert(rule, id);
        id
    }

    pub fn get(&self, id: RuleId) -> Rule {
        self.rules.get(usize::from(id.0)).copied().unwrap_or(Rule::UNSUPPORTED)
    }

    /// All rules, by number.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// Number of rules that did not fit.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

/// The rules of one file, or of the parts that were added.
#[derive(Debug)]
pub struct Table {
    text: Range<u64>,
    /// Address of the first granule.
    start: u64,
    /// By stretch.
    directory: Vec<Option<Box<[Word; STRETCH_WORDS]>>>,
    blocks: Vec<Box<Block>>,
    /// Rows in the last block.
    filled: usize,
    /// Rows of other tables in the first block.
    others: usize,
    unreadable: Unreadable,
    /// Granules with more rows than a search supports: the rest of each is unsupported.
    crowded: u64,
}

/// A block with rows of other tables and room for more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenBlock {
    block: Box<Block>,
    /// Number of its rows: fewer than [`ROWS`].
    filled: usize,
}

impl OpenBlock {
    /// Number of rows that fit.
    pub fn room(&self) -> usize {
        ROWS - self.filled
    }
}

impl Table {
    /// An empty table for an image's code.
    pub fn new(image: &Image) -> Self {
        Self::of(image.text())
    }

    /// Same, with rows starting after those of others.
    pub fn behind(image: &Image, open: OpenBlock) -> Self {
        Self::of(image.text()).put_behind(open)
    }

    fn put_behind(mut self, OpenBlock { block, filled }: OpenBlock) -> Self {
        self.blocks.push(block);
        (self.filled, self.others) = (filled, filled);
        self.push(0, RuleId::GAP);
        self
    }

    /// The last block, for rows of others, if it has room.
    pub fn into_open(mut self) -> Option<OpenBlock> {
        let filled = self.filled;
        self.blocks.pop().filter(|_| filled < ROWS).map(|block| OpenBlock { block, filled })
    }

    fn of(text: Range<u64>) -> Self {
        let start = text.start - text.start % GRANULE_BYTES;
        let stretches = (text.end - start).div_ceil(STRETCH_BYTES) as usize;
        Self {
            text,
            start,
            directory: vec![None; stretches],
            blocks: Vec::new(),
            filled: ROWS,
            others: 0,
            unreadable: Unreadable::default(),
            crowded: 0,
        }
    }

    /// A table with all rows.
    pub fn whole(image: &Image, rules: &mut Rules) -> Self {
        let mut table = Self::new(image);
        for stretch in 0..table.directory.len() {
            if image.has_code(&table.addresses_of(stretch)) {
                table.add(stretch, image, rules);
            }
        }
        table
    }

    /// Adds the rows of the 256 KiB around an address, unless present.
    pub fn add_around(&mut self, address: u64, image: &Image, rules: &mut Rules) {
        if let Some(stretch) = self.stretch_of(address) {
            self.add(stretch, image, rules);
        }
    }

    /// The stretch that contains an address.
    pub fn stretch_of(&self, address: u64) -> Option<usize> {
        self.text.contains(&address).then(|| ((address - self.start) / STRETCH_BYTES) as usize)
    }

    fn addresses_of(&self, stretch: usize) -> Range<u64> {
        let start = self.start + stretch as u64 * STRETCH_BYTES;
        start..self.text.end.min(start.saturating_add(STRETCH_BYTES))
    }

    /// Adds the rows of a stretch, unless present.
    pub fn add(&mut self, stretch: usize, image: &Image, rules: &mut Rules) {
        if self.directory.get(stretch).is_none_or(Option::is_some) {
            return;
        }
        let unreadable = self.fill(stretch, |addresses, sink| {
            image.rules(addresses, |address, rule| sink(address, rules.id_of(rule)))
        });
        self.unreadable.entries += unreadable.entries;
    }

    /// Adds the rules that `source` emits for a stretch, each with its start address: in order, the first at the
    /// start of the stretch.
    fn fill<T>(
        &mut self,
        stretch: usize,
        source: impl FnOnce(Range<u64>, &mut dyn FnMut(u64, RuleId)) -> T,
    ) -> T {
        let addresses = self.addresses_of(stretch);
        let start = addresses.start;
        let mut words = Box::new([Word::NONE; STRETCH_WORDS]);
        let mut filling = Filling::new(self, &mut words);
        let result = source(addresses, &mut |address, id| {
            let offset = address - start;
            filling.row((offset / GRANULE_BYTES) as usize, offset as u8, id);
        });
        filling.finish();
        self.directory[stretch] = Some(words);
        result
    }

    /// Address of the first granule.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Number of stretches.
    pub fn stretches(&self) -> usize {
        self.directory.len()
    }

    /// Number of directory words for all of its code.
    pub fn words(&self) -> usize {
        (self.text.end - self.start).div_ceil(WORD_CODE_BYTES) as usize
    }

    /// The directory of a stretch; `None` until its rows are added. The last may have fewer words.
    pub fn directory(&self, stretch: usize) -> Option<&[Word]> {
        let words = self.directory.get(stretch)?.as_ref()?;
        Some(&words[..STRETCH_WORDS.min(self.words() - stretch * STRETCH_WORDS)])
    }

    /// The row blocks, by their number in the directory. Rows are only added to the last. The first may have rows
    /// of others.
    pub fn blocks(&self) -> &[Box<Block>] {
        &self.blocks
    }

    /// The rule for an address; `None` until its rows are added.
    pub fn rule_at(&self, address: u64) -> Option<RuleId> {
        let stretch = self.stretch_of(address)?;
        let words = self.directory[stretch].as_ref()?;
        let distance = address - self.start;
        let word = words[(distance / WORD_CODE_BYTES) as usize % STRETCH_WORDS];
        if word == Word::NONE {
            return Some(RuleId::UNSUPPORTED);
        }
        let block = &self.blocks[word.block() as usize];
        Some(RuleId(rule_number(block, word.granule(distance), distance as u8)))
    }

    /// Memory of the table for a walker: words and rows. Only the last block has room for rows of others.
    pub fn bytes(&self) -> usize {
        let stretches = 0..self.stretches();
        let words: usize =
            stretches.filter_map(|stretch| Some(self.directory(stretch)?.len())).sum();
        let unused = if self.blocks.is_empty() { 0 } else { ROWS - self.filled + self.others };
        words * size_of::<Word>() + self.blocks.len() * BLOCK_BYTES - unused * ROW_BYTES
    }

    /// Entries whose rules are missing, completely or in part.
    pub fn unreadable(&self) -> Unreadable {
        self.unreadable
    }

    /// Number of granules with an unsupported end, since they have too many rows.
    pub fn crowded(&self) -> u64 {
        self.crowded
    }
}

/// Collects the rows of a stretch into blocks, word by word.
struct Filling<'a> {
    table: &'a mut Table,
    words: &'a mut [Word; STRETCH_WORDS],
    /// Number of finished granules.
    done: usize,
    /// Rows of the current word.
    rows: Vec<(u8, RuleId)>,
    /// Row counts of its finished granules.
    counts: [u8; WORD_GRANULES],
    /// Rows of the current granule.
    count: usize,
}

impl<'a> Filling<'a> {
    fn new(table: &'a mut Table, words: &'a mut [Word; STRETCH_WORDS]) -> Self {
        Self { table, words, done: 0, rows: Vec::new(), counts: [0; _], count: 0 }
    }

    fn row(&mut self, granule: usize, low: u8, id: RuleId) {
        while self.done < granule {
            self.close();
        }
        if self.count < GRANULE_ROWS_MAX {
            self.rows.push((low, id));
        } else if let Some(last) = self.rows.last_mut() {
            self.table.crowded += u64::from(self.count == GRANULE_ROWS_MAX);
            last.1 = RuleId::UNSUPPORTED;
        }
        self.count += 1;
    }

    /// Ends a granule, and enters its word after the last one.
    fn close(&mut self) {
        self.counts[self.done % WORD_GRANULES] = self.count.min(GRANULE_ROWS_MAX) as u8;
        self.count = 0;
        self.done += 1;
        if self.done.is_multiple_of(WORD_GRANULES) {
            self.words[self.done / WORD_GRANULES - 1] = self.table.enter(&self.rows, self.counts);
            self.rows.clear();
        }
    }

    fn finish(mut self) {
        while self.done < STRETCH_WORDS * WORD_GRANULES {
            self.close();
        }
    }
}

impl Table {
    /// Enters the rows of one word, in a new block if they do not fit in the last.
    fn enter(&mut self, rows: &[(u8, RuleId)], counts: [u8; WORD_GRANULES]) -> Word {
        if self.filled + rows.len() > ROWS {
            if self.blocks.len() == BLOCKS_MAX as usize {
                return Word::NONE;
            }
            let in_force = self.blocks.last().map(|block| rule_of(block, self.filled - 1));
            self.blocks.push(Box::new([0; BLOCK_BYTES]));
            self.filled = 0;
            self.push(0, in_force.unwrap_or(RuleId::GAP));
        }
        let number = self.blocks.len() as u32 - 1;
        let word = Word::new(number, self.filled as u32, counts);
        for &(low, id) in rows {
            self.push(low, id);
        }
        word
    }

    /// Adds a row to the last block, which must have room.
    fn push(&mut self, low: u8, id: RuleId) {
        if let Some(block) = self.blocks.last_mut() {
            block[self.filled] = low;
            block[ROWS + 2 * self.filled..][..2].copy_from_slice(&id.0.to_le_bytes());
            self.filled += 1;
        }
    }
}

/// The rule of a row.
fn rule_of(block: &Block, row: usize) -> RuleId {
    RuleId(u16::from_le_bytes([block[ROWS + 2 * row], block[ROWS + 2 * row + 1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of code from `start` to `end` with these rows.
    fn table(start: u64, end: u64, rows: &[(u64, u16)]) -> Table {
        filled(Table::of(start..end), rows)
    }

    fn filled(mut table: Table, rows: &[(u64, u16)]) -> Table {
        for stretch in 0..table.directory.len() {
            table.fill(stretch, |addresses, sink| {
                let before = rows.iter().rev().find(|(address, _)| *address <= addresses.start);
                sink(addresses.start, RuleId(before.map_or(0, |(_, id)| *id)));
                for &(address, id) in rows {
                    if address > addresses.start && address < addresses.end {
                        sink(address, RuleId(id));
                    }
                }
            });
        }
        table
    }

    /// Compares each address near a row with a linear search.
    fn check(start: u64, end: u64, rows: &[(u64, u16)]) -> Table {
        let table = table(start, end, rows);
        compare(&table, start, end, rows);
        table
    }

    fn compare(table: &Table, start: u64, end: u64, rows: &[(u64, u16)]) {
        for &(address, _) in rows {
            for address in [address.saturating_sub(1), address, address + 1, address + 255] {
                if (start..end).contains(&address) {
                    let before = rows.partition_point(|(from, _)| *from <= address);
                    let expected = RuleId(before.checked_sub(1).map_or(0, |index| rows[index].1));
                    assert_eq!(table.rule_at(address), Some(expected), "{address:#x}");
                }
            }
        }
    }

    #[test]
    fn rows_at_all_borders() {
        check(0x1000, 0x2000, &[]);
        check(0x1000, 0x2000, &[(0x1000, 2), (0x1fff, 3)]);
        check(0x10ff, 0x1234, &[(0x10ff, 2), (0x1100, 3), (0x1201, 4)]);
        // One row, then many granules without any.
        check(
            0x1000,
            0x1000 + 3 * STRETCH_BYTES,
            &[(0x1010, 2), (0x1000 + 2 * STRETCH_BYTES - 1, 3)],
        );
        check(0, STRETCH_BYTES + 1, &[(STRETCH_BYTES - 1, 2), (STRETCH_BYTES, 3)]);
    }

    #[test]
    fn rows_of_several_blocks() {
        // 86 per granule, so that blocks end within one.
        let rows: Vec<_> = (0..30_000).map(|number| (number * 3, (number % 5000) as u16)).collect();
        let table = check(0, 90_000, &rows);
        assert_eq!(table.crowded(), 0);
        assert!(table.blocks.len() > 20);
        let words = 90_000_usize.div_ceil(1024);
        let unused = (ROWS - table.filled) * 3;
        assert_eq!(table.bytes(), words * 8 + table.blocks.len() * 4096 - unused);
    }

    /// For every number of rows that a block can have.
    #[test]
    fn rows_behind_those_of_others() {
        let (start, end) = (0x1000, 0x1800);
        let rows = [(0x1000, 2), (0x1011, 3), (0x1300, 4), (0x17ff, 5)];
        let alone = table(start, end, &rows);
        // The first two are at the start of the block and of the stretch.
        for others in 2..=ROWS as u64 {
            let before: Vec<_> = (2..others).map(|number| (number * 9, 7)).collect();
            let other = table(0, 9 * ROWS as u64, &before);
            let open = other.into_open();
            assert_eq!(open.is_none(), others == ROWS as u64, "{others}");
            let Some(open) = open else { continue };
            assert_eq!(open.room(), ROWS - others as usize, "{others}");
            let table = filled(Table::of(start..end).put_behind(open), &rows);
            compare(&table, start, end, &rows);
            assert!(table.bytes() >= alone.bytes(), "{others}");
            assert!(table.bytes() <= alone.bytes() + BLOCK_BYTES, "{others}");
        }
    }

    #[test]
    fn a_crowded_granule_ends_unsupported() {
        let rows: Vec<_> = (0..256).map(|number| (0x1000 + number, number as u16 + 2)).collect();
        let table = table(0x1000, 0x3000, &rows);
        assert_eq!(table.crowded(), 1);
        assert_eq!(table.rule_at(0x1000), Some(RuleId(2)));
        assert_eq!(table.rule_at(0x1000 + 125), Some(RuleId(127)));
        assert_eq!(table.rule_at(0x1000 + 126), Some(RuleId::UNSUPPORTED));
        assert_eq!(table.rule_at(0x10ff), Some(RuleId::UNSUPPORTED));
    }

    #[test]
    fn what_was_not_added_is_not_known() {
        let mut table = Table::of(0x1000..0x1000 + 2 * STRETCH_BYTES);
        table.fill(1, |addresses, sink| sink(addresses.start, RuleId(7)));
        assert_eq!(table.rule_at(0x1000), None);
        assert_eq!(table.rule_at(0x1000 + STRETCH_BYTES), Some(RuleId(7)));
        assert_eq!(table.rule_at(0x1000 + 2 * STRETCH_BYTES), None);
        assert_eq!(table.rule_at(0), None);
    }

    #[test]
    fn rules_have_one_number_each() {
        let mut rules = Rules::new();
        let rule = |offset| Rule { cfa: crate::Cfa::Register, offset, ..Rule::GAP };
        let first = rules.id_of(rule(8));
        assert_eq!(rules.id_of(rule(8)), first);
        assert_eq!(rules.get(first), rule(8));
        assert_eq!(rules.get(RuleId::GAP), Rule::GAP);
        for offset in 0..Rules::COUNT_MAX as i32 {
            rules.id_of(rule(offset));
        }
        assert_eq!(rules.id_of(rule(-1)), RuleId::UNSUPPORTED);
        assert_eq!((rules.all().len(), rules.refused()), (Rules::COUNT_MAX, 3));
    }
}
