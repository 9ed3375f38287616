//! Rule-based stack walking. The kernel half walks running threads, the user half copied stacks, and tests each
//! instruction of real programs, all with this code.

mod beside;
pub mod layout;
mod rule;
mod walk;

pub use beside::Beside;
pub use rule::{Cfa, FramePointer, ReturnAddress, Rule};
pub use walk::{FP, Frame, Memory, Problem, REGISTERS, SP, along_frame_pointer, caller, step};
