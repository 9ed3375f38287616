//! Measures again what looks bad: only what recurs is an alert.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{CommandError, Echo, Finding, Request, RunError, filter::only, fold::Fold, measure};
use crate::{
    judge::{self, Background, Repeat},
    model::{BenchmarkName, Report},
};

/// Runs the suspects again, up to as often as the request says, while one of them still looks bad.
pub(super) fn confirm(
    finding: &mut Finding,
    request: &Request,
    background: &Background,
    echo: &mut Echo<'_>,
) -> Result<(), RunError> {
    let suspects = suspects(finding);
    if suspects.is_empty() {
        return Ok(());
    }
    if request.source.command.is_none() {
        let remark = "results without a command cannot be measured again to confirm an alert";
        finding.remarks.push(remark.to_owned());
        return Ok(());
    }
    let mut again = request.clone();
    // What is folded of several runs is not compared with one.
    if request.fold.is_none() {
        again.iterations = 1;
        again.allow_failure = false;
    }
    again.source.command =
        again.source.command.map(|command| only(command, request.adapter, &suspects));
    let mut repeats = Vec::new();
    let mut confirmations = Vec::new();
    // What was measured before is to be stored all the same.
    request.interrupt.keep_results();
    for _ in 0..request.confirm {
        let measured = match measure(&again, None, echo) {
            Ok(measured) => measured,
            // What was found stands. It is only not known whether it recurs.
            Err(error) => {
                finding.remarks.push(why_not_again(error));
                break;
            }
        };
        let report = Report {
            uuid: Uuid::now_v7(),
            start_time: measured.start_time,
            end_time: measured.end_time,
            environment: measured.environment,
            verdicts: Vec::new(),
            alerts: Vec::new(),
            confirms: Some(finding.report.uuid),
            iterations: measured.iterations,
            ..finding.report.clone()
        };
        repeats.extend(values(&report));
        confirmations.push(report);
        let remarks = std::mem::take(&mut finding.remarks);
        let judged = judge::judge(finding.report.clone(), &request.rules, background, &repeats);
        *finding = Finding::of(judged, remarks);
        if self::suspects(finding).is_empty() {
            break;
        }
    }
    if !confirmations.is_empty() {
        let remark = what_recurred(&suspects, finding, confirmations.len());
        finding.remarks.push(remark);
        finding.confirmations = confirmations;
    }
    Ok(())
}

fn why_not_again(error: RunError) -> String {
    let why = match error {
        RunError::Command(CommandError::Interrupted { .. }) => {
            return "interrupted before it was known whether that recurs".to_owned();
        }
        RunError::Command(CommandError::Failed { how, .. }) => format!("it {how}"),
        other => other.to_string(),
    };
    format!("the command did not run again to confirm: {why}")
}

fn what_recurred(measured: &[BenchmarkName], finding: &Finding, times: usize) -> String {
    let named: Vec<&str> = measured.iter().map(BenchmarkName::as_str).collect();
    let what = match (finding.report.alerts.is_empty(), suspects(finding).is_empty()) {
        (false, _) => "what recurred is an alert",
        (true, true) => "none recurred",
        (true, false) => "what recurred is as rare as spikes here, so the next report decides",
    };
    let count = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!("{} ran again {count}: {what}", named.join(", "))
}

/// Benchmarks with an alert, or with a value that is none only because it may be a spike.
fn suspects(finding: &Finding) -> Vec<BenchmarkName> {
    let alerts = finding.report.alerts.iter().map(|alert| alert.benchmark.clone());
    let judged = finding.report.verdicts.iter().zip(&finding.thresholds);
    let suspects = judged.filter(|(verdict, model)| verdict.may_raise_alert(model.as_ref()));
    let names: BTreeSet<_> = alerts.chain(suspects.map(|(it, _)| it.benchmark.clone())).collect();
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
