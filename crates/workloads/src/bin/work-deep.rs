//! One thread with deep stacks.

use std::process::ExitCode;

use wingbeat_workloads::{Spent, main_with, units};

fn main() -> ExitCode {
    main_with(|arguments| {
        let checksum = units(arguments.units, arguments.frames, 1);
        Ok(Spent { checksum, ..Spent::default() })
    })
}
