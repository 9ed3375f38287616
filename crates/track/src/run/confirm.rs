//! Repeats suspicious measurements: only what recurs is an alert.

use std::collections::BTreeSet;

use uuid::Uuid;
use wingbeat_text::first_few;

use super::{
    Benchmark, CommandError, Echo, Finding, GatherError, Measured, Request, RunError, filter::only,
    fold::Fold, measure,
};
use crate::{
    evaluate::{self, Background, Repeat},
    model::{Alert, BenchmarkName, MeasureKind, Report, Verdict},
};

/// Runs the suspects again, up to the requested number of times, while any of them still looks bad.
pub(super) fn confirm(
    finding: &mut Finding,
    request: &Request,
    background: &Background,
    echo: &mut Echo<'_>,
) {
    let suspects = suspects(finding, request, background);
    if suspects.is_empty() || request.confirm == Some(0) {
        return;
    }
    let Some(command) = command_of(finding, request, &suspects) else { return };
    let names = first_few(suspects.iter().map(ToString::to_string));
    let looks = if suspects.len() == 1 { "looks" } else { "look" };
    let text = format!("{names} {looks} suspicious; measuring again (--confirm 0 never does)\n");
    echo(text.as_bytes());
    let mut again = request.clone();
    // Folded results are not compared with a single run.
    if request.fold.is_none() {
        again.iterations = 1;
        again.allow_failure = false;
    }
    let mut commands = vec![only(command.clone(), request.adapter, &suspects), command];
    commands.dedup();
    let mut repeats = Vec::new();
    let mut confirmations = Vec::new();
    // Earlier measurements are to be stored in any case.
    request.interrupt.keep_results();
    for _ in 0..times(request) {
        let measured = match measure_by(&mut commands, &mut again, echo) {
            Ok(measured) => measured,
            // The findings stand, although unconfirmed.
            Err(error) => {
                let is_interrupted = request.interrupt.is_raised();
                finding.failed_again = confirmations.is_empty() && !is_interrupted;
                finding.remarks.push(why_not_again(error));
                break;
            }
        };
        let report = confirmation(measured, &finding.report);
        let again = values(&report);
        let is_there = |name: &&BenchmarkName| again.iter().any(|it| it.benchmark == **name);
        let absent: Vec<String> =
            suspects.iter().filter(|name| !is_there(name)).map(ToString::to_string).collect();
        repeats.extend(again);
        confirmations.push(report);
        let remarks = std::mem::take(&mut finding.remarks);
        let judged =
            evaluate::evaluate(finding.report.clone(), &request.rules, background, &repeats);
        *finding = Finding::of(judged, remarks);
        if !absent.is_empty() {
            finding.failed_again = true;
            let absent = first_few(absent.into_iter());
            finding.remarks.push(format!("the command ran again, and had no result of {absent}"));
            break;
        }
        if self::suspects(finding, request, background).is_empty() {
            break;
        }
    }
    if !confirmations.is_empty() && !finding.failed_again {
        let is_settled = self::suspects(finding, request, background).is_empty();
        let remark = what_recurred(&suspects, finding, is_settled, confirmations.len());
        finding.remarks.push(remark);
    }
    finding.confirmations = confirmations;
}

/// How often to repeat.
fn times(request: &Request) -> u32 {
    request.confirm.unwrap_or(u32::from(request.is_gate))
}

/// The command for repeating. `None`, possibly with a remark, if nothing is repeated.
fn command_of(
    finding: &mut Finding,
    request: &Request,
    suspects: &[BenchmarkName],
) -> Option<Benchmark> {
    let command = request.source.command.clone();
    if command.is_none() && request.confirm.is_some() {
        let remark = "results without a command cannot be measured again to confirm an alert";
        finding.remarks.push(remark.to_owned());
    }
    if command.is_some() && times(request) == 0 {
        let names = first_few(suspects.iter().map(ToString::to_string));
        finding.remarks.push(format!("--err, or --confirm 1, measures {names} again at once"));
    }
    command.filter(|_| times(request) > 0)
}

/// A repeated measurement as a report linked to the one it confirms.
fn confirmation(measured: Measured, of: &Report) -> Report {
    Report {
        uuid: Uuid::now_v7(),
        start_time: measured.start_time,
        end_time: measured.end_time,
        environment: measured.environment,
        verdicts: Vec::new(),
        alerts: Vec::new(),
        confirms: Some(of.uuid),
        iterations: measured.iterations,
        ..of.clone()
    }
}

/// Measures with the first of these commands, and drops it if it finds nothing: a filter may not match the names of the
/// results.
fn measure_by(
    commands: &mut Vec<Benchmark>,
    again: &mut Request,
    echo: &mut Echo<'_>,
) -> Result<Measured, RunError> {
    again.source.command = commands.first().cloned();
    match measure(again, None, echo) {
        Err(RunError::Gather(_)) if commands.len() > 1 && !again.interrupt.is_raised() => {
            commands.remove(0);
            measure_by(commands, again, echo)
        }
        found => found,
    }
}

fn why_not_again(error: RunError) -> String {
    let why = match error {
        RunError::Command(CommandError::Interrupted { .. }) => {
            return "interrupted before it was known whether that recurs".to_owned();
        }
        RunError::Gather(GatherError::Failed { how, .. }) => format!("it {how}"),
        other => other.to_string(),
    };
    format!("the command did not run again to confirm: {why}")
}

fn what_recurred(
    measured: &[BenchmarkName],
    finding: &Finding,
    is_settled: bool,
    times: usize,
) -> String {
    let named = first_few(measured.iter().map(ToString::to_string));
    let what = match (finding.report.alerts.is_empty(), is_settled) {
        (false, _) => "what recurred is an alert",
        (true, true) => "none recurred",
        (true, false) => "what recurred is as rare as spikes here, so the next report decides",
    };
    let count = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!("{named} ran again {count}: {what}")
}

/// Benchmarks with an alert, or with a possible spike that would be one, unless silenced by the user. Exact measures
/// count only on request: repeating does not change them.
fn suspects(finding: &Finding, request: &Request, background: &Background) -> Vec<BenchmarkName> {
    let Finding { report, thresholds, .. } = finding;
    let is_alert = |verdict: &Verdict| {
        let is_it = |alert: &Alert| {
            alert.benchmark == verdict.benchmark && alert.measure == verdict.measure
        };
        report.alerts.iter().any(is_it)
    };
    let measures = report.metrics().map(|(_, _, measure, _)| measure.kind);
    let judged = measures.zip(report.verdicts.iter().zip(thresholds));
    let suspects = judged.filter(|(kind, (verdict, model))| {
        let counts = request.confirm.is_some() || *kind == MeasureKind::Noisy;
        let looks_bad = verdict.may_raise_alert(model.as_ref()) || is_alert(verdict);
        counts && looks_bad && !background.is_silenced(verdict)
    });
    let names: BTreeSet<_> = suspects.map(|(_, (it, _))| it.benchmark.clone()).collect();
    names.into_iter().collect()
}

/// The values of all iterations, folded to one each.
fn values(report: &Report) -> Vec<Repeat> {
    let results = Fold::Median.fold(report.iterations.clone());
    let mut repeats = Vec::new();
    for benchmark in results.benchmarks {
        for (measure, metric) in benchmark.metrics {
            repeats.push(Repeat {
                benchmark: benchmark.name.clone(),
                measure: measure.slug,
                value: metric.value,
            });
        }
    }
    repeats
}
