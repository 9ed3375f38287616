//! Measures the cost of one run of an eBPF program: measure → analyse → report.
//!
//! - [`input`]: program inputs: packets, contexts, map contents. Does not touch the kernel.
//! - [`instrument`]: bytecode instrumentation: block counters and the timing wrapper. Pure.
//! - [`conditions`]: machine conditions during a measurement.
//! - [`report`]: results as text: tables, JSON, Bencher Metric Format, CSV. Pure.
//! - [`live`]: measures programs that are already loaded, in place.

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
