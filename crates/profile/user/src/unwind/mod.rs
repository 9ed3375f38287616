//! What user space does about stacks: it reads the unwind rules of files ([`Image`]) for the tables of
//! the kernel half, walks on where that one met code whose table was not there yet ([`finish()`]), and knows
//! the rules of code that JIT compilers made ([`jitdump`], [`pieces`]).

mod finish;
mod image;
pub(crate) mod jitdump;
pub(crate) mod pieces;

pub(crate) use finish::{Memory, finish};
pub(crate) use image::Image;
