//! Unwinding in user space: reads the unwind rules of files ([`Image`]) for the kernel half's tables, continues
//! walks that reached code without a table ([`finish()`]), and keeps the rules of JIT-compiled code ([`jitdump`]).

mod finish;
mod image;
pub(crate) mod jitdump;

pub(crate) use finish::{Copied, Memory, finish};
pub(crate) use image::Image;
