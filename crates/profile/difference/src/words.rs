//! What explains a change, in sentences.

use wingbeat_text::{grouped, share};

use crate::explain::{Explanation, Guilty};

/// At most a sentence for each function that explains the change, or one that says why none is named. `write` writes
/// values of the metric, with their unit.
pub fn sentences(explanation: &Explanation, write: &dyn Fn(f64) -> String) -> Vec<String> {
    let guilty = explanation.guilty.iter().map(|guilty| line(guilty, explanation, write));
    let mut sentences: Vec<String> = guilty.collect();
    if sentences.is_empty() {
        sentences.push(nothing(explanation, write));
    }
    let named = explanation.guilty.iter().flat_map(|guilty| &guilty.path);
    let named: std::collections::HashSet<_> = named.collect();
    for matched in &explanation.matched {
        if matched.rule.starts_with("generic") && named.contains(&matched.after) {
            let (before, after, rule) = (&matched.before, &matched.after, matched.rule);
            sentences.push(format!("{before} and {after} are taken for one function ({rule})"));
        }
    }
    sentences
}

/// `profiler::_oops (oops.rs:19) adds 460 ms of 460 ms, most of it in [sleeping]`.
pub fn line(guilty: &Guilty, explanation: &Explanation, write: &dyn Fn(f64) -> String) -> String {
    let difference = guilty.change.difference();
    let all = explanation.metric.after - explanation.metric.before;
    let verb = if difference < 0.0 { "saves" } else { "adds" };
    let place = guilty.place.as_ref().map(|(file, line)| format!(" ({}:{line})", short(file)));
    let through = guilty.through.as_ref().map(|leaf| format!(", most of it in {leaf}"));
    format!(
        "{}{} {verb} {} of {}{}",
        guilty.function,
        place.unwrap_or_default(),
        write(difference.abs()),
        write(all.abs()),
        through.unwrap_or_default()
    )
}

fn nothing(explanation: &Explanation, write: &dyn Fn(f64) -> String) -> String {
    let (before, after) = explanation.samples;
    let all = explanation.metric.after - explanation.metric.before;
    let visible = write(explanation.smallest_visible);
    let of = match explanation.metric.after.abs() > 0.0 {
        true => format!(
            " ({})",
            share::size(explanation.smallest_visible / explanation.metric.after.abs())
        ),
        false => String::new(),
    };
    format!(
        "no function explains the change of {}: {} and {} samples show changes of {visible}{of} or more",
        write(all.abs()),
        grouped(before.round()),
        grouped(after.round())
    )
}

/// The last two parts of a path, which is what tells files apart.
fn short(file: &str) -> &str {
    let mut parts = file.rmatch_indices('/').map(|(at, _)| at);
    match (parts.next(), parts.next()) {
        (Some(_), Some(second)) => &file[second + 1..],
        _ => file.trim_start_matches('/'),
    }
}
