//! Carries on where the frame pointers end.
//!
//! The kernel half walks frame pointers, which is cheap and enough for code that keeps them. Three
//! places need more: the innermost function, while it has not set up its frame, the functions of the C
//! library at the bottom of each thread, which keep none, and those of it that a blocked thread is in
//! ([`approach()`]). All are mended here, by the unwind
//! tables of the file ([`Image`]) and a few words of stack that the kernel half sends along.

mod approach;
mod finish;
mod image;

pub(crate) use approach::{ApproachEnd, Registers, approach};
pub(crate) use finish::{Memory, Outcome, Start, finish};
pub(crate) use image::Image;
