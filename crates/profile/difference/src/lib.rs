//! From an alert to the guilty line: two profiles of a benchmark, before and after a change, and what became
//! slower in between.
//!
//! profiles ([`Side`]) → one [`Tree`] with both, scaled to the metric → [`explain()`] → [`sentences`]. Bytes in, data and
//! text out: nothing here touches the machine.

mod blame;
mod explain;
mod names;
#[doc(hidden)]
pub mod proto;
mod side;
mod tree;
mod words;

pub use explain::{Explanation, Guilty, explain};
pub use side::{Frame, Origin, ReadError, Side};
pub use tree::{Change, FunctionChange, Matched, Metric, Node, Tree};
pub use words::{line, sentences};

/// Compares two profiles of a benchmark, given the metric of each run.
///
/// # Errors
///
/// Profiles that count different things, or of programs that have nothing in common.
pub fn compare(before: &Side, after: &Side, metric: Metric) -> Result<Explanation, ReadError> {
    before.check_comparable(after)?;
    Ok(explain(&Tree::of(before, after, metric)))
}
