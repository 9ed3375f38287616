//! `wingbeat compare` on real repositories of git, with benchmarks that are shell scripts. Needs no
//! rights.

mod ends;
mod failures;
mod sides;
mod support;
mod verdicts;
