//! What one run of an eBPF program costs: measure → analyse → report.
//!
//! - [`input`]: what a program is run on: packets, contexts, map contents. Bytes in, no kernel.
//! - [`instrument`]: bytecode in, bytecode out: block counters and the timing wrapper. Pure.
//! - [`conditions`]: what the machine was like while something was measured.
//! - [`report`]: results as text: tables, JSON, Bencher Metric Format, CSV. Pure.
//! - [`live`]: programs that are loaded already, measured where they run.

pub mod analyse;
pub mod annotate;
pub mod conditions;
pub mod counts;
pub mod input;
pub mod instrument;
pub mod live;
pub mod measure;
pub mod plan;
pub mod report;
pub mod result;

pub use wingbeat_text::Warning;
