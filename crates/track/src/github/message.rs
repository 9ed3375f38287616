//! The message for GitHub, from a local verdict or from a Bencher server's.

use crate::{
    model::Report,
    output::{self, Page, Sentence},
    remote::{self, Answer, words},
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    pub project: String,
    pub testbed: String,
    /// Summary in one line.
    pub verdict: String,
    /// The full report, at most 65,535 bytes, with the marker at its end.
    pub markdown: String,
    /// Identifies the comment.
    pub marker: String,
    pub sentences: Vec<Sentence>,
    /// Number of alerts for which `--err` fails the run.
    pub alerts: u64,
    pub failures: usize,
    pub has_threshold: bool,
}

impl Message {
    /// From a report judged locally. `id` is the user's name for the comment (`--ci-id`).
    pub fn of_page(page: &Page<'_>, id: Option<&str>) -> Self {
        Self {
            verdict: output::verdict(page),
            markdown: output::markdown(page, id),
            sentences: output::sentences(page),
            alerts: page.report.active_alerts() as u64,
            has_threshold: page.thresholds.iter().any(Option::is_some),
            ..Self::of_report(page.report, id)
        }
    }

    /// From a report judged by a server. As there, dismissed alerts count, too.
    pub fn of_answer(answer: &Answer, report: &Report, id: Option<&str>) -> Self {
        let alert =
            |alert: &remote::RemoteAlert| Sentence::Alert(alert.status, words::alert(alert));
        let failures = report
            .failures()
            .map(|(_, it)| Sentence::Failure(format!("{}: {}", it.name, it.reason)));
        let causes = answer.explained.iter().flat_map(output::explanations);
        let notices = answer.notices.iter().map(|it| Sentence::Notice(it.text.to_string()));
        Self {
            verdict: words::verdict(answer),
            markdown: remote::markdown(answer, report, id),
            sentences: answer
                .alerts
                .iter()
                .map(alert)
                .chain(causes)
                .chain(failures)
                .chain(notices)
                .collect(),
            alerts: answer.alerts_total,
            has_threshold: answer.judged > 0,
            ..Self::of_report(report, id)
        }
    }

    /// The parts that do not depend on who judged.
    fn of_report(report: &Report, id: Option<&str>) -> Self {
        Self {
            project: report.project.to_string(),
            testbed: report.testbed.to_string(),
            marker: output::marker(report, id),
            failures: report.failures().count(),
            ..Self::default()
        }
    }
}
