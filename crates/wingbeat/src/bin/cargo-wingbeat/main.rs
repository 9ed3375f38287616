//! `cargo wingbeat`: builds a program of the user's crate with line tables, and measures it with `wingbeat`.
//!
//! The build and the program run as the calling user, in their environment. Only `wingbeat` itself gets more
//! privileges.

mod build;
mod launch;
mod profiles;
mod targets;
mod words;

use std::{
    env,
    os::unix::process::ExitStatusExt as _,
    process::{ExitCode, ExitStatus},
};

use self::words::{Parsed, Request};

/// Why nothing was measured.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    code: u8,
    /// Empty if already reported.
    text: String,
}

impl Failure {
    /// An error in the command line.
    fn usage(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { code: 1, text: format!("{error:#}") }
    }
}

fn main() -> ExitCode {
    let parsed = words::parse(env::args_os().skip(1));
    let failure = match parsed {
        Ok(Parsed::Text(text)) => {
            anstream::print!("{text}");
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::Request(request)) => match run(&request) {
            Ok(code) => return code,
            Err(failure) => failure,
        },
        Err(failure) => failure,
    };
    if !failure.text.is_empty() {
        anstream::eprintln!("error: {}", failure.text);
    }
    ExitCode::from(failure.code)
}

/// Builds the program and execs the measurement; returns only on failure.
fn run(request: &Request) -> Result<ExitCode, Failure> {
    let wingbeat = launch::wingbeat()?;
    // Reports all errors before a build, which may take minutes.
    if let Some(code) = launch::refused(&wingbeat, request)? {
        return Ok(code);
    }
    let rights = launch::rights(&wingbeat, request.verb)?;
    let mut caller = build::caller()?;
    let workspace = build::workspace(request, &caller)?;
    let chosen = targets::choose(request, &workspace, &caller.folder)?;
    let program = build::build(request, &workspace, &chosen, &mut caller)?;
    launch::launch(request, &wingbeat, rights, &program, &caller)
}

/// The exit code of a shell for this end of a process.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Joins names for a message.
fn listed(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
