//! `wingbeat doctor`: what this kernel, these rights and this hardware allow, and how to get the rest.
//!
//! The findings come from `wingbeat_bpf::probe`; here they become text or JSON. docs/doctor.md
//! documents both, and the exit code: 0 when `wingbeat profile` can run, 1 when it cannot.

mod json;
mod table;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use wingbeat_bpf::{
    Verb,
    probe::{Kernel, can, findings},
};

/// Flags of `wingbeat doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON, whose form docs/doctor.md describes, instead of a table
    #[arg(long)]
    json: bool,
}

/// Looks, prints to stdout, and tells by the exit code whether `wingbeat profile` can run here.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = findings();
    let printed = match args.json {
        true => json::write(&findings, &Kernel::running(), io::stdout().lock()),
        false => table::write(&findings, anstream::stdout().lock()),
    };
    match printed.and_then(|()| io::stdout().flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.context("cannot write what was found to stdout")?,
    }
    Ok(if can(Verb::Profile, &findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
