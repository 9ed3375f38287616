//! What the fuzz targets check: any bytes lead to a result or an error. CONTRIBUTING.md describes how to run them.

pub mod bpf;
pub mod profiles;
pub mod records;
pub mod results;

/// The parser belongs to the binary, which is not a library, so its file is compiled in here.
#[path = "../../crates/wingbeat/src/changes"]
mod changes {
    pub(crate) mod input;
}

use std::{env, fs};

pub use wingbeat_agent::fuzzing as agent;
pub use wingbeat_profiler::fuzzing as profiler;

/// Makes a target of a function of this crate that accepts any bytes, and panics if the result is inconsistent.
///
/// Built without `cargo fuzz`, the program runs the function on the files that are its arguments.
#[macro_export]
macro_rules! target {
    ($module:ident::$function:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::$module::$function(bytes));
        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::replay($crate::$module::$function)
        }
    };
}

/// Runs a target's function on the files that are this program's arguments.
///
/// # Errors
///
/// A file cannot be read.
pub fn replay(function: fn(&[u8])) -> std::io::Result<()> {
    env::args_os().skip(1).try_for_each(|file| fs::read(file).map(|bytes| function(&bytes)))
}
