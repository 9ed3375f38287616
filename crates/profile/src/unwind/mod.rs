//! Carries on where the frame pointers end.
//!
//! The kernel half walks frame pointers, which is cheap and enough for code that keeps them. Two
//! places need more: the innermost function, while it has not set up its frame, and the functions of
//! the C library at the bottom of each thread, which keep none. Both are mended here, by the unwind
//! tables of the file ([`Image`]) and a few words of stack that the kernel half sends along.

mod cfi;
mod finish;
mod image;
// Register names are those of one architecture.
#[cfg(all(test, target_arch = "x86_64"))]
mod oracle;

#[cfg(feature = "fuzzing")]
pub(crate) use cfi::Cfi;
pub(crate) use cfi::{Base, Row};
pub(crate) use finish::{Memory, Outcome, Start, finish};
pub(crate) use image::Image;
