//! Rule-based stack walking. The kernel half walks running threads, the user half copied stacks, and tests each
//! instruction of real programs, all with this code.

pub mod layout;
mod rule;
mod walk;

pub use rule::{Cfa, FP, FramePointer, REGISTERS, ReturnAddress, Rule, SP};
pub use walk::{ExtraRegister, Frame, Memory, Problem, along_frame_pointer, caller, step};
