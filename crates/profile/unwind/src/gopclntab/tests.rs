//! Tables by hand.
