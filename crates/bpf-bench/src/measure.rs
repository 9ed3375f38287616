//! Measures: the only part of this crate that runs programs.
//!
//! A `Runner` loads programs and runs them until its alarm goes off: the `kernel`, or in tests a
//! `fake` one with its own clock. A `Subject` is one program with its maps: plain, with counters,
//! and with a clock. `cases` prepares each program on each input for sampling, as far as the
//! `budget` allows; a `Slot` takes samples, in batches or as an `Alternation` with the baseline.
//! `order` schedules all of it, [`against()`] compares two objects. The result is data for
//! [`analyse`](crate::analyse).

mod against;
mod alternation;
mod batch;
mod cases;
#[cfg(feature = "testing")]
mod confirm;
mod contents;
mod counted;
mod counts;
mod empty_baseline;
mod error;
#[cfg(test)]
mod fake;
mod feeding;
mod kernel;
mod origin;
mod runner;
mod schedule;
mod session;
mod slot;
mod subject;
mod target;
#[cfg(test)]
mod tests;

pub use against::against;
#[cfg(feature = "testing")]
pub use confirm::{Confirmation, Difference, confirm};
pub use counts::{CountedProgram, count_program};
pub use error::BenchError;
pub use kernel::allowed_cpus;
pub use schedule::bench;
pub use session::{Progress, Watcher};
pub use target::TargetSource;
