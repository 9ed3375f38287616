//! Holds the agent to a share of a CPU: lowers the rate at which it samples, and raises it again.

/// Windows above the limit after which the rate is lowered: one may be that of a new program with many names.
const PATIENCE: u32 = 2;

/// Windows far below the limit after which it is raised.
const CALM: u32 = 8;

/// Decides on the rate.
#[derive(Debug)]
pub(crate) struct Governor {
    wanted_hz: u64,
    current_hz: u64,
    /// Share of a CPU.
    limit: f64,
    above: u32,
    below: u32,
}

impl Governor {
    /// For a rate, and a share of one CPU.
    pub(crate) fn new(wanted_hz: u64, limit: f64) -> Self {
        Self { wanted_hz, current_hz: wanted_hz, limit, above: 0, below: 0 }
    }

    /// The rate now.
    pub(crate) fn current_hz(&self) -> u64 {
        self.current_hz
    }

    /// Takes the share of a CPU that a window took: the new rate, if it is another one.
    pub(crate) fn next(&mut self, share: f64) -> Option<u64> {
        let is_above = share > self.limit;
        // Twice the rate would still be below.
        let is_below = share < self.limit * 0.4 && self.current_hz < self.wanted_hz;
        self.above = if is_above { self.above + 1 } else { 0 };
        self.below = if is_below { self.below + 1 } else { 0 };
        let next_hz = if self.above >= PATIENCE {
            (self.current_hz / 2).max(1)
        } else if self.below >= CALM {
            (self.current_hz * 2).min(self.wanted_hz)
        } else {
            return None;
        };
        (self.above, self.below) = (0, 0);
        let is_new = next_hz != self.current_hz;
        self.current_hz = next_hz;
        is_new.then_some(next_hz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_lowered_and_raised() {
        let mut governor = Governor::new(19, 0.01);
        let mut check = |share: f64, windows: u32, expected_hz: u64| {
            for _ in 0..windows {
                let _ = governor.next(share);
            }
            assert_eq!(governor.current_hz(), expected_hz, "{share} for {windows} windows");
        };
        check(0.05, 1, 19);
        check(0.005, 1, 19);
        check(0.05, 2, 9);
        check(0.05, 4, 2);
        check(0.05, 20, 1);
        // Near the limit nothing changes.
        check(0.008, 50, 1);
        check(0.001, 7, 1);
        check(0.001, 1, 2);
        check(0.001, 100, 19);
    }
}
