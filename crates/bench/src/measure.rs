//! Measures: the only part of this crate that runs programs.
//!
//! A `Subject` is one program with its maps in the kernel, plain, with counters, and with a clock. A `Runner`
//! runs its forms until the alarm goes off. `cases` brings each program on each input to where samples can be
//! taken, as far as the `budget` allows; a `Turn` takes them, in batches or as an `Alternation` with the ruler.
//! `session` puts all of it in order, [`against()`] two objects side by side. What comes out is data for
//! [`analyse`](crate::analyse).

mod against;
mod alternation;
mod batch;
mod budget;
mod cases;
#[cfg(feature = "testing")]
mod confirm;
mod contents;
mod counts;
mod distribution;
mod error;
mod link;
mod place;
mod progress;
mod ruler;
mod runner;
mod session;
mod subject;
mod tail_calls;
mod target;
mod turn;
mod verified;

pub use against::against;
#[cfg(feature = "testing")]
pub use confirm::{Confirmation, Difference, confirm};
pub use counts::{CountedProgram, count_program};
pub use error::BenchError;
pub use place::allowed_cpus;
pub use progress::{Progress, Watcher};
pub use session::bench;
pub use target::TargetSource;
