//! Keeps the agent below a CPU share by reducing its recording rates, and raises them again.

/// Windows above the limit before rates are reduced: a single one may be from a new program with many names.
const PATIENCE: u32 = 2;

/// Windows far below the limit before rates are raised.
const CALM: u32 = 8;

/// Maximum number of halvings: 1 of 64 remains.
const HALVINGS_MAX: u32 = 6;

/// Chooses the recording rates.
#[derive(Debug)]
pub(crate) struct Governor {
    /// Share of a CPU.
    limit: f64,
    halvings: u32,
    above: u32,
    below: u32,
}

impl Governor {
    /// Creates a governor for a share of one CPU.
    pub(crate) fn new(limit: f64) -> Self {
        Self { limit, halvings: 0, above: 0, below: 0 }
    }

    /// Processes a window's CPU share. Returns the new number of halvings if it changed.
    pub(crate) fn next(&mut self, share: f64) -> Option<u32> {
        let is_above = share > self.limit;
        // Twice as much would still be below.
        let is_below = share < self.limit * 0.4 && self.halvings > 0;
        self.above = if is_above { self.above + 1 } else { 0 };
        self.below = if is_below { self.below + 1 } else { 0 };
        let halvings = if self.above >= PATIENCE {
            (self.halvings + 1).min(HALVINGS_MAX)
        } else if self.below >= CALM {
            self.halvings - 1
        } else {
            return None;
        };
        (self.above, self.below) = (0, 0);
        let is_new = halvings != self.halvings;
        self.halvings = halvings;
        is_new.then_some(halvings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_recorded_and_more_again() {
        let mut governor = Governor::new(0.01);
        let mut check = |share: f64, windows: u32, expected: u32| {
            for _ in 0..windows {
                let _ = governor.next(share);
            }
            assert_eq!(governor.halvings, expected, "{share} for {windows} windows");
        };
        check(0.05, 1, 0);
        check(0.005, 1, 0);
        check(0.05, 2, 1);
        check(0.05, 4, 3);
        check(0.05, 20, HALVINGS_MAX);
        // Near the limit nothing changes.
        check(0.008, 50, HALVINGS_MAX);
        check(0.001, 7, HALVINGS_MAX);
        check(0.001, 1, HALVINGS_MAX - 1);
        check(0.001, 100, 0);
    }
}
