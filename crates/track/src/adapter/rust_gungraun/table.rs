//! The text output: the benchmark's name, and below it `METRIC: NEW|OLD (change)`, by tool.
//!
//! A name ends with the benchmark's arguments as in the source, so it may have several lines: all up to the first
//! figures. A run of several processes or threads has a section for each, and one for their total, which is used.
//! Gungraun stops at the first benchmark that fails, after it has printed its name.

use super::measure;
use crate::adapter::prelude::*;

struct Open<'t> {
    at: At,
    /// The lines of its name, and then everything above its figures.
    lines: Vec<&'t str>,
    name_lines: usize,
    /// Whether the benchmark's own output is between its name and its figures.
    has_output: bool,
    /// Its name, once the first figures have been read.
    name: Option<BenchmarkName>,
    is_measured: bool,
    tool: String,
    has_callgrind: bool,
    /// Whether to skip the lines: they are of a part, or of a comparison with another benchmark.
    is_passed_over: bool,
}

pub(super) fn parse(text: &str) -> Parsed {
    let mut results = Results::default();
    let mut once = Once::default();
    let mut open: Option<Open<'_>> = None;
    for (at, content) in lines(Adapter::RustGungraun, text) {
        if is_heading(content) {
            end(&mut results, open.take())?;
            open = Some(Open {
                at,
                lines: vec![content],
                name_lines: 1,
                has_output: false,
                name: None,
                is_measured: false,
                tool: String::new(),
                has_callgrind: true,
                is_passed_over: false,
            });
            continue;
        }
        let Some(open) = &mut open else { continue };
        match content.strip_prefix("  ").or_else(|| content.strip_prefix("|-")).map(str::trim) {
            Some(inner) if open.name.is_some() || is_content(inner) => {
                if open.name.is_none() {
                    open.name = Some(open.named(&mut results)?);
                }
                if let Err(error) = read(&mut results, &mut once, at, open, inner) {
                    let name = open.name.as_ref().map_or("", BenchmarkName::as_str);
                    at.lose(&mut results, name, error);
                }
            }
            // The lines below a name are either Gungraun's messages before the figures, or an indented line of the
            // name, which another line follows.
            Some(_) => open.lines.push(content),
            None if open.name.is_some() => open.is_passed_over = true,
            None if content.starts_with("- end of std") => {
                open.has_output = true;
                open.name_lines = 1;
            }
            None if open.has_output => {}
            None => {
                open.lines.push(content);
                open.name_lines = open.lines.len();
            }
        }
    }
    end(&mut results, open)?;
    Ok(results)
}

impl Open<'_> {
    /// The name on one line, and Bencher's name: the lines up to the first indented one.
    fn named(&self, results: &mut Results) -> Parsed<BenchmarkName> {
        let lines = &self.lines[..self.name_lines];
        let name = self.at.name(&in_one_line(&lines.join("\n")))?;
        let theirs: Vec<_> =
            lines.iter().take_while(|line| !line.starts_with("  ")).copied().collect();
        results.set_bencher_name(&name, theirs.join("\n").trim());
        Ok(name)
    }
}

/// Ends a benchmark. Without figures it failed, and the text below is not part of its name.
fn end(results: &mut Results, open: Option<Open<'_>>) -> Parsed<()> {
    if let Some(open) = open.filter(|open| open.name.is_none()) {
        let name = open.at.name(open.lines[0])?;
        results.fail(name, "it printed no result; the runner gives the reason on stderr");
    }
    Ok(())
}

/// Whether Gungraun wrote a line below a name: a tool, a part, a figure.
fn is_content(line: &str) -> bool {
    line.starts_with("======= ") || line.starts_with("## ") || figure(line).is_some()
}

fn figure(line: &str) -> Option<(&str, &str, &str)> {
    let (title, values) = line.split_once(':')?;
    let (new, old) = values.trim().split_once('|')?;
    has_two_values(new, old).then_some((title, new.trim(), old))
}

/// `file::group::benchmark`, optionally followed by ` id:arguments`.
fn is_heading(line: &str) -> bool {
    let path = line.split_once(' ').map_or(line, |(path, _)| path);
    let is_name = |part: &str| {
        let mut bytes = part.bytes();
        !part.is_empty()
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80)
    };
    path.split("::").count() >= 3 && path.split("::").all(is_name)
}

fn read(
    results: &mut Results,
    once: &mut Once,
    at: At,
    open: &mut Open<'_>,
    line: &str,
) -> Parsed<()> {
    if let Some(tool) = line.strip_prefix("======= ") {
        let tool = tool.trim_end_matches('=').trim().to_owned();
        // Callgrind always comes first.
        if open.tool.is_empty() {
            open.has_callgrind = tool == "CALLGRIND";
        }
        open.tool = tool;
        open.is_passed_over = false;
    } else if let Some(section) = line.strip_prefix("## ") {
        open.is_passed_over = section.trim() != "Total";
    } else if line.starts_with("Comparison with ") {
        open.is_passed_over = true;
    } else if !open.is_passed_over
        && let Some((metric, new, _)) = figure(line)
        && let Some(name) = &open.name
    {
        // Only an older run has it.
        if matches!(new, "" | "N/A") {
            return Ok(());
        }
        let value = number(new)
            .ok_or_else(|| at.malformed(format!("{metric} is {new:?}, which is not a number")))?;
        let measure = measure(&open.tool, metric, open.has_callgrind);
        if !std::mem::replace(&mut open.is_measured, true) {
            once.benchmark(open.at, results, name.as_str())?;
        }
        results.add(name.clone(), measure, Metric::new(value))?;
    }
    Ok(())
}

/// Whether these are the values of two runs. Section titles contain bars and colons, too.
fn has_two_values(new: &str, old: &str) -> bool {
    let is_value = |text: &str| {
        text.is_empty()
            || text == "N/A"
            || text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
    };
    is_value(new.trim()) && is_value(old.split_ascii_whitespace().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{check_error, values};

    fn rows(text: &str) -> Vec<(String, String, f64)> {
        let results = parse(text).expect(text);
        let rows = results.benchmarks.iter().flat_map(|benchmark| {
            let row = |(slug, value): (&str, _)| (benchmark.name.to_string(), slug.into(), value);
            values(benchmark).into_iter().map(row).collect::<Vec<_>>()
        });
        rows.collect()
    }

    #[test]
    fn the_new_value_counts() {
        let check = |values: &str, expected: Option<f64>| {
            let found = rows(&format!("a::b::c x:(\"1 | 2\")\n  Instructions:      {values}\n"));
            assert_eq!(found.first().map(|row| row.2), expected, "{values}");
        };
        check("78|N/A          (*********)", Some(78.0));
        check("78|79           (-1.26582%) [-1.01282x]", Some(78.0));
        check("N/A|79          (*********)", None);
        check("12.5|13         (-1.2%)", Some(12.5));
    }

    #[test]
    fn totals_count_and_parts_do_not() {
        let text = "a::b::c\n  ## pid: 1 thread: 1 part: 1   |pid: 2 thread: 1 part: 1\n  Instructions:  1|1\n\
                    \x20 ## pid: 1 thread: 2 part: 1\n  Instructions:  2|2\n  ## Total\n  Instructions:  3|3 (No change)\n";
        assert_eq!(rows(text), [("a::b::c".to_owned(), "instructions".to_owned(), 3.0)]);
    }

    #[test]
    fn comparisons_are_passed_over() {
        let text = "a::b::c x:1\n  Instructions:  5|N/A (***)\n  Comparison with d x:1\n  Instructions:  5|7 (-2%)\n\
                    a::b::e\n  Instructions:  6|N/A (***)\n";
        assert_eq!(rows(text).len(), 2);
    }

    #[test]
    fn tools_are_not_mixed() {
        let text = "a::b::c\n  ======= CALLGRIND ====\n  Instructions:  5|5\n  ======= CACHEGRIND ====\n  \
                    Instructions:  900|900\n  ======= DHAT ===\n  Total bytes:  80|80\na::b::d\n  \
                    ======= CACHEGRIND ====\n  Instructions:  901|900\n";
        let slugs: Vec<_> = rows(text).into_iter().map(|row| row.1).collect();
        assert_eq!(
            slugs,
            ["instructions", "cachegrind-instructions", "total-bytes", "instructions"]
        );
    }

    #[test]
    fn names_of_several_lines_stay_whole() {
        let figures =
            |value| format!("  Instructions:  {value}|N/A  (***)\n  L1 Hits:  {value}|N/A (***)\n");
        let check = |name: &str, expected: &str, theirs: &str| {
            let text = format!("a::b::c id:one\n{}{name}\n{}", figures(1), figures(7));
            let results = parse(&text).expect(&text);
            let found: Vec<_> = results
                .benchmarks
                .iter()
                .map(|b| (b.name.as_str(), b.metrics[0].1.value))
                .collect();
            assert_eq!(found, [("a::b::c id:one", 1.0), (expected, 7.0)], "{text}");
            assert_eq!(results.bencher_name(&results.benchmarks[1].name), theirs, "{text}");
        };
        check("a::b::c id:two", "a::b::c id:two", "a::b::c id:two");
        check("a::b::c id:one\nand two", "a::b::c id:one and two", "a::b::c id:one\nand two");
        check("a::b::c id:one\r\nand two\r", "a::b::c id:one and two", "a::b::c id:one\nand two");
        check("a::b::c id:(\n    1,\n)", "a::b::c id:(     1, )", "a::b::c id:(");
        check("a::b::c id:two\n\nlines", "a::b::c id:two lines", "a::b::c id:two\n\nlines");
        let cargo = "a::b::c id:two\n{\"reason\":\"build-finished\",\"success\":true}";
        check(cargo, "a::b::c id:two", "a::b::c id:two");
        // The benchmark's own output is not part of its name.
        let printed = "a::b::c id:two\nhello\n- end of stdout\nwhy\n- end of stderr";
        check(printed, "a::b::c id:two", "a::b::c id:two");
    }

    #[test]
    fn one_name_of_two_benchmarks_is_refused() {
        let text = "a::b::c x:1\n  Instructions:  1|N/A (***)\na::b::c x:1\n  Instructions:  7|N/A (***)\n";
        check_error(parse(text), "line 3: \"a::b::c x:1\" has a result in line 1 already");
    }

    #[test]
    fn a_name_alone_is_a_failure() {
        let text =
            "a::b::c\n  Instructions:  5|5\na::b::d x:(3)\nnote: run with `RUST_BACKTRACE=1`\n";
        let results = parse(text).expect("results");
        assert_eq!(results.failures[0].name.as_str(), "a::b::d x:(3)");
        assert_eq!(results.benchmarks.len(), 1);
    }
}
