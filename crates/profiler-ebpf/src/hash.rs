//! A hash that identifies stacks.

/// One step of an FNV-1a-like hash over words instead of bytes. Folds down the high bits, where the multiplication
/// collects its result.
#[inline(always)]
pub fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
