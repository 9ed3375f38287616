//! Memory layout and search of unwind tables: the user half writes them, the kernel half reads them.
//!
//! All tables share a pool of blocks of 4 KiB. A *granule* is 256 bytes of code.
//!
//! ```text
//! directory block    512 words of 8 bytes, one for four granules: the number of the block with their
//!                    rows (14 bits), the first row (11), how many each granule has (4 times 7)
//! row block          low bytes of 1,360 addresses, then the numbers of their rules (2 bytes each)
//! ```
//!
//! The words of a file are consecutive, through consecutive blocks. Words of several files share a block, and so
//! do their rows. The rows of a word's granules are consecutive within one block. The row before the first is the
//! one in force at the start of the granule, so a search that finds no row in the granule needs no second look-up.
//! No rows begin at index 0 of a block, so no word of a filled directory is zero.

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks in a chunk, the unit by which the pool grows.
pub const CHUNK_BLOCKS: u32 = 256;
/// Maximum number of chunks: 64 MiB of tables.
pub const CHUNKS_MAX: u32 = BLOCKS_MAX / CHUNK_BLOCKS;
/// Maximum number of blocks, limited by the 14 bits of a directory word.
pub const BLOCKS_MAX: u32 = 1 << 14;
/// Bytes of code whose rows are searched together.
pub const GRANULE_BYTES: u64 = 256;
/// Granules per word.
pub const WORD_GRANULES: usize = 4;
/// Bytes of code per word.
pub const WORD_CODE_BYTES: u64 = GRANULE_BYTES * WORD_GRANULES as u64;
/// Words per directory block.
pub const WORDS: usize = BLOCK_BYTES / size_of::<Word>();
/// Bytes of code whose rows are loaded together: a *stretch*.
pub const STRETCH_BYTES: u64 = 256 << 10;
/// Words per stretch.
pub const STRETCH_WORDS: usize = (STRETCH_BYTES / WORD_CODE_BYTES) as usize;
/// Rows per block.
pub const ROWS: usize = 1360;
/// Bytes of a row: the low byte of its address and its rule number.
pub const ROW_BYTES: usize = 3;
/// Maximum rows of one granule: seven steps find one of them. In 60 MB of compiled code no granule has more than 87.
pub const GRANULE_ROWS_MAX: usize = 127;
/// Maximum number of distinct rules: 256 KiB.
pub const RULES_MAX: u32 = 16_384;
/// Entries in the cache of rules by position: 64 KiB.
pub const RULE_CACHE_LEN: u32 = 8192;
/// Maximum number of mappings in an address space: eleven steps find one of them.
pub const MAPPINGS_MAX: u32 = (1 << MAPPING_STEPS) - 1;
/// Steps of a search of the mappings.
pub const MAPPING_STEPS: u32 = 11;

/// A block, as bytes.
pub type Block = [u8; BLOCK_BYTES];

/// A directory word: the location of the rows of four granules.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// The rows are not loaded.
    pub const NONE: Self = Self(0);

    /// Creates a word for rows of `block` from `index` on, which is not 0. `counts` has the number of rows of each
    /// granule.
    pub const fn new(block: u32, index: u32, counts: [u8; WORD_GRANULES]) -> Self {
        let [first, second, third, fourth] = counts;
        let counts = u32::from_le_bytes([first, second, third, fourth]) as u64;
        let counts = counts & 0x7f
            | (counts >> 8 & 0x7f) << 7
            | (counts >> 16 & 0x7f) << 14
            | (counts >> 24 & 0x7f) << 21;
        Self((block as u64) << 39 | (index as u64) << 28 | counts)
    }

    #[inline(always)]
    pub const fn block(self) -> u32 {
        (self.0 >> 39) as u32
    }

    /// Returns the rows of the granule that contains a position.
    #[inline(always)]
    pub fn granule(self, position: u64) -> Granule {
        let shift = 7 * (position / GRANULE_BYTES % WORD_GRANULES as u64);
        // Rows of the preceding granules, three at most. `black_box` keeps the compiler from removing the masks
        // below, which the verifier needs.
        let before = core::hint::black_box(self.0 & ((1 << shift) - 1));
        let before = (before & 0x7f) + (before >> 7 & 0x7f) + (before >> 14 & 0x7f);
        Granule { index: (self.0 >> 28 & 0x7ff) + before, count: self.0 >> shift & 0x7f }
    }

    /// Returns the word with the same rows in another block.
    #[must_use]
    pub const fn moved_to(self, block: u32) -> Self {
        Self(self.0 & ((1 << 39) - 1) | (block as u64) << 39)
    }
}

/// The rows of a granule within their block: the first index and the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granule {
    pub index: u64,
    pub count: u64,
}

/// Combines a word's number and the distance from the table's first granule into a position that is unique among all
/// tables.
#[inline(always)]
pub const fn position(word: u32, distance: u64) -> u64 {
    word as u64 * WORD_CODE_BYTES + distance % WORD_CODE_BYTES
}

/// Cached rule number of a position, since walks meet the same ones again and again. Entries are never invalidated: a word
/// stays with its granule, files do not change, and rules keep their numbers.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedRule(pub u64);

impl CachedRule {
    /// Packs an entry into one word, so that a reader never sees half of a concurrent write.
    pub const fn new(position: u64, rule: u16) -> Self {
        Self(position << 17 | 1 << 16 | rule as u64)
    }

    /// Returns the rule number if the entry is for this position.
    #[inline(always)]
    pub const fn rule_at(self, position: u64) -> Option<u16> {
        if self.0 >> 16 == position << 1 | 1 { Some(self.0 as u16) } else { None }
    }

    /// Index of the position's entry, below [`RULE_CACHE_LEN`].
    #[inline(always)]
    pub const fn index(position: u64) -> u32 {
        // Knuth's multiplicative hash, with the golden ratio.
        (position.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            >> (u64::BITS - RULE_CACHE_LEN.trailing_zeros())) as u32
    }
}

/// Searches a block of rows for the rule in force at the address with lowest byte `low`.
///
/// Branchless, because the verifier would follow each path.
#[inline(always)]
pub fn rule_number(block: &Block, granule: Granule, low: u8) -> u16 {
    const MASK: usize = BLOCK_BYTES - 1;
    let Granule { index, count } = granule;
    let low = u64::from(low);
    let mut found = 0_u64;
    let mut step = 64_u64;
    while step > 0 {
        let next = found + step;
        let row_low = u64::from(block[(index + next - 1) as usize & MASK]);
        // Both differences are negative if the row exists and begins at or before the address.
        let (exists, is_before) = (next.wrapping_sub(count + 1), row_low.wrapping_sub(low + 1));
        found += sign(exists & is_before) * step;
        step >>= 1;
    }
    let row = (index + found - 1) as usize;
    let at = ROWS + 2 * row;
    u16::from_le_bytes([block[at & MASK], block[(at + 1) & MASK]])
}

/// Counts the mappings, of `count` and at most [`MAPPINGS_MAX`], that begin at or before an address. The last of
/// them is the one that may contain it. `start` returns the start of each, in ascending order, and is also called
/// beyond the last. All addresses are in user space, below 2^63.
///
/// Branchless, like [`rule_number`].
#[inline(always)]
pub fn mappings_before(
    count: u64,
    address: u64,
    mut start: impl FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let mut found = 0_u64;
    let mut step = 1_u64 << (MAPPING_STEPS - 1);
    while step > 0 {
        let next = found + step;
        let start = start(next - 1)?;
        let (exists, is_before) = (next.wrapping_sub(count + 1), start.wrapping_sub(address + 1));
        found += sign(exists & is_before) * step;
        step >>= 1;
    }
    Some(found)
}

/// Returns 1 if a number is negative, otherwise 0. The compiler must not see that there are only two values, or it
/// branches on them.
#[inline(always)]
pub fn sign(number: u64) -> u64 {
    core::hint::black_box(number >> 63)
}

/// A mapping with code. An address space is a list of them, in address order.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CodeMapping {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Added with wrap-around to an address, gives its distance from the table's first granule.
    pub bias: u64,
    /// Number of the table's first word among the words of all directory blocks.
    pub word: u32,
    /// Words of the table; 0 if the code has none and is walked by frame pointers.
    pub words: u32,
}

/// Size of [`CodeMapping`] in bytes.
pub const CODE_MAPPING_BYTES: usize = 32;

const _: () = assert!(size_of::<CodeMapping>() == CODE_MAPPING_BYTES);
const _: () = assert!(ROWS * ROW_BYTES <= BLOCK_BYTES);
const _: () = assert!(ROWS < 1 << 11 && BLOCKS_MAX == 1 << 14);
const _: () = assert!(GRANULE_ROWS_MAX * WORD_GRANULES < ROWS);
// Places leave enough bits for a rule number.
const _: () = assert!(BLOCKS_MAX as u64 * WORDS as u64 * WORD_CODE_BYTES <= 1 << 47);

/// The address space of a process at some time.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Index of its first mapping in the array of all mappings.
    pub first: u32,
    pub count: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds. Invalid for a program that started later.
    pub as_of_ns: u64,
}

/// Size of [`Space`] in bytes.
pub const SPACE_BYTES: usize = 16;

const _: () = assert!(size_of::<Space>() == SPACE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_rule_is_of_one_position() {
        let last = BLOCKS_MAX * WORDS as u32 - 1;
        let positions = [(0, 0), (0, 1), (0, WORD_CODE_BYTES - 1), (1, 0), (512, 0), (last, 5)];
        let positions = positions.map(|(word, distance)| position(word, distance));
        for at in positions {
            assert!(CachedRule::index(at) < RULE_CACHE_LEN, "{at:#x}");
            assert_eq!(CachedRule(0).rule_at(at), None, "{at:#x}");
            for rule in [0, 1, u16::MAX] {
                let cached = CachedRule::new(at, rule);
                for other in positions {
                    assert_eq!(cached.rule_at(other), (other == at).then_some(rule), "{other:#x}");
                }
            }
        }
        // Distances count from the table's first granule, whose words are consecutive.
        assert_eq!(position(2, 5 * WORD_CODE_BYTES + 7), position(2, 7));
    }

    #[test]
    fn a_word_has_the_rows_of_four_granules() {
        let check = |block, index, counts: [u8; 4]| {
            let word = Word::new(block, index, counts);
            assert_ne!(word, Word::NONE);
            let mut before = u64::from(index);
            for (number, count) in counts.into_iter().enumerate() {
                let expected = Granule { index: before, count: count.into() };
                for distance in [0, 1, GRANULE_BYTES - 1, 8 * GRANULE_BYTES] {
                    let distance = number as u64 * GRANULE_BYTES + distance;
                    assert_eq!(word.granule(position(9, distance)), expected, "{word:?}, {number}");
                }
                before += u64::from(count);
            }
            assert_eq!(word.block(), block);
            let moved = word.moved_to(BLOCKS_MAX - 1 - block);
            assert_eq!(moved, Word::new(BLOCKS_MAX - 1 - block, index, counts));
        };
        check(0, 1, [0, 0, 0, 0]);
        check(BLOCKS_MAX - 1, ROWS as u32 - 1, [127, 127, 127, 127]);
        check(5, 7, [1, 2, 3, 4]);
        check(5, 7, [127, 0, 0, 1]);
    }

    /// Compares small counts of mappings, and the maximum, with a linear count.
    #[test]
    fn a_search_counts_the_mappings_that_begin_before() {
        const LAST: u64 = 0x7fff_ffff_f000;
        // Behind the last list follow other processes' mappings, or zeros.
        for behind in [0, 0x1000, LAST] {
            for count in (0..70).chain([1023, 1024, u64::from(MAPPINGS_MAX)]) {
                let start = |index| (index + 1) * 0x1000;
                let of = |index| Some(if index < count { start(index) } else { behind });
                for index in [0, 1, count / 2, count.saturating_sub(1), count] {
                    for address in [start(index) - 1, start(index), start(index) + 1] {
                        let expected = (0..count).filter(|&it| start(it) <= address).count();
                        let found = mappings_before(count, address, of);
                        assert_eq!(found, Some(expected as u64), "{count}, {address:#x}");
                    }
                }
                assert_eq!(mappings_before(count, LAST, of), Some(count));
                assert_eq!(mappings_before(count, 0, of), Some(0));
            }
        }
        assert_eq!(mappings_before(3, 0x1000, |_| None), None);
    }
}
