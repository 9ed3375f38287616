//! Sources of results: the command's output, files, sizes, times, stdin, and repeated runs.

use wingbeat_track::model::{Measure, Metric};

use crate::{
    ran::Ran,
    repository::{Repository, instructions, latency, metric, values},
};

/// A command line that prints 1, 2, 3 and so on, on successive runs.
const COUNTING: &str = "n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > n; \
    echo \"{\\\"a\\\": {\\\"latency\\\": {\\\"value\\\": $n}}}\"";

#[test]
fn iterations_and_folds() {
    let check = |flags: &[&str], expected: &[f64]| {
        let repository = Repository::new();
        repository.run(&[flags, &[COUNTING]].concat()).ended_with(0);
        assert_eq!(values(&repository.reports()[0]), expected, "{flags:?}");
    };
    check(&[], &[1.0]);
    check(&["--iter", "3"], &[1.0, 2.0, 3.0]);
    check(&["--iter", "4", "--fold", "mean"], &[2.5]);
}

#[test]
fn failing_runs_are_passed_over_if_that_is_allowed() {
    let repository = Repository::new();
    let odd_fail = format!("{COUNTING}; exit $((n % 2))");
    repository.run(&["--iter", "4", &odd_fail]).ended_with(1);
    assert_eq!(repository.reports(), []);
    repository.write("n", "0");
    let ran = repository
        .run(&["--iter", "4", "--allow-failure", "--format", "json", &odd_fail])
        .ended_with(0);
    assert_eq!(values(&repository.reports()[0]), [2.0, 4.0]);
    assert!(ran.remarks().contains("failed with status 1; the iteration was left out"));
    repository
        .run(&["--iter", "2", "--allow-failure", "exit 3"])
        .ended_with(1)
        .tells("`exit 3` failed with status 3 in all of 2 runs, and printed no result");
    assert_eq!(repository.reports().len(), 1);
    // If every run fails, their results are still stored.
    let line = format!("{}; exit 2", latency(7.0));
    let ran = repository.run(&["--allow-failure", "--format", "json", &line]).ended_with(0);
    ran.remarks_on("failed with status 2; the results that it printed are kept");
    assert_eq!(values(&repository.reports()[1]), [7.0]);
    repository.write("old.json", metric("latency", 8.0));
    let file = ["--allow-failure", "--file", "old.json"];
    repository.run(&[&file[..], &["exit 2"]].concat()).ended_with(1).tells("printed no result");
    let line = "cp old.json new.json; exit 2";
    repository.run(&["--allow-failure", "--file", "new.json", line]).ended_with(0);
    assert_eq!(values(&repository.reports()[2]), [8.0]);
}

#[test]
fn files() {
    let repository = Repository::new();
    for (name, value) in [("one.json", 1), ("two.json", 2)] {
        repository.write(name, format!("{{\"a\": {{\"latency\": {{\"value\": {value}}}}}}}"));
    }
    let two = ["--file", "one.json", "--file", "two.json"];
    repository.run(&two).ended_with(0);
    assert_eq!(values(&repository.reports()[0]), [1.0, 2.0], "each is an iteration");
    let line = format!("{} > one.json; echo no results", latency(5.0));
    let ran = repository.run(&["--format", "json", "--file", "one.json", &line]);
    assert_eq!((ran.code, ran.remarks().as_str()), (Some(0), ""));
    assert_eq!(values(&repository.reports()[1]), [5.0]);
    repository
        .run(&["--format", "json", "--file", "two.json", "true"])
        .ended_with(0)
        .remarks_on("two.json existed before");
    repository.run(&["--file", "three.json", "true"]).ended_with(1).tells("cannot read three.json");
}

/// Name, measure and value of each result of the newest report.
fn results(repository: &Repository) -> Vec<(String, String, f64)> {
    let mut report = repository.reports().pop().expect("a report");
    let benchmarks = report.iterations.swap_remove(0).benchmarks.into_iter();
    let told = |name: String, (measure, metric): &(Measure, Metric)| {
        (name, measure.slug.to_string(), metric.value)
    };
    benchmarks.map(|one| told(one.name.to_string(), &one.metrics[0])).collect()
}

#[test]
fn sizes_of_files_and_times_of_builds() {
    let repository = Repository::new();
    repository.write("binary", [0; 1000]);
    repository.write("sub/binary", [0; 10]);
    repository.run(&["--file-size", "binary", "--file-size", "sub/binary"]).ended_with(0);
    let size = |name: &str, bytes| (name.to_owned(), "file-size".to_owned(), bytes);
    assert_eq!(results(&repository), [size("binary", 1000.0), size("sub/binary", 10.0)]);
    // A size is exact: one more byte is a change.
    let grows = "head -c 1001 /dev/zero > binary";
    repository.run(&["--err", "--file-size", "binary", grows]).ended_with(1);
    // The run time is one of several results of the measure, and is not rounded.
    let line = format!("sleep 0.05; {}", latency(5.0));
    repository.run(&["--build-time", "--file-size", "binary", &line]).ended_with(0);
    let [printed, time, binary] = &results(&repository)[..] else { panic!("three results") };
    assert_eq!((&*printed.0, printed.2, binary), ("a", 5.0, &size("binary", 1001.0)));
    assert_eq!((&time.0, &*time.1), (&line, "build-time"));
    assert!((0.05..10.0).contains(&time.2) && (time.2 * 100.0).fract() != 0.0, "{}", time.2);
    // A line with a time, or half of a document, may be anything.
    for line in ["echo 'INFO built in: 5s'", "echo {; true"] {
        repository.run(&["--build-time", line]).ended_with(0);
        assert_eq!(results(&repository).len(), 1, "{line}");
    }
}

#[test]
fn what_magic_read_stands_in_the_head() {
    let repository = Repository::new();
    let read = |flags: &[&str]| {
        let line = "echo 'INFO request took: 12ms'";
        repository.run(&[flags, &[line]].concat()).ended_with(0).stdout
    };
    assert!(read(&[]).contains(", read as js_time\n"));
    assert!(!read(&["--adapter", "js_time"]).contains("read as"));
}

#[test]
fn a_value_outside_of_its_own_spread_is_told() {
    let repository = Repository::new();
    let check = |value: u32, expected: bool| {
        let line = format!(
            "echo '{{\"a\": {{\"latency\": {{\"value\": {value}, \"lower_value\": 6, \"upper_value\": 7}}}}}}'"
        );
        let ran = repository.run(&["--format", "json", &line]).ended_with(0);
        let is_told = ran.remarks().contains("outside of its own lower and upper value: a latency");
        assert_eq!(is_told, expected, "{value}");
    };
    check(5, true);
    check(6, false);
    check(8, true);
}

#[test]
fn stdin() {
    let repository = Repository::new();
    let run = |text: &str| Ran::with_stdin(repository.wingbeat(&["run"]), text);
    run(&metric("latency", 7.0)).ended_with(0);
    assert_eq!(values(&repository.reports()[0]), [7.0]);
    run(" \n").ended_with(1).tells("no results came on stdin: it is empty");
}

#[test]
fn arguments_or_a_line_for_a_shell() {
    let repository = Repository::new();
    repository.write("results", metric("latency", 1.0));
    let check = |arguments: &[&str], expected| {
        repository.run(arguments).ended_with(expected);
    };
    check(&["cat", "results"], 0);
    check(&["--", "cat", "results"], 0);
    check(&["cat results | cat"], 0);
    check(&["--exec", "cat results"], 1);
    check(&["--shell", "/bin/bash", "--flag", "-ec", "cat <(cat results)"], 0);
    // Flags after the command belong to the command.
    check(&["cat", "results", "--err"], 1);
    check(&["sh", "-c", &instructions(1), "--err", "--brnch"], 0);
    // The name of a program may have spaces.
    repository.write("a tool", format!("#!/bin/sh\n{}\n", instructions(1)));
    let tool = repository.path().join("a tool").display().to_string();
    check(&[&tool, "--err"], 0);
    check(&["--", &tool, "--err"], 0);
}

#[test]
fn many_runs_large_outputs_strange_bytes_and_an_output_that_ends_early() {
    let repository = Repository::new();
    repository.write("results", metric("latency", 1.0));
    repository.run(&["-q", "--iter", "1000", "cat", "results"]).ended_with(0);
    assert_eq!(repository.reports()[0].iterations.len(), 1000);
    let check = |line: &str| {
        let ran = repository.run(&["-q", line]).ended_with(0);
        assert_eq!(ran.stderr, "", "quiet");
        assert_eq!(values(repository.reports().last().expect("a report")), [12.0], "{line}");
    };
    let bench = "echo 'test a ... bench: 12 ns/iter (+/- 1)'";
    check(&format!("head -c 20000000 /dev/zero | tr '\\0' x; echo; {bench}"));
    check(&format!("yes hello | head -n 500000; {bench}"));
    check(&format!("printf '\\377\\376\\n'; {bench}"));
    check(&format!("{bench}; exec >&-; sleep 0.3"));
    repository
        .run(&[&format!("{bench}; exec >&-; sleep 0.3; exit 4")])
        .ended_with(1)
        .tells("failed with status 4");
}

#[test]
fn backdating() {
    let repository = Repository::new();
    for seconds in ["1700000000", "0"] {
        repository.run(&["--backdate", seconds, &instructions(1)]).ended_with(0);
    }
    let began = repository.reports().into_iter().map(|report| report.start_time.unix_timestamp());
    assert_eq!(began.collect::<Vec<_>>(), [0, 1_700_000_000]);
    repository.run(&["--backdate", "99999999999", &instructions(1)]).ended_with(1);
}

#[test]
fn what_cannot_be_meant_is_wrong_usage() {
    let repository = Repository::new();
    repository.write("results.json", metric("latency", 1.0));
    let check = |arguments: &[&str], expected: &str| {
        repository.run(arguments).ended_with(2).prints_nothing().tells(expected);
        assert!(!repository.store_path().exists(), "{arguments:?}");
    };
    let line = instructions(1);
    check(
        &["--hash", "zzz", &line],
        "--hash \"zzz\" is neither a commit in this repository nor a hash",
    );
    check(&["--hash", "abc", &line], "4 to 64 hexadecimal digits");
    let start = ["--start-point", "main", "--start-point-hash", "x y", &line];
    check(&start, "--start-point-hash \"x y\" is neither a commit");
    check(&["--iter", "2", "--file", "results.json"], "--iter 2 needs a command to run");
    check(&[&line, "--err"], "--err follows the command \"echo");
}

#[test]
fn a_commit_by_its_beginning_is_stored_whole() {
    let repository = Repository::new();
    let head = repository.git(&["rev-parse", "HEAD"]);
    let check = |hash: &str, expected: &str| {
        repository.run(&["--hash", hash, &instructions(1)]).ended_with(0);
        let report = repository.reports().pop().expect("a report");
        assert_eq!(report.hash.as_deref(), Some(expected));
    };
    check(&head[..9], &head);
    check("0123456789abcdef", "0123456789abcdef");
}
