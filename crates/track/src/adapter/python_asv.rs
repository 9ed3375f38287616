//! airspeed velocity's console: `[ 50.00%] ··· NAME   1.2±0.3ms`, and the tables of parameterized benchmarks. The
//! layout of such a table depends on the width of the terminal; the names do not.

use std::{collections::HashMap, ops::Range};

use crate::adapter::prelude::*;

const FAILED: &str = "asv says that it failed";

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let lines: Vec<(usize, &str)> = numbered(text).collect();
    let mut results = Results::default();
    let mut commit = None;
    // Line and environment in which each name was reported.
    let mut places: HashMap<String, (usize, &str)> = HashMap::new();
    let mut environment = "";
    let mut add = |results: &mut Results, at: At, environment, name: &str, measure, metric| {
        let (line, first) = *places.entry(name.to_owned()).or_insert((at.line, environment));
        if first != environment {
            return Err(at.malformed(format!(
                "{name} has results for the environment {first} in line {line} and for {environment} here; run \
                 asv for one (--environment)"
            )));
        }
        Ok(results.add(at.name(name)?, measure, metric)?)
    };
    for (index, &(line, text)) in lines.iter().enumerate() {
        let at = At { adapter: Adapter::PythonAsv, line };
        let Some(told) = behind_marker(text) else { continue };
        if let Some(hash) = commit_of(told) {
            if commit.is_some_and(|known| known != hash) {
                return Err(at.malformed("results of several commits are in it; run asv for one"));
            }
            commit = Some(hash);
        }
        if let Some(name) = told.strip_prefix("Benchmarking ") {
            environment = name.trim();
        }
        let Some((name, value)) = told.split_once(char::is_whitespace) else { continue };
        let (name, value) = (name.trim(), value.trim());
        if value == "failed" {
            results.fail(at.name(name)?, reason(&lines[index + 1..]));
        } else if value == "ok" || value.ends_with(" failed") {
            // The table follows, after a marker of its own.
            let rows = rows(&lines[(index + 1).min(lines.len())..], behind_marker);
            for (parameters, value) in rows {
                let name_of_row = format!("{name} ({parameters})");
                if value == "failed" {
                    results.fail(at.name(&name_of_row)?, FAILED);
                } else if let Some((measure, metric)) = metric(name, &value) {
                    add(&mut results, at, environment, &name_of_row, measure, metric)?;
                }
            }
        } else if let Some((measure, metric)) = metric(name, value) {
            add(&mut results, at, environment, name, measure, metric)?;
        }
    }
    Ok(results)
}

/// The text after `[ 50.00%] ··· `. Terminals without such dots use hyphens.
fn behind_marker(line: &str) -> Option<&str> {
    let (share, rest) = line.strip_prefix('[')?.split_once("%] ")?;
    number(share.trim())?;
    let told = rest.trim_start_matches(['\u{b7}', '-']);
    (told.len() < rest.len()).then_some(told.strip_prefix(' ')?)
}

/// The hash in `For PROJECT commit HASH <BRANCH>:`.
fn commit_of(told: &str) -> Option<&str> {
    let (_, rest) = told.strip_prefix("For ")?.split_once(" commit ")?;
    rest.split([' ', ':']).next()
}

/// The text of a traceback's last line. The traceback ends at an empty line.
fn reason<'t>(lines: &[(usize, &'t str)]) -> &'t str {
    let Some(((_, first), rest)) = lines.split_first() else { return FAILED };
    if behind_marker(first).is_none() || !first.contains("Traceback") {
        return FAILED;
    }
    let traceback = rest.iter().map(|(_, line)| line.trim());
    let said =
        traceback.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("asv: "));
    said.last().unwrap_or(FAILED)
}

/// The measure and metric of a value. asv's name prefixes identify measures other than times.
fn metric(name: &str, value: &str) -> Option<(Measure, Metric)> {
    let value = value.strip_suffix(";...").unwrap_or(value);
    let end = value.rfind(|c: char| c.is_ascii_digit() || c == '.')? + 1;
    let (figures, unit) = value.split_at(end);
    // `~` replaces `±` on terminals without it.
    let (figure, spread) = match figures.split_once(['\u{b1}', '~']) {
        Some((figure, spread)) => (number(figure)?, Some(number(spread)?)),
        None => (number(figures)?, None),
    };
    let function = name.rsplit('.').next().unwrap_or(name);
    let (measure, factor) = match (nanoseconds(unit), size(unit)) {
        (Some(factor), _) => (Measure::latency(), factor),
        (None, Some(factor)) if function.starts_with("peakmem_") => (bytes("Peak Memory"), factor),
        (None, Some(factor)) if function.starts_with("mem_") => (bytes("Object Size"), factor),
        (None, Some(factor)) => (naming::counter("tracked value", "", Direction::Unknown), factor),
        _ => return None,
    };
    let ends = spread.map(|spread| ((figure - spread) * factor, (figure + spread) * factor));
    Some((measure, Metric::new(figure * factor).with_ends(ends)))
}

fn bytes(name: &'static str) -> Measure {
    Measure::custom(name, "bytes (B)", Direction::LowerIsBetter, MeasureKind::Noisy)
}

/// Factor of a size prefix, a power of 1,000.
fn size(suffix: &str) -> Option<f64> {
    let mut letters = suffix.chars();
    match (letters.next(), letters.next()) {
        (None, _) => Some(1.0),
        (Some(letter), None) => Some(1000_f64.powi(power("kMGT", letter)?)),
        _ => None,
    }
}

/// Parameters and value of each cell of the table at the beginning of the lines.
fn rows(lines: &[(usize, &str)], behind_marker: fn(&str) -> Option<&str>) -> Vec<(String, String)> {
    let is_rule_after_marker = lines
        .first()
        .and_then(|(_, line)| behind_marker(line))
        .is_some_and(|told| is_rule(told, '='));
    if !is_rule_after_marker {
        return Vec::new();
    }
    let lines: Vec<&str> = lines[1..]
        .iter()
        .map(|(_, line)| *line)
        .take_while(|line| !line.trim().is_empty())
        .collect();
    read(&lines).unwrap_or_default()
}

fn read(lines: &[&str]) -> Option<Vec<(String, String)>> {
    let thin = lines.iter().position(|line| is_rule(line, '-'))?;
    let thick: Vec<_> = (0..lines.len()).filter(|&at| is_rule(lines[at], '=')).collect();
    let columns = spans(lines[*thick.last()?]);
    let cells =
        |line: &str| -> Vec<String> { columns.iter().map(|span| cell(line, span)).collect() };
    let mut table = Vec::new();
    match thick[..] {
        // Every parameter has a column, and the values are in the last.
        [end] => {
            let names = cells(lines[thin.checked_sub(1)?]);
            for line in lines.get(thin + 1..end)? {
                let mut values = cells(line);
                let value = values.pop()?;
                table.push((parameters(names.iter().zip(&values)), value));
            }
        }
        // Some parameters are columns: their names are above all of their values.
        [header_end, end, ..] => {
            let groups = spans(lines[thin]);
            let in_rows = groups.len().checked_sub(1)?;
            let above = cell(lines[thin.checked_sub(1)?], groups.last()?);
            let header = cells(lines.get(thin + 1).filter(|_| thin + 1 < header_end)?);
            for line in lines.get(header_end + 1..end)? {
                let values = cells(line);
                let of_row = || header.iter().zip(&values).take(in_rows);
                for (title, value) in header.iter().zip(&values).skip(in_rows) {
                    let names: Vec<_> = above.split(" / ").map(str::to_owned).collect();
                    let of_column: Vec<_> = title.split(" / ").map(str::to_owned).collect();
                    let pairs = of_row().chain(names.iter().zip(&of_column));
                    table.push((parameters(pairs), value.clone()));
                }
            }
        }
        [] => return None,
    }
    Some(table)
}

/// `size=8, text=a b`
fn parameters<'t>(pairs: impl Iterator<Item = (&'t String, &'t String)>) -> String {
    pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

fn is_rule(line: &str, of: char) -> bool {
    let line = line.trim();
    line.starts_with(of) && line.chars().all(|c| c == of || c == ' ') && line.len() > 1
}

/// The columns under a rule, in characters.
fn spans(rule: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (at, _) in rule.chars().enumerate().filter(|(_, c)| *c != ' ') {
        match spans.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => spans.push(at..at + 1),
        }
    }
    spans
}

fn cell(line: &str, span: &Range<usize>) -> String {
    let cell: String = line.chars().skip(span.start).take(span.len()).collect();
    cell.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::check_error;

    #[test]
    fn values() {
        let check = |name: &str, value, expected: Option<(&str, f64, f64)>| {
            let found = metric(name, value).map(|(measure, metric)| {
                (measure.slug.as_str().to_owned(), metric.value, metric.upper_value.unwrap_or(0.0))
            });
            let expected = expected.map(|(slug, value, upper)| (slug.to_owned(), value, upper));
            assert_eq!(found, expected, "{value}");
        };
        check("a.time_b", "322±100ns", Some(("latency", 322.0, 422.0)));
        check("a.time_b", "1.5±0.5μs", Some(("latency", 1500.0, 2000.0)));
        check("a.time_b", "2~1ms", Some(("latency", 2e6, 3e6)));
        check("a.track_b", "2.00s", Some(("latency", 2e9, 0.0)));
        check("a.peakmem_b", "24.5M", Some(("peak-memory", 24.5e6, 0.0)));
        check("a.mem_b", "120", Some(("object-size", 120.0, 0.0)));
        check("a.track_b", "42;...", Some(("tracked-value", 42.0, 0.0)));
        check("a.time_b", "n/a", None);
        check("Building", "for existing-py3.11", None);
        check("a", "", None);
    }

    #[test]
    fn several_environments_do_not_mix() {
        let run = |environment, value| {
            format!("[ 0.00%] ·· Benchmarking {environment}\n[50.00%] ··· t.time_a  {value}±0ms\n")
        };
        let again = parse(&[run("py3.9", 1), run("py3.9", 2)].concat(), None).expect("repeated");
        assert_eq!(again.benchmarks[0].metrics[0].1.samples, [1e6, 2e6]);
        let error = parse(&[run("py3.9", 1), run("py3.11", 2)].concat(), None).expect_err("two");
        let expected =
            "line 4: t.time_a has results for the environment py3.9 in line 2 and for py3.11";
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn several_commits_do_not_mix() {
        let text = "[ 0.00%] · For hive commit 8ebeead3 <a>:\n[50.00%] ··· t.time_a  1±0ms\n\
                    [50.00%] · For hive commit 00000000 <b>:\n[99.00%] ··· t.time_a  2±0ms\n";
        check_error(parse(text, None), "line 3: results of several commits");
    }

    #[test]
    fn both_layouts_give_the_same_names() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let lines: Vec<_> = text.lines().collect();
            let found = read(&lines).unwrap_or_default();
            let found: Vec<_> = found.iter().map(|(p, v)| (p.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        };
        let wide = " --          text    \n ------ -------------\n  size   a b   größe \n \
                    ====== ===== =======\n   8     1ns    2ns  \n ====== ===== =======";
        let long = "   size   text        \n  ------ ------- -----\n    8     a b    1ns  \n    \
                    8    größe   2ns  \n  ====== ======= =====";
        let expected = [("size=8, text=a b", "1ns"), ("size=8, text=größe", "2ns")];
        check(wide, &expected);
        check(long, &expected);
        check("", &[]);
        check(" ===", &[]);
        check(" ---\n ===", &[]);
        check(" ---\n ===\n ===\n", &[]);
    }
}
