//! What `wingbeat bench` makes of an object file, program by program. docs/bench.md describes the JSON.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wingbeat_bpf_loader::spec::Spec;

use super::{
    super::ours::Wingbeat,
    veristat::{self, Ended},
};

/// What became of a program; the best that any of its cases came to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fate {
    /// It was not loaded, or did not run: why.
    Refused(String),
    /// It was loaded and run, and no time could be taken: why.
    Untimed(String),
    /// It was loaded; only its event can run it.
    Verified,
    Timed,
}

/// All that is to be known of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) programs: BTreeMap<String, Fate>,
    /// Why there was no result at all.
    pub(super) failure: Option<String>,
    pub(super) wall_s: f64,
    pub(super) is_late: bool,
}

/// Measures an object for `time`, and stops after `limit`. What was not reached within that time is
/// tried again with the time that wingbeat takes by itself.
pub(super) fn measure(
    wingbeat: &Wingbeat,
    object: &Path,
    time: Duration,
    limit: Duration,
) -> anyhow::Result<Measured> {
    let first = measure_for(wingbeat, object, Some(time), limit)?;
    let is_unreached = |fate: &Fate| matches!(fate, Fate::Refused(why) if why.contains(TOO_SHORT));
    if !first.programs.values().any(is_unreached) {
        return Ok(first);
    }
    let again = measure_for(wingbeat, object, None, limit)?;
    Ok(Measured { programs: again.programs, ..first })
}

/// What wingbeat says of a program that it did not come to.
const TOO_SHORT: &str = "the time ran out";

fn measure_for(
    wingbeat: &Wingbeat,
    object: &Path,
    time: Option<Duration>,
    limit: Duration,
) -> anyhow::Result<Measured> {
    let mut command = wingbeat.command();
    if let Some(time) = time {
        command.arg("--time").arg(format!("{}ms", time.as_millis()));
    }
    command.arg(object);
    let Ended { stdout, stderr, wall, is_late } = veristat::run(&command, limit)?;
    let wall_s = wall.as_secs_f64();
    if stdout.trim().is_empty() {
        let failure = without_path(&first_line(&stderr, is_late), object);
        let names = Spec::read(object).map(|spec| {
            spec.programs().iter().map(|program| program.name.clone()).collect::<Vec<_>>()
        });
        let fate = |name| (name, Fate::Refused(failure.clone()));
        let programs = names.unwrap_or_default().into_iter().map(fate).collect();
        return Ok(Measured { programs, failure: Some(failure), wall_s, is_late });
    }
    let mut programs = read(&stdout).with_context(|| format!("of {}", object.display()))?;
    for fate in programs.values_mut() {
        if let Fate::Refused(reason) | Fate::Untimed(reason) = fate {
            *reason = without_path(reason, object);
        }
    }
    Ok(Measured { programs, failure: None, wall_s, is_late })
}

/// The reason why there is no result.
fn first_line(stderr: &str, is_late: bool) -> String {
    let line = stderr.lines().find(|line| !line.trim().is_empty());
    match line {
        Some(line) => line.strip_prefix("error: ").unwrap_or(line).to_owned(),
        None if is_late => "it did not end, and printed nothing when it was interrupted".to_owned(),
        None => "it failed and said nothing".to_owned(),
    }
}

/// A message without the place of the object on this machine.
fn without_path(message: &str, object: &Path) -> String {
    let object = object.display().to_string();
    message.replace(&format!("{object}: "), "").replace(&object, "the object")
}

fn read(json: &str) -> anyhow::Result<BTreeMap<String, Fate>> {
    let report: Value = serde_json::from_str(json).context("wingbeat's JSON is not understood")?;
    let rows = |name: &str| {
        report[name].as_array().with_context(|| format!("wingbeat's JSON has no {name}"))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut programs: BTreeMap<String, Fate> = BTreeMap::new();
    let mut put = |name: String, fate: Fate| {
        let best = programs.entry(name).or_insert_with(|| fate.clone());
        if fate > *best {
            *best = fate;
        }
    };
    for case in rows("cases")? {
        let (measured, reason) = (&case["latency"]["measured"], &case["latency"]["unavailable"]);
        let fate = match measured["samples_ns"].as_array().map(Vec::len) {
            Some(0) => Fate::Untimed("there are no samples".to_owned()),
            Some(_) => Fate::Timed,
            None => Fate::Untimed(text(reason)),
        };
        put(text(&case["program"]), fate);
    }
    for row in rows("verified")? {
        put(text(&row["name"]), Fate::Verified);
    }
    for row in rows("failures")?.iter().chain(rows("skipped")?) {
        // `PROGRAM/INPUT`, where it is a case that failed.
        let name = text(&row["name"]);
        let program = name.split('/').next().unwrap_or(&name);
        put(program.to_owned(), Fate::Refused(text(&row["reason"])));
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_case_of_a_program_counts() {
        let check = |text: &str, expected: &[(&str, Fate)]| {
            let json = text.replace('\'', "\"");
            let expected = expected.iter().map(|(name, fate)| ((*name).to_owned(), fate.clone()));
            assert_eq!(read(&json).ok(), Some(expected.collect()), "{text}");
        };
        let none = "'failures': [], 'skipped': [], 'verified': []";
        let case = |latency: &str| format!("{{'program': 'a', 'more': 1, 'latency': {latency}}}");
        let timed = case("{'measured': {'samples_ns': [1.5], 'more': 0}}");
        let untimed = case("{'unavailable': 'no time'}");
        let empty = case("{'measured': {'samples_ns': []}}");
        check(&format!("{{'cases': [{timed}, {untimed}], {none}}}"), &[("a", Fate::Timed)]);
        let of_untimed = [("a", Fate::Untimed("no time".into()))];
        check(&format!("{{'cases': [{untimed}], {none}}}"), &of_untimed);
        let of_empty = [("a", Fate::Untimed("there are no samples".into()))];
        check(&format!("{{'cases': [{empty}], {none}}}"), &of_empty);
        let failures = "'failures': [{'name': 'a/x', 'reason': 'r'}, {'name': 'b', 'reason': 's'}]";
        let skipped = "'skipped': [{'name': 'c', 'reason': 't'}, {'name': 'd', 'reason': 'u'}]";
        let verified = "'verified': [{'name': 'c'}]";
        check(
            &format!("{{'cases': [{timed}], {failures}, {skipped}, {verified}}}"),
            &[
                ("a", Fate::Timed),
                ("b", Fate::Refused("s".into())),
                ("c", Fate::Verified),
                ("d", Fate::Refused("u".into())),
            ],
        );
        assert!(read("{}").is_err());
    }

    #[test]
    fn messages_do_not_tell_where_the_object_was() {
        let check = |message: &str, expected: &str| {
            assert_eq!(without_path(message, Path::new("a/b.o")), expected);
        };
        check("a/b.o: cannot link x: y", "cannot link x: y");
        check("a/b.o is damaged", "the object is damaged");
        check("cannot load x", "cannot load x");
    }

    #[test]
    fn without_a_result_the_first_line_tells_why() {
        let check = |stderr: &str, is_late, expected: &str| {
            assert_eq!(first_line(stderr, is_late), expected, "{stderr:?}");
        };
        check("\nerror: no such file\n  hint\n", false, "no such file");
        check("panicked\n", true, "panicked");
        check("", true, "it did not end, and printed nothing when it was interrupted");
        check("", false, "it failed and said nothing");
    }
}
