//! Restricts a command to some of its benchmarks, if the harness supports filters.

use std::{borrow::Cow, collections::BTreeSet, ffi::OsString};

use crate::{adapter::Adapter, command::Benchmark, model::BenchmarkName};

/// Seconds for which Criterion runs a benchmark without analysis while it is profiled.
const CRITERION_PROFILE_S: &str = "3";

/// The same for Divan, whose benchmarks otherwise run for milliseconds. Other harnesses ignore it.
const DIVAN_MIN_TIME: &str = "DIVAN_MIN_TIME=3";

/// The command for those benchmarks only, if the harness supports filters; otherwise unchanged.
pub(super) fn only(command: Benchmark, adapter: Adapter, names: &[BenchmarkName]) -> Benchmark {
    let is = |known: Adapter| matches!(adapter, Adapter::Magic) || adapter == known;
    let Some(words) = as_words(&command) else { return command };
    let text: Vec<Cow<'_, str>> = words.iter().map(|word| word.to_string_lossy()).collect();
    let text: Vec<&str> = text.iter().map(AsRef::as_ref).collect();
    let found = match text[..] {
        _ if is(Adapter::RustCriterion) && is_criterion(&text) => Some(strings(
            &[&text[..], &["--", &any_of(names.iter().map(BenchmarkName::as_str))]].concat(),
        )),
        // Parts of a name are matched separately, so several benchmarks can only be filtered by the first part.
        ["go", "test", ref rest @ ..] if is(Adapter::GoBench) => {
            let functions = names.iter().map(|name| go_function(name.as_str()));
            let functions: Option<BTreeSet<&str>> = functions.collect();
            functions.and_then(|functions| go_test(rest, &any_of(functions.into_iter())))
        }
        [program, ref rest @ ..] if adapter == Adapter::CppGoogle => {
            google(program, rest, &any_of(names.iter().map(BenchmarkName::as_str)))
        }
        _ => None,
    };
    found.map_or(command, |words| Benchmark::Exec(words.into_iter().map(OsString::from).collect()))
}

/// A regular expression that matches exactly these.
fn any_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let escaped: Vec<String> = names.map(escape).collect();
    format!("^({})$", escaped.join("|"))
}

/// The function of a benchmark. `None` if the name has a package, which filters do not support.
fn go_function(name: &str) -> Option<&str> {
    let function = without_cpus(name).split('/').next().unwrap_or_default();
    function.starts_with("Benchmark").then_some(function)
}

/// Google's harness accepts only its own flags.
fn google(program: &str, rest: &[&str], filter: &str) -> Option<Vec<String>> {
    let is_harness = rest.iter().all(|word| word.starts_with("--benchmark"));
    let filter = format!("--benchmark_filter={filter}");
    is_harness.then(|| strings(&[&[program], rest, &[&filter]].concat()))
}

/// Whether this is `cargo bench` of specific benches without arguments for them, which may all take a filter.
/// Criterion's is a regular expression; libtest's would search for the literal text, and find nothing.
fn is_criterion(words: &[&str]) -> bool {
    words.starts_with(&["cargo", "bench"]) && words.contains(&"--bench") && !words.contains(&"--")
}

/// Escapes a name for a regular expression.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The command for a single benchmark. `None` if the harness has no known filter.
pub(super) fn one(
    command: &Benchmark,
    adapter: Adapter,
    name: &BenchmarkName,
) -> Option<Benchmark> {
    let words = as_words(command)?;
    let text: Vec<Cow<'_, str>> = words.iter().map(|word| word.to_string_lossy()).collect();
    let text: Vec<&str> = text.iter().map(AsRef::as_ref).collect();
    let is = |known: &[Adapter]| adapter == Adapter::Magic || known.contains(&adapter);
    let found = match text[..] {
        ["cargo", "bench", ref rest @ ..]
            if is(&[Adapter::RustBench, Adapter::RustCriterion, Adapter::RustDivan]) =>
        {
            cargo_bench(rest, adapter, name.as_str())
        }
        ["go", "test", ref rest @ ..] if is(&[Adapter::GoBench]) => {
            let parts = without_cpus(name.as_str()).split('/');
            let parts: Vec<_> = parts.map(|part| format!("^{}$", escape(part))).collect();
            go_test(rest, &parts.join("/"))?
        }
        [program, ref rest @ ..] if adapter == Adapter::CppGoogle => {
            google(program, rest, &format!("^{}$", escape(name.as_str())))?
        }
        // It names benchmarks by their commands.
        ["hyperfine", ref rest @ ..] if is(&[Adapter::ShellHyperfine]) => {
            let is_named = rest.iter().any(|word| matches!(*word, "-n" | "--command-name"));
            let line = Benchmark::Shell {
                shell: "/bin/sh".into(),
                flag: "-c".into(),
                line: name.as_str().into(),
            };
            let known = rest.contains(&name.as_str()) && !is_named;
            return known.then(|| as_words(&line).map_or(line, Benchmark::Exec));
        }
        _ => return None,
    };
    Some(Benchmark::Exec(found.into_iter().map(OsString::from).collect()))
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// libtest, Criterion and Divan take `--exact NAME`.
fn cargo_bench(rest: &[&str], adapter: Adapter, name: &str) -> Vec<String> {
    let split = rest.iter().position(|word| *word == "--");
    let (cargo, own) = rest.split_at(split.unwrap_or(rest.len()));
    let own = own.get(1..).unwrap_or_default();
    let mut words = strings(&[&["cargo", "bench"], cargo, &["--"]].concat());
    words.extend(
        own.iter()
            .enumerate()
            .filter(|(at, _)| !is_filter(own, *at))
            .map(|(_, word)| (*word).to_owned()),
    );
    // Other harnesses reject it, including a library's own tests, unless the arguments exclude those.
    let excludes_others = cargo.contains(&"--bench")
        || own.iter().any(|word| CRITERION_ONLY.iter().any(|flag| word.starts_with(flag)));
    if adapter == Adapter::RustCriterion && excludes_others {
        words.extend(strings(&["--profile-time", CRITERION_PROFILE_S]));
    }
    words.extend(strings(&["--exact", name]));
    if matches!(adapter, Adapter::Magic | Adapter::RustDivan) {
        words.splice(0..0, strings(&["env", DIVAN_MIN_TIME]));
    }
    words
}

/// Flags of Criterion only.
const CRITERION_ONLY: [&str; 4] =
    ["--sample-size", "--measurement-time", "--warm-up-time", "--nresamples"];

/// Harness flags without a value.
const SWITCHES: [&str; 12] = [
    "--bench",
    "--discard-baseline",
    "--exact",
    "--ignored",
    "--include-ignored",
    "--list",
    "--nocapture",
    "--noplot",
    "--quick",
    "--quiet",
    "--test",
    "--verbose",
];

/// Whether a word is a filter, rather than a flag or its value.
fn is_filter(words: &[&str], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    let is_value = before.is_some_and(|before| {
        before.starts_with("--") && !before.contains('=') && !SWITCHES.contains(before)
    });
    words.get(at).is_some_and(|word| !word.starts_with('-') || *word == "--exact") && !is_value
}

/// A name of `go test` without the number of CPUs.
fn without_cpus(name: &str) -> &str {
    name.rsplit_once('-').filter(|(_, cpus)| is_number(cpus)).map_or(name, |it| it.0)
}

/// The value of `-bench` is a regular expression for each part of a name. `None` without that flag.
fn go_test(rest: &[&str], filter: &str) -> Option<Vec<String>> {
    let mut words = strings(&["go", "test", "-run=^$"]);
    let mut has_filter = false;
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix("-bench").or_else(|| word.strip_prefix("--bench")) {
            Some("") => {
                rest.next();
                words.extend([(*word).to_owned(), filter.to_owned()]);
                has_filter = true;
            }
            Some(value) if value.starts_with('=') => {
                words.push(format!("-bench={filter}"));
                has_filter = true;
            }
            _ if word.starts_with("-run=") => {}
            _ => words.push((*word).to_owned()),
        }
    }
    has_filter.then_some(words)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The words of a command that a shell would not change.
fn as_words(command: &Benchmark) -> Option<Vec<OsString>> {
    let line = match command {
        Benchmark::Exec(words) => return Some(words.clone()),
        Benchmark::Shell { line, .. } => line.to_str()?,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -_./:,@+^".contains(c) || !c.is_ascii();
    let words: Vec<OsString> =
        line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
    (line.chars().all(|c| is_plain(c) || c == '=') && !words.is_empty())
        .then_some(words)
        // An assignment before the program sets a variable.
        .filter(|words| words.first().is_some_and(|word| !word.to_string_lossy().contains('=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Benchmark {
        Benchmark::Exec(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn filters_where_the_harness_takes_one() {
        let named = |names: &[&str], given: &[&str], adapter, expected: &[&str]| {
            let names = names.iter().map(|name| BenchmarkName::new(*name).expect("a name"));
            assert_eq!(only(words(given), adapter, &names.collect::<Vec<_>>()), words(expected));
        };
        let check = |given: &[&str], adapter, expected: &[&str]| {
            named(&["a/b (1)"], given, adapter, expected);
        };
        let criterion = ["cargo", "bench", "--bench", "x"];
        let filtered = ["cargo", "bench", "--bench", "x", "--", "^(a/b \\(1\\))$"];
        check(&criterion, Adapter::RustCriterion, &filtered);
        check(&criterion, Adapter::RustBench, &criterion);
        check(&["cargo", "bench"], Adapter::Magic, &["cargo", "bench"]);
        check(&["make", "bench"], Adapter::Magic, &["make", "bench"]);
        let own = ["cargo", "bench", "--bench", "x", "--", "b"];
        check(&own, Adapter::RustCriterion, &own);
        let go = ["go", "test", "-bench=.", "./..."];
        let filtered = ["go", "test", "-run=^$", "-bench=^(BenchmarkA|BenchmarkB)$", "./..."];
        named(&["BenchmarkB/x-8", "BenchmarkA", "BenchmarkB/y-8"], &go, Adapter::Magic, &filtered);
        named(&["pkg.BenchmarkB-8"], &go, Adapter::GoBench, &go);
        let google = ["./b", "--benchmark_min_time=1", "--benchmark_filter=^(BM_A/8|BM_B)$"];
        named(&["BM_A/8", "BM_B"], &google[..2], Adapter::CppGoogle, &google);
        named(&["BM_A/8"], &google[..2], Adapter::Magic, &google[..2]);
    }

    #[test]
    fn one_benchmark_by_its_name() {
        let check = |adapter, name: &str, given: &[&str], expected: Option<&[&str]>| {
            let name = BenchmarkName::new(name).expect("a name");
            assert_eq!(one(&words(given), adapter, &name), expected.map(words), "{given:?}");
        };
        let magic = Adapter::Magic;
        check(
            magic,
            "a/b",
            &["cargo", "bench"],
            Some(&["env", "DIVAN_MIN_TIME=3", "cargo", "bench", "--", "--exact", "a/b"]),
        );
        check(
            Adapter::RustCriterion,
            "sum",
            &["cargo", "bench", "-p", "x", "--", "--sample-size", "20"],
            Some(&[
                "cargo",
                "bench",
                "-p",
                "x",
                "--",
                "--sample-size",
                "20",
                "--profile-time",
                "3",
                "--exact",
                "sum",
            ]),
        );
        // An existing filter is broader, and is replaced.
        check(
            Adapter::RustBench,
            "m::parse_long",
            &["cargo", "bench", "--", "--quick", "parse"],
            Some(&["cargo", "bench", "--", "--quick", "--exact", "m::parse_long"]),
        );
        check(
            Adapter::GoBench,
            "BenchmarkJoin/10%-8",
            &["go", "test", "-bench=.", "./..."],
            Some(&["go", "test", "-run=^$", "-bench=^BenchmarkJoin$/^10%$", "./..."]),
        );
        check(
            Adapter::GoBench,
            "BenchmarkJoin",
            &["go", "test", "-bench", ".", "-count=5"],
            Some(&["go", "test", "-run=^$", "-bench", "^BenchmarkJoin$", "-count=5"]),
        );
        check(Adapter::GoBench, "BenchmarkJoin", &["go", "test"], None);
        check(
            Adapter::CppGoogle,
            "BM_Copy/8",
            &["./bench", "--benchmark_format=json"],
            Some(&["./bench", "--benchmark_format=json", "--benchmark_filter=^BM_Copy/8$"]),
        );
        check(Adapter::ShellHyperfine, "sleep 1", &["hyperfine", "sleep 1"], Some(&["sleep", "1"]));
        check(magic, "a", &["make", "bench"], None);
        check(Adapter::RustGungraun, "a", &["cargo", "bench"], None);
    }

    #[test]
    fn simple_lines_are_words() {
        let check = |line: &str, expected: Option<&[&str]>| {
            let shell =
                Benchmark::Shell { shell: "/bin/sh".into(), flag: "-c".into(), line: line.into() };
            assert_eq!(
                as_words(&shell),
                expected.map(|it| it.iter().map(OsString::from).collect())
            );
        };
        check("cargo  bench -p x", Some(&["cargo", "bench", "-p", "x"]));
        check("cargo build && cargo bench", None);
        check("X=1 cargo bench", None);
        check("echo \"a b\"", None);
        check("", None);
    }
}
