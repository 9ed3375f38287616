//! Catch2's console reporter, versions 2 and 3. Long names are wrapped, and the values are listed vertically:
//!
//! ```text
//! a name that is very long indeed,
//! longer than the column                           5           587    237.735 us
//!                                         7.96593 ns    7.65894 ns    8.82896 ns
//!                                        0.571307 ns  0.0102442 ns   0.751956 ns
//! ```

use crate::adapter::prelude::*;
use crate::model::FailedBenchmark;

#[derive(Default)]
enum Place {
    #[default]
    Outside,
    /// Between two rules: the names of the test case and its sections.
    TestCase,
    /// Below the header of a table, which ends with a rule.
    Head,
    Table,
}

#[derive(Default)]
struct Row {
    name: String,
    /// The name from the line with the samples alone, as Bencher's client ignores the lines above.
    bencher_name: String,
    /// Whether the line with the samples has been read, so that the mean is next.
    has_samples: bool,
    mean_ns: Option<f64>,
}

#[derive(Default)]
struct Reader {
    place: Place,
    test_case: String,
    /// Whether the table has standard deviations (`--benchmark-no-analysis` omits them).
    has_deviation: bool,
    row: Row,
    results: Results,
    once: Once,
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut reader = Reader::default();
    let mut lines = lines(Adapter::CppCatch2, text).peekable();
    while let Some((at, text)) = lines.next() {
        if text.ends_with(": FAILED:") && !reader.test_case.is_empty() {
            let said = lines.peek().map_or("", |(_, next)| next.trim());
            let reason = format!("{} {said}", text.trim());
            let name = at.name(&in_one_line(&reader.test_case))?;
            // A benchmark that threw is already reported under its own name.
            let is_known = |failed: &FailedBenchmark| {
                let rest = failed.name.as_str().strip_prefix(name.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
            };
            if !reader.results.failures.iter().any(is_known) {
                reader.results.fail(name, reason);
            }
            reader.place = Place::Outside;
        }
        if let Err(error) = reader.read(at, text) {
            let name = format!("{}: {}", reader.test_case, reader.row.name);
            at.lose(&mut reader.results, &in_one_line(&name), error);
            reader.row = Row::default();
        }
    }
    Ok(reader.results)
}

impl Reader {
    fn read(&mut self, at: At, line: &str) -> Parsed<()> {
        if is_rule(line) {
            self.row = Row::default();
            self.place = match self.place {
                Place::TestCase => Place::Outside,
                Place::Head => Place::Table,
                Place::Outside | Place::Table => {
                    self.test_case.clear();
                    Place::TestCase
                }
            };
        } else if line.starts_with("benchmark name ") {
            self.place = Place::Head;
            // A test case runs once for each of its sections, and repeats everything outside of them.
            self.once.begin(at);
            self.has_deviation = false;
        } else {
            match self.place {
                Place::Outside => {}
                Place::TestCase => append(&mut self.test_case, line),
                Place::Head => self.has_deviation |= line.trim_start().starts_with("std dev"),
                Place::Table => self.row(at, line)?,
            }
        }
        Ok(())
    }

    fn row(&mut self, at: At, line: &str) -> Parsed<()> {
        if let Some((name, said)) = line.trim_end().split_once("Benchmark failed (") {
            append(&mut self.row.name, name);
            let name = self.name(at)?;
            self.results.fail(name, said.strip_suffix(')').unwrap_or(said));
            self.row = Row::default();
        } else if !self.row.has_samples {
            match samples_and_time(line) {
                Some((name, _)) if self.has_deviation => {
                    append(&mut self.row.name, name);
                    name.trim_end().clone_into(&mut self.row.bencher_name);
                    self.row.has_samples = true;
                }
                Some((name, mean_ns)) => {
                    append(&mut self.row.name, name);
                    self.add(at, Metric::new(mean_ns))?;
                }
                None if line.trim().is_empty() => self.row = Row::default(),
                None => append(&mut self.row.name, line),
            }
        } else if let Some((name, time_ns)) = three_times(line) {
            // Old versions continue the name in the lines of the values.
            append(&mut self.row.name, name);
            append(&mut self.row.bencher_name, name);
            match self.row.mean_ns {
                None => self.row.mean_ns = Some(time_ns),
                Some(mean) => {
                    self.add(at, Metric::new(mean).within(mean - time_ns, mean + time_ns))?;
                }
            }
        } else {
            let reason = format!("the times of {:?} are missing here", self.row.name);
            return Err(at.malformed(reason));
        }
        Ok(())
    }

    fn add(&mut self, at: At, metric: Metric) -> Parsed<()> {
        let name = self.name(at)?;
        let row = std::mem::take(&mut self.row);
        if !row.bencher_name.is_empty() {
            let theirs = format!("{}: {}", self.test_case, row.bencher_name);
            self.results.set_bencher_name(&name, &theirs);
        }
        let added = match metric.is_finite() {
            true => self.once.benchmark(at, &mut self.results, name.as_str()),
            false => Err(at.malformed(format!("its time {ODD_COMMA}"))),
        };
        let added = added.and_then(|it| Ok(it.add(&Measure::latency(), metric)?));
        added.unwrap_or_else(|error| at.lose(&mut self.results, name.as_str(), error));
        Ok(())
    }

    /// `Test case section: benchmark`
    fn name(&self, at: At) -> Parsed<BenchmarkName> {
        at.name(&in_one_line(&format!("{}: {}", self.test_case, self.row.name)))
    }
}

fn is_rule(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= 20 && line.bytes().all(|byte| byte == b'-')
}

fn append(name: &mut String, line: &str) {
    let line = line.trim();
    if !name.is_empty() && !line.is_empty() {
        name.push(' ');
    }
    name.push_str(line);
}

fn last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let at = text.rfind(char::is_whitespace).map_or(0, |space| space + 1);
    (at < text.len()).then(|| (&text[..at], &text[at..]))
}

/// Splits off a time at the end of a text, in nanoseconds.
fn last_time(text: &str) -> Option<(&str, f64)> {
    let (text, unit) = last_word(text)?;
    let (text, value) = last_word(text)?;
    Some((text, ungrouped(value)? * nanoseconds(unit)?))
}

/// Name and time of `name  100  208  7.1968 ms`.
fn samples_and_time(line: &str) -> Option<(&str, f64)> {
    let (rest, time_ns) = last_time(line)?;
    let (rest, iterations) = last_word(rest)?;
    let (rest, samples) = last_word(rest)?;
    iterations.parse::<u64>().ok()?;
    samples.parse::<u64>().ok()?;
    Some((rest, time_ns))
}

fn three_times(line: &str) -> Option<(&str, f64)> {
    let (rest, _) = last_time(line)?;
    let (rest, _) = last_time(rest)?;
    last_time(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::check_error;

    #[test]
    fn one_name_comes_once_in_a_table() {
        let rule = "-".repeat(79);
        let row = "a   100  208  7 ms \n   19 ns   11 ns   29 ns \n   1 ns   1 ns   2 ns \n\n";
        let head = format!("{rule}\ncase\n{rule}\nbenchmark name  samples\n   mean\n  std dev\n");
        let table = |rows: &str| format!("{head}{rule}\n{rows}");
        let results = parse(&[table(row), table(row)].concat(), None).expect("results");
        assert_eq!(results.benchmarks[0].metrics[0].1.samples, [19.0, 19.0]);
        let twice = parse(&table(&row.repeat(2)), None);
        check_error(twice, "\"case: a\" has a result in line 10 already");
    }

    #[test]
    fn lines_of_a_benchmark() {
        let check = |line, expected| assert_eq!(samples_and_time(line), expected, "{line:?}");
        check("fib 10    5   141    237.5 us ", Some(("fib 10    ", 237_500.0)));
        check("5   141    237.5 us ", Some(("", 237_500.0)));
        check("fib 10", None);
        check("a b c 1 us", None);
        check("", None);
        let check = |line, expected| assert_eq!(three_times(line), expected, "{line:?}");
        check("a name  344 ns   341 ns   349 ns ", Some(("a name  ", 344.0)));
        check("  1.5 ms   341 ns   349 ns", Some(("  ", 1.5e6)));
        check("341 ns   349 ns", None);
    }
}
