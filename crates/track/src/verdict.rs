//! Computes a verdict per metric from a report and its history. Pure: no clock, no store.
//!
//! Implements the part "A history of results" of `docs/judging-appendix.md`. The steps:
//!
//! 1. `history` selects the relevant points for each [`Series`].
//! 2. `formula` computes the boundaries of the seven tests of Bencher, and compares exact measures with their last
//!    value, `level` detects a new level.
//! 3. `auto` judges the noisy measures of the whole report together, since they share one false-positive rate and
//!    inform each other about extreme values. `samples` contributes where raw samples exist. `few_reports` handles those with
//!    fewer than five reports of history, for which nothing is decided.
//! 4. `common_shift` replaces alerts by one notice if most benchmarks moved alike.

mod auto;
mod common_shift;
mod few_reports;
mod formula;
mod history;
mod input;
mod level;
mod samples;

pub use input::{Decision, Look, ReportInput, Series, Settings};

use self::history::{Environments, History};
use crate::model::{
    MeasureKind, Notice, NoticeKind, NoticeText, Outcome, ReasonKind, ReasonNote, Verdict,
    threshold::Test,
};

fn empty(series: &Series<'_>) -> Verdict {
    let verdict =
        Verdict::new(series.iteration, series.benchmark.clone(), series.measure.slug.clone());
    Verdict { test: series.model.map(|model| model.test), ..verdict }
}

/// Judges all metrics of a report. The verdicts are in the order of the series.
pub fn decide(report: &ReportInput<'_>, settings: &Settings) -> Decision {
    let mut verdicts: Vec<Verdict> = report.series.iter().map(empty).collect();
    let environments = Environments::of(report);
    let mut noisy = Vec::new();
    let mut news: &[String] = &[];
    let levels = report.series.iter().filter(|series| level::is_asked(series)).count();
    for (index, (series, verdict)) in report.series.iter().zip(&mut verdicts).enumerate() {
        let Some(model) = series.model else {
            continue;
        };
        let history = History::pick(&environments, index, model);
        verdict.points = history.points.len();
        if news.is_empty() {
            news = history.news;
        }
        match (model.test, series.measure.kind) {
            (Test::Auto | Test::ChangePoint, MeasureKind::Exact) => {
                formula::judge_exact(&history, verdict);
            }
            (Test::Auto, MeasureKind::Noisy) => noisy.push(history),
            (Test::ChangePoint, MeasureKind::Noisy) => {
                level::judge(&history, &settings.share(levels), verdict);
            }
            _ => formula::judge(&history, verdict),
        }
    }
    let mut notices = Vec::new();
    if !news.is_empty() {
        let cause = format!("the environment is not that of the last report: {}", news.join(", "));
        let text = NoticeText { cause, ..NoticeText::default() };
        notices
            .push(Notice { kind: NoticeKind::EnvironmentChanged { changes: news.to_vec() }, text });
    }
    let (noisy, short): (Vec<_>, Vec<_>) =
        noisy.into_iter().partition(|history| history.suffices_in_reports(history::REPORTS_MIN));
    let looks = few_reports::judge(&short, settings, &mut verdicts);
    let judged = auto::judge(noisy, settings, &mut verdicts);
    let mut decision = Decision { verdicts, looks, notices, ..Decision::default() };
    common_shift::find(&judged, settings, &mut decision);
    for (series, verdict) in report.series.iter().zip(&mut decision.verdicts) {
        if series.is_ignored {
            verdict.outcome = Outcome::NotJudged;
            verdict.limit = None;
            verdict.reason = ReasonKind::OptedOut.into();
        }
        let is_bad = verdict.outcome <= Outcome::MaybeChanged && verdict.outcome != Outcome::Better;
        if is_bad && verdict.is_beside(series.model.as_ref()) {
            verdict.reason.notes.push(ReasonNote::SideWithoutLimit);
        }
    }
    let pairs = report.series.iter().zip(&decision.verdicts).enumerate();
    let raised = pairs.filter(|(_, (series, verdict))| verdict.raises_alert(series.model.as_ref()));
    decision.alerts = raised.map(|(index, _)| index).collect();
    for (index, hash) in judged.into_iter().filter_map(|it| Some((it.history.index, it.alert_of?)))
    {
        if let Ok(place) = decision.alerts.binary_search(&index) {
            decision.alerts.remove(place);
            let note = ReasonNote::AlertOfEarlier { commit: hash.clone() };
            decision.verdicts[index].reason.notes.push(note);
            decision.told.push((index, hash));
        }
    }
    decision
}
