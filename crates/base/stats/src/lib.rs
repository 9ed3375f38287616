//! Pure statistics over numbers: no I/O, no eBPF, no idea what a benchmark is.
//!
//! Everything here is a function of its arguments; what is random takes a seed. Numbers enter as a
//! [`Sample`], which is never empty and never holds NaN, so that no function behind
//! it has to ask.
//!
//! - [`sample`]: sorted values and what can be read off them; [`outliers`] are named, never removed.
//! - [`interval`]: a lower and an upper bound, from [`student`]'s distribution or by [`bootstrap`].
//! - [`rank`]: a test that knows only the order of the values.
//! - [`power`]: how small an effect could have been seen.
//! - [`changes`]: where the level of a series changes for good.
//! - [`histogram`]: quantiles of counts in buckets, and the layout that the kernel records into.
//! - [`linear`]: a line through points.
//! - [`usual`]: level and spread of a series, spikes left out; [`others`] of the same report say what
//!   spread to expect, [`steps`] of rounded values what it cannot be below.
//! - [`noise`]: how often values are as far off without a cause, and whether a new level explains them
//!   better.
//! - [`normal`], [`student`], [`random`]: what the others are made of.
//!
//! `docs/how-numbers-are-judged.md` says in plain words what all of this is for.

pub mod bootstrap;
pub mod changes;
pub mod histogram;
pub mod interval;
pub mod linear;
pub mod noise;
pub mod normal;
pub mod others;
pub mod outliers;
pub mod power;
pub mod random;
pub mod rank;
pub mod sample;
pub mod steps;
pub mod student;
pub mod usual;

pub use interval::Interval;
pub use sample::Sample;
