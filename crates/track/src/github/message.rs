//! The message for GitHub, from a local verdict or from a Bencher server's, and the workflow commands that show its
//! alerts on the run: `::error title=…::…`.

use wingbeat_text::{in_order, plural};

use crate::{
    model::{AlertStatus, Report},
    output::{self, Page, Sentence},
    remote::{self, Answer, human},
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
            |alert: &remote::RemoteAlert| Sentence::Alert(alert.status, human::sentence(alert));
        let failures = report
            .failures()
            .map(|(_, it)| Sentence::Failure(format!("{}: {}", it.name, it.reason)));
        let causes = answer.explained.iter().flat_map(output::explanations);
        let notices = answer.notices.iter().map(|it| Sentence::Notice(it.text.to_string()));
        Self {
            verdict: human::verdict(answer),
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

/// GitHub shows at most ten of each kind per step.
const SHOWN_MAX: usize = 10;

/// One line for each alert, failure and notice. Alerts are errors if they fail the run, otherwise warnings.
pub fn annotations(message: &Message, is_strict: bool) -> String {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for sentence in message.sentences.iter().cloned() {
        match sentence {
            Sentence::Alert(AlertStatus::Active, text) if is_strict => errors.push(("alert", text)),
            Sentence::Alert(AlertStatus::Active, text) => warnings.push(("alert", text)),
            Sentence::Alert(..) | Sentence::Source(..) => {}
            Sentence::Cause(text) => warnings.push(("cause", text)),
            Sentence::Doubt(outcome, text) if outcome.is_suspect() => {
                warnings.push(("may be a spike", text));
            }
            Sentence::Doubt(_, text) => warnings.push(("too noisy to judge", text)),
            Sentence::Failure(text) => warnings.push(("failed benchmark", text)),
            Sentence::Notice(text) => warnings.push(("notice", text)),
        }
    }
    let project = message.project.as_str();
    lines("error", errors, project) + &lines("warning", warnings, project)
}

/// At most ten lines. The last one states how many more there are.
fn lines(command: &str, mut told: Vec<(&'static str, String)>, project: &str) -> String {
    if told.len() > SHOWN_MAX {
        let more = told.len() - (SHOWN_MAX - 1);
        told.truncate(SHOWN_MAX - 1);
        told.push((
            "more",
            format!("{}; the job summary has all", plural(more, "more annotation")),
        ));
    }
    told.iter()
        .map(|(kind, text)| {
            let title = property(&format!("wingbeat {project}: {kind}"));
            format!("::{command} title={title}::{}\n", data(text))
        })
        .collect()
}

fn data(text: &str) -> String {
    in_order(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_escaped() {
        let check = |title: &str, text: &str, expected: &str| {
            let told = vec![("alert", text.to_owned())];
            assert_eq!(lines("error", told, title), expected);
        };
        check("p", "a::b, 5 %", "::error title=wingbeat p%3A alert::a::b, 5 %25\n");
        check("p", "a\u{202e}b", "::error title=wingbeat p%3A alert::a\\u202eb\n");
        check("a,b:c", "x\r\ny", "::error title=wingbeat a%2Cb%3Ac%3A alert::x%0D%0Ay\n");
    }

    #[test]
    fn ten_are_shown() {
        let check = |count: usize, expected: usize, last: &str| {
            let told = (0..count).map(|number| ("alert", number.to_string())).collect();
            let text = lines("warning", told, "p");
            assert_eq!(text.lines().count(), expected);
            assert!(text.lines().last().unwrap_or_default().ends_with(last), "{text}");
        };
        check(0, 0, "");
        check(10, 10, "::9");
        check(11, 10, "::2 more annotations; the job summary has all");
    }
}
