//! Parses series: CSV or JSON, detected by the first character. Pure.
//!
//! Either every value is valid, or the error names the first invalid position.

mod csv;

use std::{collections::HashSet, fmt, str};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

/// Contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    /// In the order of the file, with distinct names.
    pub(crate) series: Vec<Series>,
    /// Labels of the points (dates or commits), if the file has any. One for each point.
    pub(crate) labels: Option<Vec<String>>,
    /// Which columns were taken as labels, and why: one might have been intended as a series.
    pub(crate) remark: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// Non-empty name.
    pub(crate) name: String,
    /// Finite numbers, and NaN for gaps.
    pub(crate) values: Vec<f64>,
}

/// Why and where a file is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputError {
    /// Line and column, from 1. The column counts cells in CSV, and bytes elsewhere.
    pub(crate) place: Option<(u64, usize)>,
    pub(crate) problem: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for InputError {}

impl InputError {
    fn new(problem: impl Into<String>) -> Self {
        Self { place: None, problem: problem.into() }
    }

    fn at(line: u64, column: usize, problem: impl Into<String>) -> Self {
        Self { place: Some((line, column)), problem: problem.into() }
    }
}

/// Rejects series names that would break a table.
fn check_name(name: &str) -> Result<(), String> {
    match name.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("the name {name:?} of a series holds the control character {c:?}")),
        None => Ok(()),
    }
}

/// Parses CSV or JSON in UTF-8: all series, or if given `only` those of these names.
pub(crate) fn parse(bytes: &[u8], only: &[String]) -> Result<Input, InputError> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let lines = before.iter().filter(|&&byte| byte == b'\n').count();
        let in_line = before.iter().rev().take_while(|&&byte| byte != b'\n').count();
        InputError::at(lines as u64 + 1, in_line + 1, "this is not UTF-8 text")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut input = match text.trim_start().chars().next() {
        None => Err(InputError::new(
            "the file is empty; expected CSV with a header line, or JSON: {\"name\": [1.5, 1.7]}",
        )),
        Some('{' | '[') => parse_json(text),
        Some(_) => csv::parse(text, only),
    }?;
    input.series.retain(|series| only.is_empty() || only.contains(&series.name));
    match only.iter().find(|name| input.series.iter().all(|series| series.name != **name)) {
        Some(name) => Err(InputError::new(format!("no series is called {name:?}"))),
        None => Ok(input),
    }
}

/// Series in JSON: `{"name": [1.5, null, 1.7]}`.
fn parse_json(text: &str) -> Result<Input, InputError> {
    let Members(series) = serde_json::from_str(text).map_err(|error| {
        let told = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let problem = told.strip_suffix(&place).unwrap_or(&told);
        // The very first character has column 0.
        InputError::at(error.line() as u64, error.column().max(1), problem)
    })?;
    if series.is_empty() {
        return Err(InputError::new("it has no series: {} is empty"));
    }
    Ok(Input { series, labels: None, remark: None })
}

/// Members of the object in order, which a map would lose.
struct Members(Vec<Series>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an array of numbers for each series, {\"name\": [1.5, null]}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut series = Vec::new();
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if name.is_empty() {
                return Err(A::Error::custom("a series has no name"));
            }
            check_name(&name).map_err(A::Error::custom)?;
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("two series are called {name:?}")));
            }
            let values: Vec<Option<f64>> = map.next_value()?;
            let values = values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
            series.push(Series { name, values });
        }
        Ok(Members(series))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: f64 = f64::NAN;

    /// Names, values and labels as text, so that gaps compare equal.
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
        match parse(text.as_bytes(), &[]) {
            Ok(found) => assert_eq!(told(&found), told(&expected), "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        match parse(text.as_bytes(), &[]) {
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
        check("# of host a\r\n# by x\na,b\n1,2\n", None, &[("a", &[1.0]), ("b", &[2.0])]);
        check("#a,b\n1,2\n", None, &[("#a", &[1.0]), ("b", &[2.0])]);
        check("\u{feff}a, b\n1,2\n", None, &[("a", &[1.0]), ("b", &[2.0])]);
        check("\"p50, ms\",b\n1,2\n", None, &[("p50, ms", &[1.0]), ("b", &[2.0])]);
        check("a,b\n", None, &[("a", &[]), ("b", &[])]);
        check("a,b\n1,\n,NaN\nnull,N/A\n", None, &[("a", &[1.0, GAP, GAP]), ("b", &[GAP; 3])]);
    }

    #[test]
    fn csv_labels() {
        check("date,a\n2026-01-01,1\n,2\n", Some(&["2026-01-01", ""]), &[("a", &[1.0, 2.0])]);
        check(
            "commit,a\n1234567,1\nc0ffee1,2\n",
            Some(&["1234567", "c0ffee1"]),
            &[("a", &[1.0, 2.0])],
        );
        check(",a\n0,1\n1,2\n", Some(&["0", "1"]), &[("a", &[1.0, 2.0])]);
        check("time,a\n10,1\n20,2\n", None, &[("time", &[10.0, 20.0]), ("a", &[1.0, 2.0])]);
        // As in the examples of Apache Otava.
        let dates =
            "time;commit;branch;m\n2024.01.01 3:00:00 +0100;aaa0;main;15\n2024.01.02;;main;13\n";
        let labels = ["2024.01.01 3:00:00 +0100 aaa0 main", "2024.01.02 main"];
        check(dates, Some(&labels), &[("m", &[15.0, 13.0])]);
        // A hash may look like a number.
        let hashes =
            "time,commit,m\n1,1234567,3\nday 2,abc,3\nday 3,12e4567,3\nday 4,fe,3\nday 5,ad,3\n";
        let labels = ["1 1234567", "day 2 abc", "day 3 12e4567", "day 4 fe", "day 5 ad"];
        check(hashes, Some(&labels), &[("m", &[3.0; 5])]);
        check(
            "time,m\n1609466400,3\n1609552800,4\n",
            Some(&["1609466400", "1609552800"]),
            &[("m", &[3.0, 4.0])],
        );
        check(
            "t,m\n1609466400123,3\n1609552800124,4\n",
            Some(&["1609466400123", "1609552800124"]),
            &[("m", &[3.0, 4.0])],
        );
        // Decreasing sizes that look like times.
        let sizes: &[(&str, &[f64])] = &[("size", &[2e9, 1e9]), ("m", &[3.0, 4.0])];
        check("size,m\n2000000000,3\n1000000000,4\n", None, sizes);
    }

    #[test]
    fn only_the_series_that_are_asked_for() {
        let names = |text: &str, only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let input = parse(text.as_bytes(), &only)?;
            let labels = input.labels.map(|labels| labels.join(",")).into_iter();
            Ok(labels.chain(input.series.into_iter().map(|series| series.name)).collect::<Vec<_>>())
        };
        let check = |text: &str, only: &[&str], expected: Result<&[&str], &str>| {
            let found: Result<Vec<String>, InputError> = names(text, only);
            let found = found.map_err(|error| error.to_string());
            let expected =
                expected.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            assert_eq!(found, expected.map_err(str::to_owned), "{text} {only:?}");
        };
        let csv = "day,a,host,b\nmon,1,x,2\n";
        check(csv, &["b"], Ok(&["mon", "b"]));
        check(csv, &["b", "a"], Ok(&["mon", "a", "b"]));
        check(csv, &["c"], Err("no series is called \"c\""));
        check("time,a\n1609466400,1\n1609552800,2\n", &["time"], Ok(&["time"]));
        check("{\"a\": [1], \"b\": [2]}", &["b"], Ok(&["b"]));
        let wrong = "line 2, column 3: \"x\" is not a finite number; write a gap as an empty cell or \
                 NaN, or choose columns with --series NAME";
        check(csv, &["host"], Err(wrong));
    }

    #[test]
    fn labels_are_said() {
        let check = |text: &str, expected: Option<&str>| {
            let input = parse(text.as_bytes(), &[]).expect("series");
            assert_eq!(input.remark.as_deref(), expected, "{text}");
        };
        let typo = "column 1, \"latency\", is used as labels: \"1.5 ms\" in line 3 is not a number";
        check("latency,b\n1,1\n1.5 ms,2\n", Some(typo));
        check(",a\n0,1\n", Some("column 1 is used as labels: it has no name"));
        let times = "column 1, \"time\", is used as labels: its numbers rise as Unix times do; \
                 column 2, \"commit\", is used as labels: \"ab\" in line 2 is not a number";
        check("time,commit,a\n1609466400,ab,1\n1609552800,cd,1\n", Some(times));
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
        // Counts lines with any line ending, including empty ones.
        check_error("a,b\r\n1,2\r\n3,x\r\n", "line 3, column 2: \"x\" is not ");
        check_error("# a\r\n# b\r\na,b\r\n1,x\r\n", "line 4, column 2: \"x\" is not ");
        check_error("a,b\r1,2\r3,x\r", "line 3, column 2: \"x\" is not ");
        check_error("\n\r\na,b\n\n1,2\n\n\n\"3\",x\n", "line 8, column 2: \"x\" is not ");
        check_error("a,\"b\r\nc\"\r\n1,2\r\n", "line 1, column 2: the name \"b\\r\\nc\"");
        check_error("\r\na,a\r\n1,2\r\n", "line 2, column 2: two series are called \"a\"");
        // One odd cell is an error, even after labels.
        check_error(
            "day,a,b\nmon,1,1\ntue,2,1\nwed,3 ms,1\n",
            "line 4, column 2: \"3 ms\" is not ",
        );
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
        check_error(
            "{\"a\": 1}",
            "line 1, column 7: invalid type: integer `1`, expected a sequence",
        );
        check_error("{\"a\": [1], \"a\": [2]}", "line 1, column 14: two series are called \"a\"");
        check_error("{\"a\": [1e999]}", "line 1, column 12: number out of range");
        check_error("{\"a\": [1", "line 1, column 8: EOF while parsing a list");
        check_error("{\"a\": [1]} x", "line 1, column 12: trailing characters");
    }

    #[test]
    fn other_bytes_are_no_text() {
        let error = parse(b"a,b\n1,\xff\n", &[]).expect_err("no UTF-8");
        assert_eq!(error.to_string(), "line 2, column 3: this is not UTF-8 text");
    }
}
