//! Pure statistics over numbers: no I/O, no eBPF, no notion of a benchmark.
//!
//! Everything here is a function of its arguments; random functions take a seed. Numbers enter as a
//! [`Sample`], which is never empty and never contains NaN, so other functions need not check.
//!
//! - [`sample`]: sorted values and their figures; [`outliers`] are named, never removed.
//! - [`interval`]: a lower and an upper bound, from [`student`]'s distribution or by [`bootstrap`].
//! - [`rank`]: a test that knows only the order of the values.
//! - [`power`]: the smallest effect that could have been detected.
//! - [`paired`]: the change between two things measured in pairs, and the verdict.
//! - [`changes`]: where the level of a series changes permanently; [`drift`]: where it moves slowly.
//! - [`histogram`]: quantiles of counts in buckets, and the layout that the kernel half fills.
//! - [`linear`]: a line through points.
//! - [`robust_level`]: level and spread of a series, spikes left out; [`spread_prior`]: the spread that other series of
//!   the report suggest; [`quantization`]: the step of rounded values, its minimum.
//! - [`noise`]: how often values are as far off by chance, and whether a new level explains them
//!   better.
//! - [`normal`], [`student`], [`random`]: building blocks of the others.
//!
//! `docs/judging-appendix.md` explains their use.

pub mod bootstrap;
pub mod changes;
pub mod drift;
pub mod histogram;
pub mod interval;
pub mod linear;
pub mod noise;
pub mod normal;
pub mod outliers;
pub mod paired;
pub mod power;
pub mod quantization;
pub mod random;
pub mod rank;
pub mod robust_level;
pub mod sample;
pub mod spread_prior;
pub mod student;

pub use interval::Interval;
pub use sample::Sample;
