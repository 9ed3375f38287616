//! A hash that tells stacks apart.

/// One step of a hash in the manner of FNV-1a, by words instead of bytes, with the high bits, where a
/// multiplication gathers its result, folded down.
#[inline(always)]
pub fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
