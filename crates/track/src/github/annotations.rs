//! Workflow commands that show alerts on the run: `::error title=…::…`.

use wingbeat_text::{in_order, plural};

use super::Message;
use crate::{model::AlertStatus, output::Sentence};

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
