//! Stack walking by rules, for both halves: the kernel half walks what runs, the user half what was
//! copied, and tests walk each instruction of real programs, all by this code.

mod beside;
pub mod layout;
mod rule;
mod walk;

pub use beside::Beside;
pub use rule::{Cfa, FramePointer, ReturnAddress, Rule};
pub use walk::{FP, Frame, Memory, Problem, REGISTERS, SP, along_frame_pointer, caller, step};
