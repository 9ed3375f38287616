//! Instrumentation of bytecode: bytecode in, bytecode out. Does not talk to the kernel.
//!
//! - [`counters`]: counts executions of each basic block, and thereby of each instruction.
//! - [`wrapper`]: times each run.
//! - [`tracer`]: times runs from outside, for programs that are already loaded.
//! - [`rewrite`]: inserts instructions into a program and fixes offsets.
//!
//! Analyses that insertion requires:
//!
//! - [`graph`]: functions, basic blocks and edges; [`loops`]: loops, and execution frequencies.
//! - [`liveness`]: free registers ([`registers`]: registers that an instruction uses); [`frame`]:
//!   free stack.
//! - [`flow`]: the minimal set of edges to count.
//! - [`jumps`]: targets of tail calls.

pub mod counters;
pub mod flow;
pub mod frame;
pub mod graph;
pub mod jumps;
pub mod liveness;
pub mod loops;
pub mod registers;
pub mod rewrite;
pub mod tracer;
pub mod wrapper;
