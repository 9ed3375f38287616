//! `wingbeat doctor`: what this kernel, these privileges and this hardware support, and how to enable the rest.
//!
//! `wingbeat_bpf_loader::probe` detects it; here the findings become text or JSON. docs/doctor.md documents both, and the exit
//! code: 0 if `wingbeat profile` can run, 1 if it cannot.

mod json;
mod table;

use std::process::ExitCode;

use wingbeat_bpf_loader::{
    Verb,
    probe::{Kernel, can, findings},
};

use crate::{
    shell::{print_by, print_json},
    values::{Format, FormatArgs},
};

/// Flags of `wingbeat doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    format: FormatArgs<Format>,
}

/// Probes and prints to stdout; the exit code says whether `wingbeat profile` can run here.
pub(crate) fn run(args: &DoctorArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let findings = findings();
    if args.format.get() == Format::Json {
        print_json(json::SCHEMA_VERSION, &json::Report::of(&findings, &Kernel::running()))?;
    } else if !quiet {
        print_by(|out| table::write(&findings, out))?;
    }
    Ok(if can(Verb::Profile, &findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
