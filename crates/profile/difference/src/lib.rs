//! From an alert to the guilty line: two profiles of a benchmark, before and after a change, and what became
//! slower in between.
//!
//! profiles ([`Side`]) → blame by function, scaled to the metric → [`compare`] → [`sentences`], and the same profiles as
//! a differential flame graph ([`Flame`]). Bytes in, data, text and pictures out: nothing here touches the machine.

mod blame;
mod explain;
mod flame;
mod names;
pub mod pprof;
pub mod proto;
mod scale;
mod side;
mod words;

pub use blame::Matched;
pub use explain::{Explanation, Guilty, compare};
pub use flame::{Flame, Picture, Place, Request, View};
pub use scale::{Change, Metric};
pub use side::{ReadError, Side};
pub use words::{sentences, signed, step};
