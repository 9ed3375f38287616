//! `wingbeat`: measures the cost of eBPF and Rust code, down to the source line.
//!
//! Parses flags, calls the libraries, prints text.

mod agent;
mod alerts;
mod annotate;
mod bench;
mod changes;
mod cli;
mod compare;
mod diff;
mod doctor;
mod exchange;
mod generate;
mod heap;
mod live;
mod log;
mod name_service;
mod output;
mod plot;
mod profile;
mod progress;
mod receiver;
mod run;
#[cfg(feature = "server")]
mod serve;
mod shell;
mod store;
mod top;
mod values;

use std::{ffi::OsStr, io, process::ExitCode};

use clap::{CommandFactory as _, Parser as _};
use wingbeat_profiler::symbolize::helper;

use crate::cli::{Cli, Verb};

fn main() -> ExitCode {
    if let Some(code) = helper::serve_if_asked(&mut std::env::args_os()) {
        return code;
    }
    name_service::keep_built_in();
    let (words, is_bench_live) = cli::renamed(std::env::args_os());
    let cli = Cli::parse_from(words);
    cli.color.write_global();
    if is_bench_live && !cli.quiet {
        shell::message!(
            "note: `wingbeat bench --live` is now `wingbeat live`; the next release drops the old form"
        );
    }
    match run(&cli) {
        Ok(code) => code,
        // The reader closed the pipe.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            shell::error!("{}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    if let Some(word) = &cli.only_parse {
        return Ok(only_parsed(&cli.verb, word));
    }
    match &cli.verb {
        Verb::Profile(args) => profile::run(args, cli.quiet, cli.verbose),
        Verb::Agent(args) => agent::run(args, cli.quiet, cli.verbose),
        Verb::Heap(args) => heap::run(args, cli.quiet, cli.verbose),
        Verb::Diff(args) => diff::run(args, cli.quiet),
        Verb::Top(args) => top::run(args, cli.quiet),
        Verb::Annotate(args) => annotate::run(args, cli.quiet, cli.verbose),
        Verb::Bench(args) => bench::run(args, cli.quiet, cli.verbose),
        Verb::Live(args) => live::run(args, cli.quiet, cli.verbose),
        Verb::Run(args) => run::run(args, cli.quiet, cli.verbose),
        Verb::Mock(args) => run::mock(args),
        Verb::Compare(args) => compare::run(args, cli.quiet, cli.verbose),
        Verb::Changes(args) => changes::run(args, cli.quiet),
        Verb::Log(args) => log::run(args, cli.quiet),
        Verb::Alerts(args) => alerts::run(args, cli.quiet),
        Verb::Plot(args) => plot::run(args, cli.quiet),
        Verb::Export(args) => exchange::export(args, cli.quiet),
        Verb::Import(args) => exchange::import(args, cli.quiet),
        #[cfg(feature = "server")]
        Verb::Store(args) => store::verb::run(args, cli.quiet),
        #[cfg(feature = "server")]
        Verb::Serve(args) => serve::run(args, cli.quiet),
        #[cfg(not(feature = "server"))]
        Verb::Store(_) => cli::refuse_unbuilt("wingbeat store"),
        #[cfg(not(feature = "server"))]
        Verb::Serve(_) => cli::refuse_unbuilt("wingbeat serve"),
        Verb::Doctor(args) => doctor::run(args, cli.quiet),
        Verb::Generate(args) => generate::run(args, &Cli::command()),
    }
}

/// Checks whether a verb with these flags could run the program given by the placeholder.
fn only_parsed(verb: &Verb, word: &OsStr) -> ExitCode {
    let command = match verb {
        Verb::Profile(args) => {
            profile::check_flags(args);
            &args.command
        }
        Verb::Heap(args) if heap::paths(args).is_none() => return ExitCode::from(2),
        Verb::Heap(args) => &args.command,
        Verb::Run(args) => &args.command,
        _ => return ExitCode::SUCCESS,
    };
    match command.first().filter(|first| *first != word) {
        Some(first) => {
            shell::error!("unexpected word {first:?}: what the program gets stands after --");
            ExitCode::from(2)
        }
        None => ExitCode::SUCCESS,
    }
}

/// An error with its causes, without those already in the preceding text.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.is_empty() {
            cause
        } else if told.contains(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(is_pipe)
}
