//! `bpftool prog run`: `Return value: 2, duration (average): 45ns`, or the same as JSON (`-j`, `-p`).
//!
//! bpftool does not name the program, so the benchmark is called `bpftool prog run`, and several results in one output
//! are repetitions. The kernel reports whole nanoseconds, and 0 for program types that it does not time: that is a
//! failure, not a fast run.

use serde::Deserialize;

use crate::adapter::prelude::*;

const NAME: &str = "bpftool prog run";

#[derive(Deserialize)]
struct Run {
    retval: Option<i64>,
    duration: Option<f64>,
    error: Option<String>,
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    for (at, content) in lines(Adapter::Bpftool, text) {
        if let Some(rest) = content.strip_prefix("Return value: ") {
            let duration = rest.split_once(", duration (average): ").and_then(|(_, time)| {
                let digits = time.trim().strip_suffix("ns")?;
                number(digits.trim())
            });
            let broken = || at.malformed(format!("{rest:?} has no duration in nanoseconds"));
            add(&mut results, at, duration.ok_or_else(broken)?)?;
        } else if let Some(reason) = content.strip_prefix("Error: ") {
            results.fail(at.name(NAME)?, reason);
        }
    }
    for object in objects::<Run>(Adapter::Bpftool, text) {
        let at = object.at;
        match object.content {
            Ok(Run { retval: Some(_), duration: Some(duration), .. }) => {
                add(&mut results, at, duration)?;
            }
            Ok(Run { error: Some(reason), .. }) => results.fail(at.name(NAME)?, reason),
            _ => {}
        }
    }
    Ok(results)
}

fn add(results: &mut Results, at: At, duration_ns: f64) -> Parsed<()> {
    let name = at.name(NAME)?;
    if duration_ns > 0.0 {
        results.add(name, Measure::latency(), Metric::new(duration_ns))?;
    } else {
        results.fail(
            name,
            "the kernel reported a duration of 0: it does not time this type of program",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::check_error;

    fn check(text: &str, expected: Option<f64>) {
        let results = parse(text, None).expect(text);
        let found = results.benchmarks.first().map(|benchmark| benchmark.metrics[0].1.value);
        assert_eq!(found, expected, "{text}");
        assert_eq!(results.failures.len(), usize::from(expected.is_none()), "{text}");
    }

    #[test]
    fn runs_and_failures() {
        let run = |time| format!("Return value: 2, duration (average): {time}ns\n");
        check(&[run(40), run(50)].concat(), Some(45.0));
        check("Return value: 0, duration (average): 0ns", None);
        check("{\"retval\":0,\"duration\":0}", None);
        check("Error: failed to run program: Invalid argument", None);
        check("{\"error\":\"failed to run program\"}", None);
        check_error(parse("Return value: 2, duration (average): xns", None), "line 1");
    }
}
