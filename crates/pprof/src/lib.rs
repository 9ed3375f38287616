//! Stacks of pprof profiles: reads, adds up and writes them ([`Stacks`]), compares two of them, and draws flame graphs.
//!
//! [`Stacks`] → one sample type ([`Side`]) → weights by function, scaled to the metric → [`compare`] → [`sentences`],
//! and the same profiles as one picture ([`Flame`]). Bytes in, data, text and images out: nothing here accesses the
//! machine. [`exact`] creates profiles from counts such as those read by [`callgrind`], and
//! [`mod@pprof`] is shared by all readers and writers.
//!
//! [`intake`] checks profiles that were pushed to a server, and [`pyroscope`] has the message they arrive in.

mod blame;
pub mod callgrind;
pub mod exact;
mod explain;
mod flame;
pub mod intake;
mod interner;
mod names;
mod origin;
pub mod pprof;
pub mod proto;
pub mod pyroscope;
mod scale;
mod side;
mod stacks;
#[cfg(feature = "testing")]
pub mod testing;
mod words;

pub use blame::{Matched, Place};
pub use explain::{Explanation, Guilty, compare};
pub use flame::{Colour, Flame, FunctionRow, Medium, Picture, Request, View};
pub use interner::Interner;
pub use scale::{Change, Metric, RUN_TO_RUN};
pub use side::Side;
pub use stacks::Stacks;
pub use words::{sentences, signed, step};
