//! From an alert to the guilty line: two profiles of a benchmark, before and after a change, and what became
//! slower in between.
//!
//! profiles ([`Side`]) → blame by function, scaled to the metric → [`compare`] → [`sentences`], and the same profiles as
//! a differential flame graph ([`Flame`]). Bytes in, data, text and pictures out: nothing here touches the machine.
//! [`exact`] makes profiles of counts, as [`callgrind`] reads some, and [`write`](mod@write) has what all writers of
//! pprof share.

mod blame;
pub mod callgrind;
pub mod exact;
mod explain;
mod flame;
mod names;
mod origin;
pub mod pprof;
pub mod proto;
mod scale;
mod side;
mod total;
mod words;
pub mod write;

pub use blame::{Matched, Place};
pub use explain::{Explanation, Guilty, compare};
pub use flame::{Flame, FunctionRow, Medium, Picture, Request, View};
pub use scale::{Change, Metric, RUN_TO_RUN};
pub use side::{ReadError, Side};
pub use total::{AddError, Total};
pub use words::{sentences, signed, step};
