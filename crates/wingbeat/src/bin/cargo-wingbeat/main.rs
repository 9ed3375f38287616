//! `cargo wingbeat`: builds a program of one's own crate with lines, and has `wingbeat` measure it.
//!
//! Whoever calls it builds it, and it runs as them, in their environment. Only `wingbeat` itself gets more rights.

mod build;
mod launch;
mod profiles;
mod targets;
mod words;

use std::{env, process::ExitCode};

use self::words::{Parsed, Request};

/// Why nothing was measured.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    code: u8,
    /// Empty if somebody else told it.
    text: String,
}

impl Failure {
    /// Of the command line.
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

/// Builds the program and becomes what measures it; returns only if that is not to be.
fn run(request: &Request) -> Result<ExitCode, Failure> {
    let wingbeat = launch::wingbeat()?;
    // All that can be refused is refused before a build, which may take minutes.
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

/// Names as a list for a sentence.
fn listed(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
