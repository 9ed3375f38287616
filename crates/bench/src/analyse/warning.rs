//! What a reader has to know before believing the figures.

use super::Raw;
use crate::{
    conditions,
    result::{Case, Notice},
};

/// Runs that a program takes to be called short: XDP_ABORTED, or the input refused at once.
const SHORT_INSTRUCTIONS: u64 = 12;

/// All warnings of a measurement.
pub(super) fn notices(raw: &Raw, cases: &[Case]) -> Vec<Notice> {
    // Where nothing was run, nothing disturbed it.
    if cases.is_empty() {
        return Vec::new();
    }
    let machine = conditions::warnings(&raw.before, &raw.after, raw.load.as_ref(), &raw.observed);
    let mut notices: Vec<Notice> = machine.iter().map(from_machine).collect();
    notices.extend(feeding(cases));
    notices.extend(aborted(cases));
    notices
}

fn from_machine(warning: &conditions::Warning) -> Notice {
    // The tag that serde gives the variant is the stable name.
    let id = serde_json::to_value(warning)
        .ok()
        .and_then(|value| Some(value.get("kind")?.as_str()?.to_owned()))
        .unwrap_or_default();
    Notice {
        id,
        cause: warning.cause(),
        effect: warning.effect().to_owned(),
        next_step: warning.next_step().to_owned(),
    }
}

/// Programs whose later runs are not like the first.
fn feeding(cases: &[Case]) -> Option<Notice> {
    let those: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let counts = case.counts.measured()?;
            let steady = counts.steady_instructions?;
            Some(format!("{} ({} → {steady})", case.name, counts.instructions))
        })
        .collect();
    (!those.is_empty()).then(|| Notice {
        id: "runs-feed-each-other".to_owned(),
        cause: format!(
            "runs change the maps that later runs find, so that a run in a batch executes another \
             number of instructions than the first: {}",
            listed(&those)
        ),
        effect: "exact counts are those of the first run, times are those of the later ones"
            .to_owned(),
        next_step: "give maps room (a full queue or hash takes the error path), or read them from \
                    another program while it is measured; see docs/bench.md"
            .to_owned(),
    })
}

/// Programs that ended early, and look fast for it.
fn aborted(cases: &[Case]) -> Option<Notice> {
    let is_short = |case: &&Case| {
        let is_aborted = case.outcome.return_name.as_deref() == Some("XDP_ABORTED");
        let counts = case.counts.measured();
        let is_short = counts.is_some_and(|counts| {
            counts.instructions <= SHORT_INSTRUCTIONS
                && counts.instructions * 4 < case.size.object_instructions as u64
        });
        is_aborted || is_short
    };
    let those: Vec<String> = cases.iter().filter(is_short).map(|case| case.name.clone()).collect();
    (!those.is_empty()).then(|| Notice {
        id: "ended-early".to_owned(),
        cause: format!("the program ended after its first checks: {}", listed(&those)),
        effect: "it looks fast because it does not do its work on this input".to_owned(),
        next_step:
            "give it a packet that it is meant for with --input, and say what it must return \
                    with --expect"
                .to_owned(),
    })
}

/// The first few, and how many more.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}
