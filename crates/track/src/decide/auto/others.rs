//! What the series of one report know of each other's noise.

use wingbeat_stats::{
    noise::{Common, Kinds, Noise},
    others::Expected,
    usual::Usual,
};

use super::neighbours::Neighbours;

/// What the report's series contribute to each other.
pub(super) struct Others {
    pub(super) expected: Option<Expected>,
    pub(super) common: Common,
    pub(super) neighbours: Neighbours,
}

impl Others {
    /// The noise of one of them, whose own kinds are `own`.
    pub(super) fn noise(&self, past: &Usual, own: &Kinds) -> Noise {
        Noise::of(past, &self.common.without(own), self.expected.as_ref())
    }
}
