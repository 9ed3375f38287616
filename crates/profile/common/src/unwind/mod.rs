//! Stack walking by rules, for both halves: the kernel half walks what runs, the user half what was
//! copied, and tests walk each instruction of real programs, all by this code.

mod rule;
mod walk;

pub use rule::{Cfa, FramePointer, ReturnAddress, Rule};
pub use walk::{FP, Frame, Problem, SP, Source, Thread, caller, canonical};
