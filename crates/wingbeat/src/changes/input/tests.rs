//! Files that are understood, and the place of what is not.

use super::*;

const GAP: f64 = f64::NAN;

/// Names, values and labels, so that gaps compare equal.
fn told(input: &Input) -> String {
    let series = input.series.iter();
    let series = series.map(|Series { name, values }| format!("{name}: {values:?}"));
    let labels = input.labels.iter().map(|labels| format!("labels: {labels:?}"));
    labels.chain(series).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(text: &str, labels: Option<&[&str]>, series: &[(&str, &[f64])]) {
    let labels = labels.map(|labels| labels.iter().map(|&label| label.to_owned()).collect());
    let series = series
        .iter()
        .map(|(name, values)| Series { name: (*name).to_owned(), values: values.to_vec() });
    let expected = Input { labels, series: series.collect(), remark: None };
    match parse(text.as_bytes()) {
        Ok(found) => assert_eq!(told(&found), told(&expected), "{text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    match parse(text.as_bytes()) {
        Ok(found) => panic!("{text:?} was taken for {found:?}"),
        Err(error) => assert!(error.to_string().starts_with(expected), "{text:?}: {error}"),
    }
}

#[test]
fn csv_columns() {
    check("a\n1\n2.5\n", None, &[("a", &[1.0, 2.5])]);
    check("a,b\n1,2\n3,4", None, &[("a", &[1.0, 3.0]), ("b", &[2.0, 4.0])]);
    check("a;b\r\n1;2e3\r\n", None, &[("a", &[1.0]), ("b", &[2000.0])]);
    check("a\tb\n 1 \t-2\n", None, &[("a", &[1.0]), ("b", &[-2.0])]);
    check("\u{feff}a, b\n1,2\n", None, &[("a", &[1.0]), ("b", &[2.0])]);
    check("\"p50, ms\",b\n1,2\n", None, &[("p50, ms", &[1.0]), ("b", &[2.0])]);
    check("a,b\n", None, &[("a", &[]), ("b", &[])]);
    check("a,b\n1,\n,NaN\nnull,N/A\n", None, &[("a", &[1.0, GAP, GAP]), ("b", &[GAP; 3])]);
}

#[test]
fn csv_labels() {
    check("date,a\n2026-01-01,1\n,2\n", Some(&["2026-01-01", ""]), &[("a", &[1.0, 2.0])]);
    check("commit,a\n1234567,1\nc0ffee1,2\n", Some(&["1234567", "c0ffee1"]), &[("a", &[1.0, 2.0])]);
    check(",a\n0,1\n1,2\n", Some(&["0", "1"]), &[("a", &[1.0, 2.0])]);
    check("time,a\n10,1\n20,2\n", None, &[("time", &[10.0, 20.0]), ("a", &[1.0, 2.0])]);
}

#[test]
fn labels_are_said() {
    let check = |text: &str, expected: Option<&str>| {
        let input = parse(text.as_bytes()).expect("series");
        assert_eq!(input.remark.as_deref(), expected, "{text}");
    };
    let typo = "column 1, \"latency\", is used as labels: \"1.5 ms\" in line 3 is not a number";
    check("latency,b\n1,1\n1.5 ms,2\n", Some(typo));
    check(",a\n0,1\n", Some("column 1 has no name and is used as labels"));
    check("time,a\n10,1\n", None);
    check("{\"a\": [1]}", None);
}

#[test]
fn json_members_in_their_order() {
    check("{\"b\": [1, null, 2.5], \"a\": []}", None, &[("b", &[1.0, GAP, 2.5]), ("a", &[])]);
    check(" \n{\"a\": [-1e3]}\n", None, &[("a", &[-1000.0])]);
}

#[test]
fn errors_say_where() {
    check_error("", "the file is empty; ");
    check_error("\n \n", "the file is empty; ");
    check_error("a,b\n1,2\n3,x\n", "line 3, column 2: \"x\" is not a finite number; ");
    check_error("a\n1\ninf\n", "line 3, column 1: \"inf\" is not a finite number; ");
    check_error("day,a\nmon,1\ntue,1.5 ms\n", "line 3, column 2: \"1.5 ms\" is not ");
    check_error("a,b\n1,2\n3\n", "line 3, column 2: this line has 1 cell, the header line 2");
    check_error("a\n1\n3,4\n", "line 3, column 2: this line has 2 cells, the header line 1");
    check_error("1,2\n3,4\n", "line 1, column 1: the first line has numbers");
    check_error("a,b,a\n1,2,3\n", "line 1, column 3: two series are called \"a\"");
    check_error("a,,b\n1,2,3\n", "line 1, column 2: this series has no name");
    check_error("\"a\nb\",c\n1,2\n", "line 1, column 1: the name \"a\\nb\" of a series holds");
    check_error("{\"a\\nb\": [1]}", "line 1, column 7: the name \"a\\nb\" of a series holds");
    check_error("{}", "it has no series");
    check_error("[1, 2]", "line 1, column 1: invalid type: sequence, expected an object");
    check_error("{\"a\": [1,\n\"x\"]}", "line 2, column 3: invalid type: string \"x\"");
    check_error("{\"a\": 1}", "line 1, column 7: invalid type: integer `1`, expected a sequence");
    check_error("{\"a\": [1], \"a\": [2]}", "line 1, column 14: two series are called \"a\"");
    check_error("{\"a\": [1e999]}", "line 1, column 12: number out of range");
    check_error("{\"a\": [1", "line 1, column 8: EOF while parsing a list");
    check_error("{\"a\": [1]} x", "line 1, column 12: trailing characters");
}

#[test]
fn other_bytes_are_no_text() {
    let error = parse(b"a,b\n1,\xff\n").expect_err("no UTF-8");
    assert_eq!(error.to_string(), "line 2, column 3: this is not UTF-8 text");
}
