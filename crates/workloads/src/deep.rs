//! The work: deep stacks, a different one for each unit.
//!
//! A unit picks a depth and a path, descends along the path through three mutually recursive functions, and computes at
//! the bottom for some tens of microseconds. Samples therefore fall on some hundreds of distinct stacks: more than a
//! toy loop has, so that aggregation has work to do, and fewer than one per sample, as in real programs.

use std::hint::black_box;

/// Distinct paths from the top to the bottom of a stack.
const PATHS: u64 = 16;

/// Rounds of the generator at the bottom of a stack: about 20 µs on a machine of 2020.
const LEAF_ROUNDS: u32 = 10_000;

/// Frames of this module in a stack: the depth of the descent, and the leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames {
    pub min: u32,
    /// Maximum.
    pub max: u32,
}

impl Default for Frames {
    /// With the frames below (thread or process start), stacks of 26 to 50 frames.
    fn default() -> Self {
        Self { min: 19, max: 43 }
    }
}

/// Does `count` units of work. `seed` changes the order of the stacks, not the cost.
///
/// The value depends on all the work, so that none of it can be optimized away.
#[inline(never)]
#[must_use]
pub fn units(count: u64, frames: Frames, seed: u64) -> u64 {
    let depths = u64::from(frames.max.saturating_sub(frames.min)) + 1;
    let mut random = seed | 1;
    let mut sum = 0_u64;
    for _ in 0..count {
        random = step(random);
        let path = random % PATHS;
        // Other bits than the path's, or each path would always have the same depth.
        let depth = frames.min + u32::try_from((random >> 32) % depths).unwrap_or(0);
        sum = sum.wrapping_add(descend(path, depth.saturating_sub(1)));
    }
    sum
}

#[inline(never)]
fn oak(path: u64, levels: u32) -> u64 {
    black_box(descend(path, levels)).wrapping_add(1)
}

#[inline(never)]
fn ash(path: u64, levels: u32) -> u64 {
    black_box(descend(path, levels)).wrapping_add(2)
}

#[inline(never)]
fn elm(path: u64, levels: u32) -> u64 {
    black_box(descend(path, levels)).wrapping_add(3)
}

/// One level down. Inlined, so that symbolization has to resolve inlined frames.
#[inline(always)]
fn descend(path: u64, levels: u32) -> u64 {
    let Some(below) = levels.checked_sub(1) else {
        return leaf(path);
    };
    // Fibonacci hashing: neighbouring paths must differ in more than their start.
    let hash = (path + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (levels % 32);
    match hash % 3 {
        0 => oak(path, below),
        1 => ash(path, below),
        _ => elm(path, below),
    }
}

#[inline(never)]
fn leaf(path: u64) -> u64 {
    let mut value = path + 1;
    for _ in 0..LEAF_ROUNDS {
        value = step(black_box(value));
    }
    value
}

/// Marsaglia's xorshift; its state must not be zero and never becomes zero.
#[inline(always)]
fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_work_gives_the_same_value() {
        let frames = Frames::default();
        assert_eq!(units(20, frames, 1), units(20, frames, 1));
        assert_ne!(units(20, frames, 1), units(21, frames, 1));
        assert_eq!(units(0, frames, 1), 0);
    }

    #[test]
    fn odd_frames_do_no_harm() {
        for frames in [Frames { min: 0, max: 0 }, Frames { min: 9, max: 3 }] {
            assert_ne!(units(3, frames, 5), 0, "{frames:?}");
        }
    }
}
