//! The profiler as its users run it, on the real kernel.

mod arguments;
#[cfg(feature = "dhat-heap")]
mod heap;
mod run;
mod sampling;
