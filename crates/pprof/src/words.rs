//! Explains a change in sentences.

use std::collections::HashSet;

use wingbeat_text::{grouped, share};

use crate::{
    explain::{Explanation, Guilty},
    scale::Change,
};

/// A sentence for each function that explains the change, or one on why there are none. `write` formats values of
/// the metric with their unit.
pub fn sentences(explanation: &Explanation, write: &dyn Fn(f64) -> String) -> Vec<String> {
    let guilty = explanation.guilty.iter().map(|guilty| line(guilty, explanation, write));
    let mut sentences: Vec<String> = guilty.collect();
    if sentences.is_empty() {
        sentences.push(nothing(explanation, write));
    }
    let named: HashSet<&String> = explanation.guilty.iter().map(|it| &it.function).collect();
    for matched in &explanation.matched {
        if named.contains(&matched.after) {
            let (before, after) = (&matched.before, &matched.after);
            let rule = "they differ in generic arguments only";
            sentences.push(format!("{before} and {after} are taken for one function: {rule}"));
        }
    }
    sentences
}

/// `1 ms → 3 ms, +2 ms ± 0.1 ms`: before, after, and [the difference](signed).
pub fn step(change: Change, write: &dyn Fn(f64) -> String) -> String {
    format!("{} → {}, {}", write(change.before), write(change.after), signed(change, write))
}

/// `+2 ms ± 0.1 ms`: the difference with twice its standard deviation, if any.
pub fn signed(change: Change, write: &dyn Fn(f64) -> String) -> String {
    let sign = if change.difference() < 0.0 { "−" } else { "+" };
    let value = write(change.difference().abs());
    match change.sd > 0.0 {
        true => format!("{sign}{value} ± {}", write(2.0 * change.sd)),
        false => format!("{sign}{value}"),
    }
}

/// `profiler::_oops (oops.rs:19) adds 460 ms of 460 ms, most of it in [sleeping]`, and for exact counts `fibonacci
/// (main.rs:42) adds 94 of 94 instructions; line 42: 0 before, 80 now`.
fn line(guilty: &Guilty, explanation: &Explanation, write: &dyn Fn(f64) -> String) -> String {
    let difference = guilty.change.difference();
    let all = explanation.metric.after - explanation.metric.before;
    let verb = if difference < 0.0 { "saves" } else { "adds" };
    let place = guilty.place.as_ref().map(|(place, _)| match place.is_gone {
        true => format!(" ({}:{}, which is gone)", short(&place.file), place.line),
        false => format!(" ({}:{})", short(&place.file), place.line),
    });
    let caller = guilty.caller.as_ref().map(|caller| match guilty.was_inlined {
        true => format!(", inlined into {caller} on one side,"),
        false => format!(", called by {caller},"),
    });
    let through = guilty.through.as_ref().map(|leaf| format!(", most of it in {leaf}"));
    let (part, whole) = (write(difference.abs()), write(all.abs()));
    let by_line = if explanation.is_exact { by_line(guilty, write) } else { None };
    // Other functions may save most of what one adds, so that it is no part of the whole.
    let (part, rest) = match difference.abs() > all.abs() && part != whole {
        true => {
            let verb = if difference < 0.0 { "add" } else { "save" };
            let rest = write((difference - all).abs());
            (part, format!("; other functions {verb} {rest}"))
        }
        false if explanation.is_exact => {
            (format!("{} of {whole}", without_unit(&part, &whole)), String::new())
        }
        false => (format!("{part} of {whole}"), String::new()),
    };
    format!(
        "{}{}{} {verb} {part}{}{}{rest}",
        guilty.function,
        place.unwrap_or_default(),
        caller.unwrap_or_default(),
        through.unwrap_or_default(),
        by_line.unwrap_or_default()
    )
}

/// `; line 42: 0 before, 80 now`.
fn by_line(guilty: &Guilty, write: &dyn Fn(f64) -> String) -> Option<String> {
    let (place, change) = guilty.place.as_ref()?;
    let [before, after] = [change.before, change.after].map(write);
    let (before, after) = (without_unit(&before, &after), without_unit(&after, &before));
    Some(format!("; line {}: {before} before, {after} now", place.line))
}

/// `94` of `94 instructions`, if the other value has the same unit.
fn without_unit(value: &str, other: &str) -> String {
    match (value.rsplit_once(' '), other.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
        _ => value.to_owned(),
    }
}

fn nothing(explanation: &Explanation, write: &dyn Fn(f64) -> String) -> String {
    let (before, after) = explanation.samples;
    let all = explanation.metric.after - explanation.metric.before;
    if explanation.is_exact {
        return match all == 0.0 {
            true => format!("both profiles have {}", write(explanation.metric.after)),
            false => format!("no function has a tenth of the change of {}", write(all.abs())),
        };
    }
    if all == 0.0 {
        return format!("the whole did not change: {}", write(explanation.metric.after));
    }
    if explanation.is_alike {
        let verb = if all < 0.0 { "faster" } else { "slower" };
        let all = write(all.abs());
        return format!(
            "no function explains the change of {all}: all became {verb} alike, as on a busy machine or another one"
        );
    }
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

/// The last two parts of a path, which distinguish files.
fn short(file: &str) -> &str {
    let mut parts = file.rmatch_indices('/').map(|(at, _)| at);
    match (parts.next(), parts.next()) {
        (Some(_), Some(second)) => &file[second + 1..],
        _ => file.trim_start_matches('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, compare, side::tests::side};

    fn check(before: &str, after: &str, metric: (f64, f64), expected: &[&str]) {
        let (before_sd, after_sd) = (metric.0 / 100.0, metric.1 / 100.0);
        let metric = Metric { before: metric.0, after: metric.1, before_sd, after_sd };
        let found = compare(&side(before), &side(after), metric).expect("comparable");
        assert_eq!(sentences(&found, &|value| format!("{value:.0} ns")), expected);
    }

    #[test]
    fn what_is_said() {
        check(
            "bench;run@3 1000",
            "bench;run@3 1000\nbench;run;_oops::{{closure}}@19;lib:sleep;state:[sleeping] 9000",
            (50.0, 500.0),
            &[
                "_oops (src/lib.rs:19), called by run, adds 450 ns of 450 ns, most of it in [sleeping]",
            ],
        );
        check(
            "bench;a 5000\nbench;b 5000",
            "bench;a 5000",
            (100.0, 50.0),
            &["b, called by bench, saves 50 ns of 50 ns"],
        );
        check(
            "bench;f::<u8> 1000\nbench;a 1000",
            "bench;f::<u16> 3000\nbench;a 1000",
            (100.0, 200.0),
            &[
                "f::<u16>, called by bench, adds 100 ns of 100 ns",
                "f::<u8> and f::<u16> are taken for one function: they differ in generic arguments only",
            ],
        );
        let nothing = "no function explains the change of 10 ns: 100 and 100 samples show changes of 19 ns (17.5 %) or more";
        check("bench;a 50\nbench;b 50", "bench;a 52\nbench;b 48", (100.0, 110.0), &[nothing]);
        let alike = "no function explains the change of 100 ns: all became slower alike, as on a busy machine or another one";
        check(
            "bench;a 5000\nbench;b 5000",
            "bench;a 10000\nbench;b 10000",
            (100.0, 200.0),
            &[alike],
        );
        check(
            "bench;a 5000\nbench;b 5000",
            "bench;a 9000\nbench;b 3000",
            (100.0, 120.0),
            &["a, called by bench, adds 40 ns; other functions save 20 ns"],
        );
        check(
            "bench;a 9000\nbench;b 3000",
            "bench;a 5000\nbench;b 5000",
            (120.0, 100.0),
            &["a, called by bench, saves 40 ns; other functions add 20 ns"],
        );
        // What chance adds to the whole change is still all of it.
        check(
            "bench;a 5000\nbench;b 50000",
            "bench;a 10010\nbench;b 50000",
            (550.0, 600.0),
            &["a, called by bench, adds 50 ns of 50 ns"],
        );
    }

    #[test]
    fn files_by_their_last_two_parts() {
        assert_eq!(short("/home/a/parser/src/lib.rs"), "src/lib.rs");
        assert_eq!(short("src/lib.rs"), "src/lib.rs");
        assert_eq!(short("/lib.rs"), "lib.rs");
    }
}
