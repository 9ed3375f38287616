//! What user space does about stacks: it reads the unwind rules of files ([`Image`]) for the tables of
//! the kernel half, and walks on where that one met code whose table was not there yet ([`finish()`]).

mod finish;
mod image;

pub(crate) use finish::{Memory, finish};
pub(crate) use image::Image;
