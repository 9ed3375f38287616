//! Instrumentation of bytecode: bytecode in, bytecode out. Nothing here talks to the kernel.
//!
//! - [`counters`]: counts how often each basic block runs, and by that each instruction.
//! - [`wrapper`]: times each run.
//! - [`tracer`]: the same from outside, for programs that are loaded already.
//! - [`rewrite`]: puts instructions into a program and mends what that breaks.
//!
//! What has to be known of a program before something is put into it:
//!
//! - [`graph`]: functions, basic blocks and edges; [`nest`]: loops, and how often what may run.
//! - [`liveness`]: which registers are free ([`registers`]: what an instruction does with them); [`frame`]: which part of the stack is.
//! - [`flow`]: which edges have to be counted, so that the rest follows.
//! - [`jumps`]: where tail calls lead.

pub mod counters;
pub mod flow;
pub mod frame;
pub mod graph;
pub mod jumps;
pub mod liveness;
pub mod nest;
pub mod registers;
pub mod rewrite;
pub mod tracer;
pub mod wrapper;
