//! Allocations: records and constants of the allocator probes.

use crate::RecordKind;

/// Kind and argument layout of a probed function: the cookie of its probe.
pub mod call {
    /// `(size)`
    pub const MALLOC: u64 = 1;
    /// `(count, size)`
    pub const CALLOC: u64 = 2;
    /// `(alignment, size)`
    pub const ALIGNED: u64 = 3;
    /// `(result address, alignment, size)`; returns 0 on success.
    pub const POSIX_MEMALIGN: u64 = 4;
    /// `(block, size)`
    pub const REALLOC: u64 = 5;
    /// `(block, count, size)`
    pub const REALLOCARRAY: u64 = 6;
    /// `(block)`
    pub const FREE: u64 = 7;
    /// Flag on a reallocating call: without a block it jumps to an allocating function, which is probed too.
    pub const NEW_IS_OTHERS: u64 = 1 << 8;
}

/// Cookie of an exit probe: the low bits are the stack depth relative to the entry, in bytes; from this bit on,
/// the instruction encoding's number of the result register.
pub const EXIT_REGISTER_SHIFT: u32 = 32;

/// Flag on an exit cookie: the function jumps to what may be `memset`, whose first argument is then the block.
pub const EXIT_FILLS: u64 = 1 << 63;

/// Mode of the probes: the only element of the map [`STATE`](crate::map::HEAP_STATE).
pub mod state {
    /// Count calls.
    pub const COUNTING: u32 = 0;
    /// Also send allocations.
    pub const RECORDING: u32 = 1;
}

/// A sampled block that is not freed yet.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockKey {
    pub address: u64,
    pub pid: u32,
    pub reserved: u32,
}

/// State of a live sampled block.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveBlock {
    /// Allocation time, which distinguishes successive blocks at the same address.
    pub since_ns: u64,
}

/// A call in progress, by thread and by stack pointer at its entry.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingCall {
    /// Time of the stack that was sent; 0 if the call was not sampled.
    pub stack_ns: u64,
    /// The entry probe, which identifies the function.
    pub entry_ip: u64,
    pub size: u64,
    /// Where `posix_memalign` stores the block; 0 for other functions.
    pub to: u64,
    /// The block being reallocated, if it was live; otherwise 0. With its allocation time.
    pub old_address: u64,
    pub old_since_ns: u64,
}

/// A sampled allocation: sent when the call ends, after its stack.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationRecord {
    /// [`RecordKind::Allocation`].
    pub kind: u8,
    /// 1: the free will not be reported, because the table of live blocks was full.
    pub is_untracked: u8,
    pub reserved: [u8; 2],
    pub pid: u32,
    pub tid: u32,
    pub reserved_too: u32,
    pub address: u64,
    pub size: u64,
    /// Time of the stack, sent earlier by the same thread.
    pub stack_ns: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
}

/// The free of a sampled allocation.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeRecord {
    /// [`RecordKind::Free`].
    pub kind: u8,
    pub reserved: [u8; 3],
    pub pid: u32,
    pub address: u64,
    /// The time of the allocation.
    pub since_ns: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
}

impl AllocationRecord {
    pub const EMPTY: Self = Self {
        kind: RecordKind::Allocation as u8,
        is_untracked: 0,
        reserved: [0; 2],
        pid: 0,
        tid: 0,
        reserved_too: 0,
        address: 0,
        size: 0,
        stack_ns: 0,
        time_ns: 0,
    };
}

impl FreeRecord {
    pub const EMPTY: Self = Self {
        kind: RecordKind::Free as u8,
        reserved: [0; 3],
        pid: 0,
        address: 0,
        since_ns: 0,
        time_ns: 0,
    };
}

/// Size of [`AllocationRecord`] in bytes.
pub const ALLOCATION_RECORD_BYTES: usize = 48;
/// Size of [`FreeRecord`] in bytes.
pub const FREE_RECORD_BYTES: usize = 32;
const _: () = assert!(size_of::<AllocationRecord>() == ALLOCATION_RECORD_BYTES);
const _: () = assert!(size_of::<FreeRecord>() == FREE_RECORD_BYTES);
const _: () = assert!(size_of::<BlockKey>() == 16);
const _: () = assert!(size_of::<PendingCall>() == 48);

/// Entries of the logarithm table.
pub const LOGARITHM_STEPS: usize = 64;

/// `log2(1 + step / 64)` in 2⁻³² for each step.
pub const LOGARITHMS: [u64; LOGARITHM_STEPS + 1] = logarithms();

/// Computes the logarithms bit by bit: squaring a number gives 2 or more if the next bit of its logarithm is 1.
const fn logarithms() -> [u64; LOGARITHM_STEPS + 1] {
    let mut table = [0; LOGARITHM_STEPS + 1];
    let mut step = 0;
    while step < LOGARITHM_STEPS {
        // In 2⁻³², at least 1 and below 2.
        let mut number = ((LOGARITHM_STEPS + step) as u64) << (32 - 6);
        let mut logarithm = 0;
        let mut bit = 0;
        while bit < 32 {
            number = ((number as u128 * number as u128) >> 32) as u64;
            logarithm <<= 1;
            if number >= 2 << 32 {
                number >>= 1;
                logarithm |= 1;
            }
            bit += 1;
        }
        table[step] = logarithm;
        step += 1;
    }
    table[LOGARITHM_STEPS] = 1 << 32;
    table
}

/// Returns the bytes until the next sample: exponentially distributed with mean `mean_bytes`, from a random number.
#[inline(always)]
pub fn bytes_until_sample(random: u32, mean_bytes: u32) -> u64 {
    // (random + 1) / 2^32 lies in (0, 1]. Its logarithm is that of the numerator, minus 32.
    let numerator = u64::from(random) + 1;
    let whole = 63 - numerator.leading_zeros();
    // The bits below the highest, as a fraction of 2^32.
    let fraction = (numerator << (63 - whole)) << 1 >> 32;
    let step = (fraction >> 26) as usize & (LOGARITHM_STEPS - 1);
    let (low, high) = (LOGARITHMS[step], LOGARITHMS[step + 1]);
    let within = fraction & ((1 << 26) - 1);
    let logarithm = (u64::from(whole) << 32) + low + (((high - low) * within) >> 26);
    // −log2 in 2⁻³², from 0 to 32, and as a natural logarithm in 2⁻¹⁶.
    let below = (32_u64 << 32).saturating_sub(logarithm);
    let natural = ((below >> 16) * LN_2) >> 16;
    (natural * u64::from(mean_bytes)) >> 16
}

/// The natural logarithm of 2, in 2⁻¹⁶.
const LN_2: u64 = 45_426;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_logarithms() {
        let check = |random: u32| {
            let share = (f64::from(random) + 1.0) / 4_294_967_296.0;
            let expected = -share.ln() * 524_288.0;
            let found = bytes_until_sample(random, 524_288) as f64;
            assert!(
                (found - expected).abs() < 24.0 + expected * 1e-5,
                "{random}: {found}, {expected}"
            );
        };
        [0, 1, 2, 3, 1000, 1 << 20, 1 << 31, (1 << 31) + 12_345, u32::MAX / 3, u32::MAX - 1]
            .into_iter()
            .for_each(check);
        assert_eq!(bytes_until_sample(u32::MAX, 524_288), 0);
    }
}
