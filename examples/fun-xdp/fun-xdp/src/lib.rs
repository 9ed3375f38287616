//! The user half of the example `fun-xdp`, as far as its loader and its benchmark share it.
//!
//! [`KernelHalf`] loads the programs and attaches one, [`Classes`] takes out of the queue what they
//! put in. How often to look, and what to do with it, is for the caller to say.

mod classes;
mod interface;
mod kernel;

use aya::include_bytes_aligned;

pub use classes::{Classes, ClassesError};
pub use fun_xdp_common::SourceAddr;
pub use interface::{Interface, InterfaceError};
pub use kernel::{Attached, AttachedMode, KernelError, KernelHalf, Version};

/// The programs without a log: what is measured.
pub static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/fun-xdp"));

/// The programs with a log: what the loader runs.
pub static OBJECT_WITH_LOG: &[u8] =
    include_bytes_aligned!(concat!(env!("OUT_DIR"), "/fun-xdp-log"));
