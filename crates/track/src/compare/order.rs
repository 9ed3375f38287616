//! The order of the runs: blocks of four, ABBA or BAAB at random. Linear drift of the machine affects both sides of a
//! block equally, and no periodic disturbance can align with it. Pure.

use wingbeat_stats::random::Random;

use super::SideName::{self, Base, Head};

pub const BLOCK: usize = 4;

pub const PAIRS_PER_BLOCK: usize = 2;

#[derive(Debug, Clone)]
pub struct Order(Random);

impl Order {
    /// The same seed gives the same order.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// The next block. Its first two runs are a pair, and its last two.
    pub fn block(&mut self) -> [SideName; BLOCK] {
        if self.0.coin() { [Base, Head, Head, Base] } else { [Head, Base, Base, Head] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_comes_first_as_often() {
        let mut order = Order::new(1);
        let blocks: Vec<_> = (0..1000).map(|_| order.block()).collect();
        let base_first = blocks.iter().filter(|block| block[0] == Base).count();
        // Standard deviation 16.
        assert!(base_first.abs_diff(500) < 60, "{base_first}");
        for block in blocks {
            assert!(block[0] == block[3] && block[1] == block[2] && block[0] != block[1]);
        }
    }
}
