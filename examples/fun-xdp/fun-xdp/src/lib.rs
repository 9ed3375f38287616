//! The user half of the example `fun-xdp`, shared by its loader and its benchmark.
//!
//! [`KernelHalf`] loads the programs and attaches one, [`Classes`] reads their results from the
//! queue. Callers decide when to poll it, and what to do with the results.

mod interface;
mod kernel;

use aya::include_bytes_aligned;

pub use fun_xdp_common::SourceAddr;
pub use interface::{Interface, InterfaceError};
pub use kernel::{Attached, AttachedMode, Classes, ClassesError, KernelError, KernelHalf, Version};

/// The programs without logging, for measurements.
pub static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/fun-xdp"));

/// The programs with logging, for the loader.
pub static OBJECT_WITH_LOG: &[u8] =
    include_bytes_aligned!(concat!(env!("OUT_DIR"), "/fun-xdp-log"));
