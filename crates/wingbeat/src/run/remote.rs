//! `--host`: sends the report to a Bencher server instead of the store.

use std::{collections::BTreeMap, env, process::ExitCode, time::Duration};

use wingbeat_track::{
    git,
    github::Message,
    output::{self, Page},
    remote::{self, Host, Key, Patience, Retry, Submission},
    run::{Finding, Interrupt},
};

use super::{
    args::{Format, RunArgs},
    exit_code,
    request::{self, variable},
    tell_actions,
};
use crate::shell::{message, print, report_style, warning};

/// Total time limit, including delays between retries.
const TOTAL: Duration = Duration::from_mins(5);

/// The server, if given.
pub(super) fn host(args: &RunArgs) -> anyhow::Result<Option<Host>> {
    let Some(url) = args.host.host.clone().or_else(|| variable("HOST")) else { return Ok(None) };
    let key = match args.host.key.as_ref().or(args.host.token.as_ref()) {
        Some(text) => Some(Key::new(text)?),
        None => Key::from_env(|name| env::var(name).ok())?,
    };
    let patience = Patience {
        connect: Duration::from_secs(args.host.timeout),
        attempts: args.host.attempts,
        pause: Duration::from_secs(args.host.retry_after),
        pause_max: Duration::from_secs(args.host.max_retry_after),
        total: TOTAL,
    };
    Ok(Some(Host { url, key, has_public_links: args.ci.ci_public_links, patience }))
}

const NOT_CONFIRMED: &str = "--confirm measured nothing again: the server judges, when the command has ended; \
                             several iterations (--iter 3 --fold min) are less sensitive to spikes";

/// Sends the report and prints the response.
pub(super) fn send(
    args: &RunArgs,
    host: &Host,
    finding: &Finding,
    verbose: bool,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let thresholds = request::request(args, Interrupt::default())?.rules.thresholds;
    let context = context();
    let submission = Submission {
        report: &finding.report,
        thresholds: &thresholds,
        thresholds_reset: args.thresholds.reset,
        clone_thresholds: args.start_point_clone_thresholds,
        start_point_reset: args.start_point_reset,
        context: &context,
    };
    if args.dry_run {
        print(&format!("{:#}\n", remote::request(&submission)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut on_retry = |retry: &Retry| tell_retry(retry, quiet);
    let (mut answer, judged) = match host.is_wingbeat() {
        true => host.send_whole(&submission, &mut on_retry)?,
        false => (host.send(&submission, &mut on_retry)?, None),
    };
    if !finding.profiles.is_empty() {
        let sent = match judged.is_some() {
            true => {
                host.send_profiles(&finding.profiles, &mut on_retry).map_err(|it| it.to_string())
            }
            false => Err("Bencher's server takes none".to_owned()),
        };
        match sent {
            Ok(explained) => answer.explained = explained,
            Err(why) => answer.warnings.push(format!("the server has no profiles: {why}")),
        }
    }
    if !quiet && judged.is_none() {
        for remark in &finding.remarks {
            message!("note: {remark}");
        }
    }
    for warning in &answer.warnings {
        warning!("{warning}");
    }
    if args.confirm.is_some_and(|count| count > 0) {
        warning!("{NOT_CONFIRMED}");
    }
    let (report, id) = (&finding.report, args.ci.ci_id.as_deref());
    let text = match args.format.get() {
        Format::Human if let Some(judged) = &judged => {
            let (notices, remarks) = (&answer.notices, &finding.remarks);
            let explained = &answer.explained;
            let page = Page { notices, remarks, explained, ..Page::of(judged, &[]) };
            let style = report_style(verbose);
            format!("{}{}", output::human(&page, style), remote::links(&answer, style))
        }
        Format::Human => remote::human(&answer, report_style(verbose)),
        Format::Json => format!("{:#}\n", answer.json),
        Format::Markdown => remote::markdown(&answer, report, id),
        Format::Html => remote::html(&answer, report, id),
    };
    if args.format.get() != Format::Human || !quiet {
        print(&text)?;
    }
    tell_actions(args, |id| Message::of_answer(&answer, report, id));
    Ok(exit_code(args, answer.alerts_total, finding, &answer.notices))
}

/// Reports a failed attempt and the delay before the next.
pub(crate) fn tell_retry(retry: &Retry, quiet: bool) {
    if !quiet {
        let (attempt, attempts) = (retry.attempt, retry.attempts);
        let pause = retry.pause.as_secs_f64();
        message!("attempt {attempt} of {attempts}: {}; retrying in {pause:.0} s", retry.reason);
    }
}

/// Bencher's run context.
fn context() -> BTreeMap<String, String> {
    let mut context = BTreeMap::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            context.insert(format!("bencher.dev/v0/{key}"), value);
        }
    };
    let directory = env::current_dir().unwrap_or_default();
    put("repo/name", git::repository_name(&directory));
    put("branch/ref/name", git::branch(&directory));
    put("branch/hash", git::head(&directory));
    put("testbed/os", Some("Linux".to_owned()));
    context
}
