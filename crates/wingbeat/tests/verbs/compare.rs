//! `wingbeat compare` on real git repositories, with benchmarks that are shell scripts. Needs no privileges.

mod ends;
mod failures;
mod sides;
mod support;
mod verdicts;
