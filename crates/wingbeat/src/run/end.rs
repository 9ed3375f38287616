//! How a report looks on the terminal, and the exit code.

use std::{io, process::ExitCode};

use wingbeat_text::plural;
use wingbeat_track::{output::Style, run::Finding};

use super::args::RunArgs;
use crate::shell::{error, stdout_has_colours, width_of};

/// How text for the terminal looks.
pub(super) fn style(verbose: bool) -> Style {
    Style { width: width_of(io::stdout()), has_colours: stdout_has_colours(), is_verbose: verbose }
}

/// What `--err` makes of alerts, and of benchmarks that failed.
pub(super) fn exit_code(args: &RunArgs, alerts: u64, finding: &Finding) -> ExitCode {
    let failures =
        finding.report.iterations.iter().map(|results| results.failures.len()).sum::<usize>();
    if args.is_strict() && alerts > 0 {
        error!("alerts detected ({alerts})");
        return ExitCode::FAILURE;
    }
    // A benchmark that failed has not been shown to be as fast as before.
    if args.is_strict() && failures > 0 {
        let failures = plural(failures, "benchmark");
        error!("{failures} failed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
