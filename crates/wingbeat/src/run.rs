//! `wingbeat run` and `wingbeat mock`: converts flags to a request, runs it, stores and prints the finding, and sets
//! the exit code.

mod args;
mod interrupt;
mod remote;
mod request;
mod sampler;
mod thresholds;

use std::{
    collections::HashSet,
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use wingbeat_text::plural;
use wingbeat_track::{
    explain,
    git::History,
    github::{Actions, Message, Options},
    model::Notice,
    output::{self, Page},
    run::{self, Finding, Profiling, Sampler},
    store::Store,
};

use self::args::{Format, ProfileArg};
pub(crate) use self::{
    args::{MockArgs, RunArgs},
    remote::tell_retry,
    request::project,
};
use crate::shell::{error, message, print, report_style, warning};

/// Runs, compares, stores, prints. The exit code is 1 with `--err` if there are alerts, otherwise 0.
pub(crate) fn run(args: &RunArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let interrupt = interrupt::watch()?;
    let request = match request::request(args, interrupt.clone()) {
        Ok(request) => request,
        Err(error) => {
            error!("{error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let mut echo = |line: &[u8]| {
        if !quiet {
            // Stdout is for the report. Ignores a closed stderr.
            let _ = io::stderr().write_all(line);
        }
    };
    let profiler = args.profile.and_then(ProfileArg::profiler);
    let profiling = Profiling {
        takes_exact: args.profile.is_some_and(ProfileArg::takes_exact),
        sampler: profiler.as_ref().map(|it| it as &dyn Sampler),
    };
    if let Some(host) = remote::host(args)? {
        let finding = interrupt::or_die(run::run(&request, None, profiling, &mut echo))?;
        return remote::send(args, &host, &finding, verbose, quiet);
    }
    // Before the command: it may take an hour, and the store may be unusable.
    let mut store = open(args)?;
    let finding = interrupt::or_die(run::run(&request, store.as_ref(), profiling, &mut echo))?;
    // After a failure, results are still printed.
    let stored = match store.as_mut().filter(|_| !args.dry_run) {
        Some(store) => run::store(&finding, store),
        None => Ok(()),
    };
    let number = |report: Option<_>| match (&store, report) {
        (Some(store), Some(report)) => store.version_number(report),
        _ => Ok(None),
    };
    let explained = match store.as_ref().filter(|_| stored.is_ok() && !finding.profiles.is_empty())
    {
        Some(store) => {
            let sources = History::new(request.directory.clone());
            explain::of_report(store, &finding.report, &sources)?
        }
        None => Vec::new(),
    };
    let compared = finding.compared_with.as_ref().filter(|_| finding.report.start_point.is_some());
    let page = Page {
        report: &finding.report,
        thresholds: &finding.thresholds,
        version_number: number(stored.is_ok().then_some(finding.report.uuid))?,
        start_point_number: number(compared.map(|report| report.uuid))?,
        start_point_hash: compared.and_then(|report| report.hash.as_deref()),
        notices: &finding.notices,
        remarks: &finding.remarks,
        explained: &explained,
        store: store.as_ref().filter(|_| !args.dry_run && stored.is_ok()).map(Store::path),
    };
    if args.format.get() != Format::Human || !quiet {
        print(&text(&page, args, verbose))?;
    }
    stored?;
    tell_actions(args, |id| Message::of_page(&page, id));
    interrupt::die_if_raised(&interrupt);
    Ok(exit_code(args, finding.report.active_alerts() as u64, &finding, &finding.notices))
}

/// Prints made-up results.
pub(crate) fn mock(args: &MockArgs) -> anyhow::Result<ExitCode> {
    let text = serde_json::to_string_pretty(&args.mock().results())?;
    print(&format!("{text}\n"))?;
    if args.fails() {
        anyhow::bail!("failed as requested (--fail, or --flaky)");
    }
    Ok(ExitCode::SUCCESS)
}

/// The store. A dry run uses an existing one, and creates none.
fn open(args: &RunArgs) -> anyhow::Result<Option<Store>> {
    let path = args.store.path()?;
    Ok(match args.dry_run {
        false => Some(Store::open(path)?),
        true if path.exists() => Some(Store::open_existing(path)?),
        true => None,
    })
}

fn text(page: &Page<'_>, args: &RunArgs, verbose: bool) -> String {
    let id = args.ci.ci_id.as_deref();
    match args.format.get() {
        Format::Human => output::human(page, report_style(verbose)),
        Format::Json => format!("{:#}\n", output::json(page)),
        Format::Markdown => output::markdown(page, id),
        Format::Html => output::html(page, id),
    }
}

/// Exit code with `--err`: fails on alerts, and on benchmarks not shown to be as fast as before.
fn exit_code(args: &RunArgs, alerts: u64, finding: &Finding, notices: &[Notice]) -> ExitCode {
    let failures = finding.report.failures().map(|(_, failure)| &failure.name);
    let failures = failures.collect::<HashSet<_>>().len();
    match () {
        () if !args.err => return ExitCode::SUCCESS,
        () if alerts > 0 => error!("alerts detected ({alerts})"),
        () if failures > 0 => error!("{} failed", plural(failures, "benchmark")),
        () if finding.failed_again => {
            error!(
                "the command ran again without a result, so what looks bad is neither refuted nor confirmed"
            );
        }
        () if !args.allow_missing && notices.iter().any(Notice::is_none_left) => {
            error!("none of the known benchmarks is left; --allow-missing accepts that");
        }
        () => return ExitCode::SUCCESS,
    }
    ExitCode::FAILURE
}

/// Writes summary, annotations, comment and check run in a GitHub job. Errors do not fail the run.
fn tell_actions(args: &RunArgs, message: impl FnOnce(Option<&str>) -> Message) {
    let Some(actions) = Actions::from_env(|name| env::var(name).ok()) else { return };
    let options = Options {
        token: args.ci.github_actions.clone(),
        only_thresholds: args.ci.ci_only_thresholds,
        only_on_alert: args.ci.ci_only_on_alert,
        id: args.ci.ci_id.clone(),
        number: args.ci.ci_number,
        is_strict: args.err,
    };
    let told = actions.tell(&message(options.id.as_deref()), &options);
    // On stderr, which GitHub reads too: stdout may be data.
    for line in told.annotations.lines() {
        message!("{line}");
    }
    for warning in told.warnings {
        warning!("{warning}");
    }
    for note in told.notes {
        message!("{note}");
    }
    for (name, address) in [("comment", told.comment), ("check run", told.check)] {
        if let Some(address) = address {
            message!("{name}: {address}");
        }
    }
}
