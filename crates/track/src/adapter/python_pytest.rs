//! pytest-benchmark's `--benchmark-json`. pytest's console output, if given too, names failed tests: the file contains
//! their times as if they had passed.

use std::collections::HashSet;

use serde::Deserialize;

use crate::adapter::prelude::*;

/// The reason of a failure without a message from pytest.
const UNTOLD: &str = "pytest says that it failed";

const NS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct Report {
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Benchmark {
    fullname: String,
    group: Option<String>,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(deserialize_with = "required")]
    mean: Figure,
    stddev: Figure,
    median: Figure,
    iqr: Figure,
    /// Seconds per iteration, by round. Written only with `--benchmark-save-data` and by newer versions.
    #[serde(default)]
    data: Vec<Figure>,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let adapter = Adapter::PythonPytest;
    let reports =
        documents::<Report>(adapter, text, &["\"benchmarks\"", "\"fullname\"", "\"stats\""])?;
    let failures = failures(&reports.rest);
    let mut is_known = vec![false; failures.len()];
    let mut results = Results::default();
    for (at, report) in reports.found {
        let pairs = report.benchmarks.iter().map(|it| (it.fullname.clone(), it.group.clone()));
        let ambiguous = naming::ambiguous(pairs);
        let mut entries = Entries::default();
        for benchmark in report.benchmarks {
            let mut reason = None;
            for (failure, is_known) in failures.iter().zip(&mut is_known) {
                if let Some(said) = failure.of(&benchmark.fullname) {
                    *is_known = true;
                    reason = reason.filter(|known: &&str| !known.is_empty()).or(Some(said));
                }
            }
            let mut name = benchmark.fullname.clone();
            if ambiguous.contains(&name) {
                name = format!("{name} [{}]", benchmark.group.as_deref().unwrap_or("no group"));
            }
            at.read(&mut results, &name, |results, name| {
                entries.add(at, name.clone(), name.as_str())?;
                add(results, name, benchmark, reason, average.unwrap_or(Average::Mean))
            });
        }
    }
    // Without results the text may not be about benchmarks.
    if !results.is_empty() {
        let mut known = HashSet::new();
        let unknown = failures.iter().zip(is_known).filter(|(_, is_known)| !is_known);
        for (failure, _) in unknown.filter(|(failure, _)| failure.is_certain()) {
            if known.insert(failure.parts().0) {
                let at = At { adapter, line: 1 };
                let (name, reason) = failure.parts();
                let reason = if reason.is_empty() { UNTOLD } else { reason };
                results.fail(at.name(&in_one_line(name))?, reason);
            }
        }
    }
    Ok(results)
}

/// Adds a benchmark, as failed if there is a reason.
fn add(
    results: &mut Results,
    name: BenchmarkName,
    benchmark: Benchmark,
    reason: Option<&str>,
    average: Average,
) -> Parsed<()> {
    results.set_bencher_name(&name, &benchmark.fullname);
    if let Some(reason) = reason {
        results.fail(name, if reason.is_empty() { UNTOLD } else { reason });
        return Ok(());
    }
    match benchmark.stats.and_then(|stats| metric(stats, average)) {
        Some(metric) => results.add(name, Measure::latency(), metric)?,
        None => results.fail(name, "it has no time"),
    }
    Ok(())
}

fn metric(stats: Stats, average: Average) -> Option<Metric> {
    let (value, spread) = match average {
        Average::Mean => (stats.mean, stats.stddev),
        Average::Median => (stats.median, stats.iqr),
    };
    around(value, spread, &stats.data, NS_PER_SECOND)
}

/// A failed test, as pytest names it there.
enum Failure<'t> {
    /// `folder/file.py::Class::test[parameters]`, relative to pytest's working directory. In the short summary, the
    /// reason follows after ` - `, which parameters may contain, too.
    Id(&'t str),
    /// `Class.test[parameters]`, and the text below this heading.
    Title(&'t str, &'t str),
}

/// All failures in a text. A test may occur several times.
fn failures(text: &str) -> Vec<Failure<'_>> {
    let mut found: Vec<_> = text.lines().filter_map(id).map(Failure::Id).collect();
    let by_id = found.len();
    for (title, body) in sections(text) {
        let is_same = |failure: &Failure<'_>| {
            let (id, _) = failure.parts();
            id.split_once("::").is_some_and(|(_, test)| is_title_of(title, test))
        };
        if !found[..by_id].iter().any(is_same) {
            found.push(Failure::Title(title, body));
        }
    }
    found
}

impl<'t> Failure<'t> {
    /// The reason, if this is a failure of the test with this full name, which is relative to pytest's root folder.
    /// Empty if pytest gives none.
    fn of(&self, full_name: &str) -> Option<&'t str> {
        let (file, test) = full_name.split_once("::")?;
        match self {
            Self::Id(id) => {
                let (other, rest) = id.split_once("::")?;
                let rest = rest.strip_prefix(test).filter(|_| is_same_file(file, other))?;
                if rest.is_empty() { Some("") } else { rest.strip_prefix(" - ").map(str::trim) }
            }
            Self::Title(title, body) => {
                let base = file.rsplit('/').next().unwrap_or(file);
                // Two files may have a test of the same name. The traceback contains the file.
                let is_in_file = body.contains(base) || !body.contains(".py:");
                (is_title_of(title, test) && is_in_file).then(|| self.parts().1)
            }
        }
    }

    /// Whether it is a failure even if no benchmark has its name. With blanks before the file name, the line may be
    /// from a log about that file.
    fn is_certain(&self) -> bool {
        match self {
            Self::Id(id) => file_of(id).is_some_and(|file| !file.contains(char::is_whitespace)),
            Self::Title(..) => true,
        }
    }

    /// The test's name for a failure without a benchmark, and the reason, if pytest gives one.
    fn parts(&self) -> (&'t str, &'t str) {
        match self {
            Self::Id(id) => {
                let (id, reason) = id.split_once(" - ").unwrap_or((id, ""));
                (id.trim(), reason.trim())
            }
            Self::Title(title, body) => {
                let said = body.lines().find_map(|line| line.strip_prefix("E  "));
                (title, said.unwrap_or_default().trim())
            }
        }
    }
}

/// Extracts the text after `FAILED` in `FAILED file.py::test - reason` of the short summary, or the test in
/// `file.py::test FAILED [ 50%]` of `-v` and in `[gw0] [ 50%] FAILED file.py::test` of several processes.
fn id(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let of_process = line.strip_prefix("[gw").and_then(|rest| rest.split_once("%] "));
    let begin = of_process.map_or(line, |(_, rest)| rest);
    let told = ["FAILED ", "ERROR "].iter().find_map(|word| begin.strip_prefix(word));
    // Logs pad their levels: `ERROR    root:file.py:3 message`.
    let told = told.filter(|id| !id.starts_with(' '));
    let shown = match line.rsplit_once('[') {
        Some((shown, progress)) if progress.ends_with("%]") => shown.trim_end(),
        _ => line,
    };
    let verbose = || [" FAILED", " ERROR"].iter().find_map(|word| shown.strip_suffix(word));
    told.or_else(verbose).map(str::trim).filter(|id| file_of(id).is_some())
}

/// The file named by an id. Log lines begin and end alike, and may contain `::`.
fn file_of(id: &str) -> Option<&str> {
    id.split_once("::").map(|(file, _)| file).filter(|file| file.ends_with(".py"))
}

/// The headings in pytest's sections of failures and errors, with the text below each.
fn sections(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    let mut open: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let title = ["FAILURES", "ERRORS"].iter().any(|title| between(content, '=') == Some(title));
        let heading = between(content, '_').filter(|_| is_inside);
        let ends = content.starts_with("=====") || content.starts_with("----- benchmark");
        if (ends || heading.is_some())
            && let Some((title, from)) = open.take()
        {
            found.push((title, &text[from..at]));
        }
        if ends {
            is_inside = title;
        }
        at += line.len();
        // A file that could not be collected is not a test.
        open = match heading {
            Some(heading) if !heading.starts_with("ERROR collecting") => {
                let of = heading.strip_prefix("ERROR at ").and_then(|rest| rest.split_once(" of "));
                Some((of.map_or(heading, |(_, title)| title), at))
            }
            _ => open,
        };
    }
    if let Some((title, from)) = open {
        found.push((title, &text[from..]));
    }
    found
}

/// The words in the middle of a line padded with `fill` on both sides.
fn between(line: &str, fill: char) -> Option<&str> {
    let words = line.trim_start_matches(fill).strip_prefix(' ')?;
    let words = words.trim_end_matches(fill).strip_suffix(' ')?;
    let is_rule = words.chars().all(|c| c == fill || c == ' ');
    (line.starts_with(fill) && line.ends_with(fill) && !is_rule).then_some(words)
}

/// Whether `Class.test` is the title of `Class::test`. Parameters may contain either separator.
fn is_title_of(title: &str, test: &str) -> bool {
    let (path, parameters) = test.find('[').map_or((test, ""), |at| test.split_at(at));
    title.strip_suffix(parameters).is_some_and(|title| title == path.replace("::", "."))
}

/// Whether two paths refer to the same file, relative to different folders.
fn is_same_file(a: &str, b: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
        parts.map(str::to_owned).collect()
    };
    let (a, b) = (parts(a), parts(b));
    !a.is_empty() && !b.is_empty() && (a.ends_with(&b) || b.ends_with(&a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_failure() {
        let check = |text: &str, full_name: &str, expected: Option<&str>| {
            let all = failures(text);
            let found = all.iter().find_map(|failure| failure.of(full_name));
            assert_eq!(found, expected, "{text:?}: {full_name}");
        };
        check("FAILED b.py::t - no bees", "b.py::t", Some("no bees"));
        check("FAILED b.py::t", "b.py::t", Some(""));
        check("FAILED b.py::t - no", "b.py::tt", None);
        check("FAILED b.py::tt - no", "b.py::t", None);
        check("FAILED b.py::C::t[a - b] - no", "b.py::C::t[a - b]", Some("no"));
        check("ERROR b.py::t - no", "b.py::t", Some("no"));
        check("ERROR    root:b.py:3 no", "b.py::t", None);
        check("ERROR root: lost b.py::t", "b.py::t", None);
        check("FAILED my tests/b.py::t - no", "my tests/b.py::t", Some("no"));
        // Names in the file are relative to the root folder, those in the summary to pytest's working directory.
        check("FAILED b.py::t - no", "tests/b.py::t", Some("no"));
        check("FAILED ../tests/b.py::t - no", "tests/b.py::t", Some("no"));
        check("FAILED x/b.py::t - no", "y/b.py::t", None);
        check("FAILED bb.py::t - no", "b.py::t", None);
        for line in
            ["b.py::t FAILED", "b.py::t FAILED          [ 50%]", "[gw1] [ 50%] FAILED b.py::t "]
        {
            check(line, "b.py::t", Some(""));
        }
        check("b.py::t[x y] ERROR [ 50%]", "b.py::t[x y]", Some(""));
        check("b.py::t PASSED [ 50%]", "b.py::t", None);
    }

    #[test]
    fn lines_of_a_log() {
        for line in [
            "ERROR    root:db.py:3 connect to ::1 refused",
            "ERROR    root:db.py:3 lost x/b.py::t",
            "ERROR root: connect to ::1 refused",
            "db::connect ERROR",
            "db::connect FAILED [ 50%]",
        ] {
            assert!(failures(line).is_empty(), "{line}");
        }
        let check = |line: &str, expected| {
            assert_eq!(failures(line)[0].is_certain(), expected, "{line}");
        };
        check("ERROR root: lost b.py::t", false);
        check("lost b.py::t ERROR", false);
        check("FAILED x/b.py::t[a b] - no bees", true);
    }

    #[test]
    fn sections_without_a_summary() {
        let rule = "=".repeat(20);
        let text = format!(
            ".F\n{rule} FAILURES {rule}\n_____ C._t_[a::b] _____\n\n    def _t_():\n_ _ _ _ _ _\n>  f()\n\
             E   ValueError: no bees\n\nx/b.py:15: ValueError\n{rule} 1 failed {rule}\n___ other ___\n"
        );
        let all = failures(&text);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].parts(), ("C._t_[a::b]", "ValueError: no bees"));
        assert_eq!(all[0].of("x/b.py::C::_t_[a::b]"), Some("ValueError: no bees"));
        assert_eq!(all[0].of("x/c.py::C::_t_[a::b]"), None, "the traceback names another file");
        assert_eq!(all[0].of("x/b.py::_t_[a::b]"), None);
        let of_setup = format!("{rule} ERRORS {rule}\n_ ERROR at setup of t _\n{rule} x {rule}\n");
        assert_eq!(failures(&of_setup)[0].of("b.py::t"), Some(""));
        // The summary repeats it.
        let summary = format!("{text}FAILED x/b.py::C::_t_[a::b] - ValueError: no bees\n");
        assert_eq!(failures(&summary).len(), 1);
    }
}
