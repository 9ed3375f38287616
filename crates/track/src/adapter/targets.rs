//! Cargo targets: each bench of each crate is a separate program, and two of them may use the same benchmark name.
//! Cargo prints the running target on stderr:
//!
//! ```text
//!      Running benches/parse.rs (target/release/deps/parse-0123456789abcdef)
//! ```
//!
//! A name that several targets have is prefixed with the target, as in `go_bench` with packages. All others stay as
//! they are. Prefixing all of them would restart every series when a crate gets a second bench.

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_text::{first_few, share};

use super::{Parsed, naming};
use crate::model::{BenchmarkName, Results};

/// Maximum number of lines read for all targets together. Each target is given all lines of the output, with those of
/// others emptied.
const LINES_MAX: usize = 1 << 26;

/// Maximum ratio between repetitions, beyond which they look like two benchmarks.
const APART: f64 = 1.5;

/// Maximum length of a name in bytes.
const NAME_MAX: usize = 1024;

/// Parses the output of each target with `parse`, and combines the results.
pub(super) fn parse(text: &str, parse: impl Fn(&str) -> Parsed) -> Parsed {
    let programs = programs(text);
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    if programs.len() < 2 || programs.len().saturating_mul(lines) > LINES_MAX {
        let mut results = parse(text)?;
        results.remarks.extend(far_apart(&results));
        return Ok(results);
    }
    let mut parts = Vec::new();
    for (at, label) in labels(&programs).into_iter().enumerate() {
        parts.push((label, parse(&of_program(text, &programs, at))?));
    }
    sum(parts)
}

/// The program announced by a line: `target/release/deps/parse-0123456789abcdef`.
fn running(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("Running ")?;
    let program = match rest.trim_end().strip_suffix(')') {
        Some(rest) => rest.rsplit_once('(')?.1,
        // With --verbose: `PROGRAM --bench`.
        None => rest.strip_prefix('`')?.split_whitespace().find(|word| word.contains("/deps/"))?,
    };
    let is_hash = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let (_, hash) = program.rsplit_once('-')?;
    (is_hash(hash) && program.contains("/deps/")).then_some(program)
}

/// The programs in order of their first run.
fn programs(text: &str) -> Vec<&str> {
    if memchr::memmem::find(text.as_bytes(), b"Running ").is_none() {
        return Vec::new();
    }
    let mut known = FxHashSet::default();
    text.lines().filter_map(running).filter(|program| known.insert(*program)).collect()
}

/// The name of each program without its hash. For targets of the same name in several crates, the second is `NAME#2`.
fn labels(programs: &[&str]) -> Vec<String> {
    let mut times: FxHashMap<&str, usize> = FxHashMap::default();
    let mut labels = Vec::with_capacity(programs.len());
    for program in programs {
        let file = program.rsplit_once('/').map_or(*program, |(_, file)| file);
        let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
        let times = times.entry(name).or_default();
        *times += 1;
        labels.push(if *times == 1 { name.to_owned() } else { format!("{name}#{times}") });
    }
    labels
}

/// The lines of one program, with those of others emptied to keep line numbers. Lines before the first target belong to
/// the first program.
fn of_program(text: &str, programs: &[&str], at: usize) -> String {
    let mut own = String::with_capacity(text.len() / programs.len());
    let mut is_own = at == 0;
    for line in text.split_inclusive('\n') {
        if let Some(program) = running(line) {
            is_own = program == programs[at];
        }
        own.push_str(if is_own { line } else { "\n" });
    }
    own
}

/// Combines the results of all targets.
fn sum(parts: Vec<(String, Results)>) -> Parsed {
    let names = |part: &Results| -> FxHashSet<BenchmarkName> {
        let failed = part.failures.iter().map(|failure| failure.name.clone());
        part.benchmarks.iter().map(|it| it.name.clone()).chain(failed).collect()
    };
    let pairs =
        parts.iter().flat_map(|(label, part)| names(part).into_iter().map(move |n| (n, label)));
    let ambiguous = naming::ambiguous(pairs);
    let mut sum = Results::default();
    for (label, part) in parts {
        let own_name = |name: &BenchmarkName| match ambiguous.contains(name) {
            true => {
                let mut own = format!("{label}::{name}");
                own.truncate(own.floor_char_boundary(NAME_MAX));
                BenchmarkName::new(own.trim_end()).unwrap_or_else(|_| name.clone())
            }
            false => name.clone(),
        };
        sum.take(part, own_name)?;
    }
    if !ambiguous.is_empty() {
        let mut names: Vec<String> = ambiguous.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        sum.remarks.push(format!(
            "several targets have benchmarks of the same name, which have their targets in front of it: {}",
            first_few(names.into_iter())
        ));
    }
    Ok(sum)
}

/// A remark about repetitions that differ so much that they may be two benchmarks of one name.
fn far_apart(results: &Results) -> Option<String> {
    let metrics = results.benchmarks.iter().flat_map(|it| it.metrics.iter().map(move |m| (it, m)));
    let apart = metrics.filter_map(|(benchmark, (measure, metric))| {
        let least = metric.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let most = metric.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least > 0.0 && most > APART * least).then(|| {
            format!("{} {} ({})", benchmark.name, measure.slug, share::change(most / least - 1.0))
        })
    });
    let apart: Vec<String> = apart.collect();
    (!apart.is_empty()).then(|| {
        format!(
            "one name, and results far apart: {}; if they are of two targets, let Cargo tell which one runs \
             (2>&1), or rename one",
            first_few(apart.into_iter())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Adapter, benchmarks};

    fn program(path: &str, exe: &str, output: &str) -> String {
        format!("     Running benches/{path} (target/release/deps/{exe})\n{output}\n")
    }

    fn criterion(name: &str, ns: u32) -> String {
        format!("{name}   time:   [{ns} ns {ns} ns {ns} ns]\n")
    }

    fn libtest(name: &str, ns: u32) -> String {
        format!("running 1 test\ntest {name} ... bench: {ns} ns/iter (+/- 0)\n\ntest result: ok.\n")
    }

    #[test]
    fn names_of_two_targets_stay_two() {
        let check = |adapter: Adapter, output: &str, expected: &[(&str, f64)], is_told: bool| {
            let results = adapter.parse(output.as_bytes(), None).expect(output);
            let found =
                results.benchmarks.iter().map(|it| (it.name.as_str(), it.metrics[0].1.value));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{output}");
            assert_eq!(!results.remarks.is_empty(), is_told, "{:?}", results.remarks);
        };
        let (a, b) = (criterion("parse", 10) + &criterion("own", 5), criterion("parse", 900));
        let two = program("a.rs", "a-01", &a) + &program("b.rs", "b-02", &b);
        let expected = [("a::parse", 10.0), ("own", 5.0), ("b::parse", 900.0)];
        check(Adapter::RustCriterion, &two, &expected, true);
        check(Adapter::Magic, &two.replace('\n', "\r\n"), &expected, true);
        let verbose = two.replace("benches/a.rs (", "`").replace("benches/b.rs (", "`");
        check(Adapter::RustCriterion, &verbose.replace(")\n", " --bench`\n"), &expected, true);
        // Two crates, each with a target of that name.
        let crates = program("a.rs", "a-01", &a) + &program("a.rs", "a-02", &b);
        let expected = [("a::parse", 10.0), ("own", 5.0), ("a#2::parse", 900.0)];
        check(Adapter::RustCriterion, &crates, &expected, true);
        // The same program again, and a name that only one target has.
        let again = program("a.rs", "a-01", &libtest("x", 10)).repeat(2)
            + &program("b.rs", "b-02", &libtest("y", 1));
        check(Adapter::RustBench, &again, &[("x", 10.0), ("y", 1.0)], false);
        let both = program("a.rs", "a-01", &libtest("x", 10))
            + &program("b.rs", "b-02", &libtest("x", 30));
        check(Adapter::RustBench, &both, &[("a::x", 10.0), ("b::x", 30.0)], true);
        // The target is unknown.
        check(Adapter::RustCriterion, &(a + &b), &[("parse", 455.0), ("own", 5.0)], true);
    }

    #[test]
    fn failures_and_lines_are_those_of_their_target() {
        let failed = "test x ... FAILED\n---- x stdout ----\nthread 'x' panicked at a.rs:1:\nno\n";
        let text = program("a.rs", "a-01", &libtest("x", 10)) + &program("b.rs", "b-02", failed);
        let results = Adapter::RustBench.parse(text.as_bytes(), None).expect("results");
        assert_eq!(benchmarks(&results), ["a::x"]);
        assert_eq!(results.failures[0].name.as_str(), "b::x");
        assert_eq!(results.bencher_name(&results.benchmarks[0].name), "x");
        let broken =
            ["a-01", "b-02"].map(|exe| program("x.rs", exe, "c   time:   [1,5 ns 2 ns 3 ns]"));
        let error =
            Adapter::RustCriterion.parse(broken.concat().as_bytes(), None).expect_err("comma");
        assert!(error.to_string().contains("line 2: \"1,5\" has a comma"), "{error}");
    }

    #[test]
    fn lines_of_cargo() {
        let check = |line, expected| assert_eq!(running(line), expected, "{line}");
        check(
            "     Running unittests src/lib.rs (target/release/deps/a-0f)",
            Some("target/release/deps/a-0f"),
        );
        check("     Running `/t/release/deps/a_b-0f --bench`", Some("/t/release/deps/a_b-0f"));
        for other in ["Running 3 tests", "Running x (1-2)", "Running `rustc a`", "   Doc-tests a"] {
            check(other, None);
        }
        assert_eq!(labels(&["deps/a-01", "deps/b-x-02", "deps/a-03"]), ["a", "b-x", "a#2"]);
    }
}
