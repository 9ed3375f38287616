//! The text: a line with the benchmark's name, and below it `METRIC: NEW|OLD (change)`, by tool.
//!
//! A run of several processes or threads has a section for each and one for their total, which counts.
//! Gungraun ends at the first benchmark that fails, after it has printed its name.

use super::measures::measure;
use crate::{
    adapter::{
        Adapter, AdapterError,
        line::{At, numbered},
        unit,
    },
    model::{BenchmarkName, Metric},
    results::Results,
};

/// A benchmark whose lines are being read.
struct Open {
    name: BenchmarkName,
    tool: String,
    has_callgrind: bool,
    /// Whether there was anything below its name.
    has_content: bool,
    /// Whether the lines are of a part, or of a comparison with another benchmark.
    is_passed_over: bool,
}

pub(super) fn parse(text: &str) -> Result<Results, AdapterError> {
    let mut results = Results::default();
    let mut open: Option<Open> = None;
    for (line, content) in numbered(text) {
        let at = At { adapter: Adapter::RustGungraun, line };
        let inner = content.strip_prefix("  ").or_else(|| content.strip_prefix("|-"));
        match (inner, &mut open) {
            (Some(inner), Some(open)) => {
                open.has_content = true;
                read(&mut results, at, open, inner.trim())?;
            }
            (None, _) if is_heading(content) => {
                end(&mut results, open.take());
                open = Some(Open {
                    name: at.name(content)?,
                    tool: String::new(),
                    has_callgrind: true,
                    has_content: false,
                    is_passed_over: false,
                });
            }
            (None, Some(open)) if open.has_content => open.is_passed_over = true,
            _ => {}
        }
    }
    end(&mut results, open);
    Ok(results)
}

/// A benchmark without anything below its name is one that failed.
fn end(results: &mut Results, open: Option<Open>) {
    if let Some(open) = open.filter(|open| !open.has_content) {
        results.fail(open.name, "it printed no result; the runner tells why on stderr");
    }
}

/// `file::group::benchmark`, and maybe ` id:arguments`.
fn is_heading(line: &str) -> bool {
    let path = line.split_once(' ').map_or(line, |(path, _)| path);
    let is_name = |part: &str| {
        let mut bytes = part.bytes();
        !part.is_empty()
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80)
    };
    path.split("::").count() >= 3 && path.split("::").all(is_name)
}

fn read(results: &mut Results, at: At, open: &mut Open, line: &str) -> Result<(), AdapterError> {
    if let Some(tool) = line.strip_prefix("======= ") {
        let tool = tool.trim_end_matches('=').trim().to_owned();
        // Callgrind always comes first.
        open.has_callgrind = match open.tool.is_empty() {
            true => tool == "CALLGRIND",
            false => open.has_callgrind,
        };
        open.tool = tool;
        open.is_passed_over = false;
    } else if let Some(section) = line.strip_prefix("## ") {
        open.is_passed_over = section.trim() != "Total";
    } else if line.starts_with("Comparison with ") {
        open.is_passed_over = true;
    } else if !open.is_passed_over
        && let Some((metric, values)) = line.split_once(':')
        && let Some((new, old)) = values.trim().split_once('|')
        && has_two_values(new, old)
    {
        let new = new.trim();
        // Only an older run has it.
        if matches!(new, "" | "N/A") {
            return Ok(());
        }
        let value = unit::number(new)
            .ok_or_else(|| at.malformed(format!("{metric} is {new:?}, which is no number")))?;
        let measure = measure(&open.tool, metric, open.has_callgrind);
        results.add(open.name.clone(), measure, Metric::new(value))?;
    }
    Ok(())
}

/// Whether these are the values of two runs. Titles of sections have bars and colons, too.
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

    fn rows(text: &str) -> Vec<(String, String, f64)> {
        let results = parse(text).expect(text);
        let benchmarks = results.benchmarks.iter();
        benchmarks
            .flat_map(|benchmark| {
                let row = |(measure, metric): &(crate::model::Measure, Metric)| {
                    (benchmark.name.to_string(), measure.slug.to_string(), metric.value)
                };
                benchmark.metrics.iter().map(row).collect::<Vec<_>>()
            })
            .collect()
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
    fn a_name_alone_is_a_failure() {
        let text =
            "a::b::c\n  Instructions:  5|5\na::b::d x:(3)\nnote: run with `RUST_BACKTRACE=1`\n";
        let results = parse(text).expect("results");
        assert_eq!(results.failures[0].name.as_str(), "a::b::d x:(3)");
        assert_eq!(results.benchmarks.len(), 1);
    }
}
