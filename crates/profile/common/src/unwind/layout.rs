//! How unwind tables lie in memory, and how they are searched: the user half writes them, the kernel
//! half reads them.
//!
//! All tables together are a pool of blocks of 4 KiB. A *granule* is 256 bytes of code, a *stretch*
//! 1,024 granules.
//!
//! ```text
//! directory block    1,024 words, one for each granule of a stretch:
//!                    the number of the block with its rows (14 bits), the first row (11), how many (7)
//! row block          low bytes of 1,360 addresses, then the numbers of their rules (2 bytes each)
//! ```
//!
//! The rows of a granule are in one block. The row before the first is the one in force where the
//! granule begins, so a search that finds no row of the granule needs no second look-up. No rows begin
//! at index 0 of a block, so no word of a filled directory is zero.

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks of a chunk: the pool grows by so many.
pub const CHUNK_BLOCKS: u32 = 256;
/// Chunks at most: 64 MiB of tables.
pub const CHUNKS_MAX: u32 = BLOCKS_MAX / CHUNK_BLOCKS;
/// Blocks at most, by the 14 bits of a directory word.
pub const BLOCKS_MAX: u32 = 1 << 14;
/// Bytes of code whose rows are found by one search.
pub const GRANULE_BYTES: u64 = 256;
/// Granules of one directory block.
pub const GRANULES: usize = 1024;
/// Bytes of code for which one directory block is.
pub const STRETCH_BYTES: u64 = GRANULE_BYTES * GRANULES as u64;
/// Rows of one block.
pub const ROWS: usize = 1360;
/// Rows of one granule at most: seven steps find one of them. In 60 MB of compiled code no granule has
/// more than 87.
pub const GRANULE_ROWS_MAX: usize = 127;
/// Distinct rules at most: 256 KiB of them.
pub const RULES_MAX: u32 = 16_384;
/// Places whose rules are remembered at most: 64 KiB of them.
pub const SEEN_MAX: u32 = 8192;
/// Mappings of one address space at most: eleven steps find one of them.
pub const MAPPINGS_MAX: u32 = (1 << MAPPING_STEPS) - 1;
/// Steps of a search among mappings.
pub const MAPPING_STEPS: u32 = 11;

/// A block as bytes.
pub type Block = [u8; BLOCK_BYTES];

/// A word of a directory: where the rows of a granule are.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granule(pub u32);

impl Granule {
    /// Its rows were not entered.
    pub const NONE: Self = Self(0);

    /// `count` rows of a block from `index` on, which is not 0.
    pub const fn new(block: u32, index: u32, count: u32) -> Self {
        Self(block << 18 | index << 7 | count)
    }

    pub const fn block(self) -> u32 {
        self.0 >> 18
    }

    pub const fn index(self) -> u32 {
        self.0 >> 7 & 0x7ff
    }

    pub const fn count(self) -> u32 {
        self.0 & 0x7f
    }

    /// The same rows in a block with another number.
    #[must_use]
    pub const fn moved_to(self, block: u32) -> Self {
        Self(self.0 & 0x3_ffff | block << 18)
    }
}

/// The place of an address among all tables, by the directory block of its stretch and its distance from
/// the table's first granule.
#[inline(always)]
pub const fn place(directory: u32, distance: u64) -> u32 {
    directory << STRETCH_BYTES.trailing_zeros() | (distance % STRETCH_BYTES) as u32
}

/// The rule at a place, which was looked up before: the same ones are met again and again. It never gets
/// wrong: a directory block stays with its file, a file does not change, and a rule keeps its number.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen(pub u64);

impl Seen {
    /// One word, so that who reads it while another CPU writes it reads one or the other.
    pub const fn new(place: u32, rule: u16) -> Self {
        Self((place as u64) << 32 | 1 << 16 | rule as u64)
    }

    /// The number of the rule, if it is of this place.
    #[inline(always)]
    pub const fn rule_at(self, place: u32) -> Option<u16> {
        if self.0 >> 16 == (place as u64) << 16 | 1 { Some(self.0 as u16) } else { None }
    }

    /// Where it is kept, among [`SEEN_MAX`].
    #[inline(always)]
    pub const fn index(place: u32) -> u32 {
        // Knuth's multiplicative hash, by the golden ratio.
        place.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SEEN_MAX.trailing_zeros())
    }
}

/// The number of the rule in force at an address, whose lowest byte is `low`, by a block of rows.
///
/// Without branches: the kernel's verifier would follow each way through them.
#[inline(always)]
pub fn rule_number(block: &Block, granule: Granule, low: u8) -> u16 {
    const MASK: usize = BLOCK_BYTES - 1;
    let (index, count, low) =
        (u64::from(granule.index()), u64::from(granule.count()), u64::from(low));
    let mut found = 0_u64;
    let mut step = 64_u64;
    while step > 0 {
        let next = found + step;
        let row_low = u64::from(block[(index + next - 1) as usize & MASK]);
        // Both differences are negative if there is such a row, and it begins at or before the address.
        let (exists, is_before) = (next.wrapping_sub(count + 1), row_low.wrapping_sub(low + 1));
        found += sign(exists & is_before) * step;
        step >>= 1;
    }
    let row = (index + found - 1) as usize;
    let place = ROWS + 2 * row;
    u16::from_le_bytes([block[place & MASK], block[(place + 1) & MASK]])
}

/// How many of `count` mappings, which are at most [`MAPPINGS_MAX`], begin at or before an address: the
/// last of them is the one that may hold it. `start` gives where each begins, in rising order; it is
/// asked beyond the last one too. All are addresses of user space: below 2^63.
///
/// Without branches, as [`rule_number`].
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

/// The sign of a number: 1 if it is negative. The compiler must not know that there are two values, or it
/// makes a branch of what is done with them.
#[inline(always)]
pub fn sign(number: u64) -> u64 {
    core::hint::black_box(number >> 63)
}

/// A piece of an address space with code; an address space is a list of them in the order of their
/// addresses.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CodeMapping {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// To be added to an address, with wrap-around, to get its distance from the table's first granule.
    pub bias: u64,
    /// Number of the table's first directory block.
    pub directory: u32,
    /// Granules of the table; 0 if the code has none: it is walked along its frame pointers.
    pub granules: u32,
}

/// Size of [`CodeMapping`] in bytes.
pub const CODE_MAPPING_BYTES: usize = 32;

const _: () = assert!(size_of::<CodeMapping>() == CODE_MAPPING_BYTES);
const _: () = assert!(ROWS * 3 <= BLOCK_BYTES);
const _: () = assert!(GRANULES * 4 == BLOCK_BYTES);

/// The address space of a process, as it was at some time.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Where its list lies in the array of all mappings.
    pub first: u32,
    pub count: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds. A program that began later has another address space.
    pub as_of_ns: u64,
}

/// Size of [`Space`] in bytes.
pub const SPACE_BYTES: usize = 16;

const _: () = assert!(size_of::<Space>() == SPACE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_of_one_place() {
        let places = [(0, 0), (0, 1), (0, STRETCH_BYTES - 1), (1, 0), (BLOCKS_MAX - 1, 5)];
        let places = places.map(|(directory, distance)| place(directory, distance));
        for at in places {
            assert!(Seen::index(at) < SEEN_MAX, "{at:#x}");
            assert_eq!(Seen(0).rule_at(at), None, "{at:#x}");
            for rule in [0, 1, u16::MAX] {
                let seen = Seen::new(at, rule);
                for other in places {
                    assert_eq!(seen.rule_at(other), (other == at).then_some(rule), "{other:#x}");
                }
            }
        }
        // The same distance in the next stretch is in the next directory block.
        assert_eq!(place(2, STRETCH_BYTES + 7), place(2, 7));
    }

    /// Every number of mappings up to a few, and the most, against a plain count.
    #[test]
    fn a_search_counts_the_mappings_that_begin_before() {
        const LAST: u64 = 0x7fff_ffff_f000;
        // Behind the last list the array goes on with others' mappings, or zeros.
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
