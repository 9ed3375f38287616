//! Divan: a tree of names, with the columns fastest, slowest, median, mean, samples and iters.
//!
//! Rows without a name below a benchmark are its throughput and its allocations. A full name joins the names above it,
//! beginning with the program's: `bench::group::sum::1000`. Divan prints a name before it runs the benchmark, so a
//! benchmark whose row ends with its name panicked.

use crate::adapter::prelude::*;

/// The columns that are read, in order.
const FASTEST: usize = 0;
const SLOWEST: usize = 1;
const MEDIAN: usize = 2;
const MEAN: usize = 3;

/// Titles of the allocation rows, and the measures of their counts and of their bytes.
const ALLOCATIONS: &[(&str, &str, &str)] = &[
    ("max alloc:", "Max Allocations", "Max Allocated"),
    ("alloc:", "allocations", "allocated"),
    ("dealloc:", "Deallocations", "Deallocated"),
    ("grow:", "Grows", "Grown"),
    ("shrink:", "Shrinks", "Shrunk"),
];

/// Prefixes of the powers of 1,000, or of 1,024 if followed by `i`.
const SCALES: &str = "KMGTP";

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let average = match average {
        Some(Average::Mean) => MEAN,
        Some(Average::Median) | None => MEDIAN,
    };
    let mut reader = Reader {
        average,
        results: Results::default(),
        once: Once::default(),
        tree: None,
        begun: None,
    };
    for (at, content) in lines(Adapter::RustDivan, text) {
        if let Err(error) = reader.read(at, content) {
            let path = reader.tree.as_ref().map_or(String::new(), |tree| tree.path.join("::"));
            at.lose(&mut reader.results, &path, error);
        }
    }
    reader.end_begun()?;
    Ok(reader.results)
}

struct Reader {
    /// The column of the benchmark's figure.
    average: usize,
    results: Results,
    once: Once,
    tree: Option<Tree>,
    /// A row that ends with its name: it panicked, or an argument in its name has several lines.
    begun: Option<(At, String)>,
}

struct Tree {
    names_width: usize,
    /// Names from the root to the row.
    path: Vec<String>,
    /// Whether the last row with a name has figures, so that more may follow below it.
    is_measured: bool,
    allocations: Option<(&'static str, &'static str)>,
}

impl Reader {
    /// Reads a line, joined with the preceding lines of a name that spans several. Divan pads names by characters and
    /// counts the line feed as one, so joining with a space restores the columns.
    fn read(&mut self, at: At, line: &str) -> Parsed<()> {
        let Some((first, begun)) = &mut self.begun else { return self.line(at, line) };
        let is_other = branch(line).is_some() || heading(line).is_some();
        let width = self.tree.as_ref().map_or(0, |tree| tree.names_width);
        let names = begun.chars().count() + 1;
        if !is_other && names < width {
            let has_columns = line.chars().skip(width - names).any(|c| c == '│');
            if has_columns {
                let joined = format!("{begun} {line}");
                let at = *first;
                self.begun = None;
                return self.line(at, &joined);
            }
            if names + line.chars().count() < width {
                *begun = format!("{begun} {line}");
                return Ok(());
            }
        }
        self.end_begun()?;
        self.line(at, line)
    }

    /// Ends the open row: its benchmark panicked.
    fn end_begun(&mut self) -> Parsed<()> {
        let Some((at, line)) = self.begun.take() else { return Ok(()) };
        match branch(&line) {
            Some((depth, name)) => self.panicked(at, depth, name),
            None => Ok(()),
        }
    }

    fn line(&mut self, at: At, line: &str) -> Parsed<()> {
        if let Some((before, columns)) = heading(line) {
            // The row of a benchmark that panicked has no end, and this program's tree follows on the same line.
            let root = match branch(before) {
                Some((depth, rest)) => {
                    let rest = rest.trim_end();
                    let (name, root) = rest.rsplit_once("  ").unwrap_or((rest, ""));
                    self.panicked(at, depth, name)?;
                    root
                }
                None => before.trim(),
            };
            let before_root = before.trim_end().len() - root.len();
            self.once.begin(at);
            self.tree = Some(Tree {
                names_width: before[before_root..].chars().count() + columns,
                path: vec![root.trim().to_owned()],
                is_measured: false,
                allocations: None,
            });
            return Ok(());
        }
        let Some(tree) = &mut self.tree else { return Ok(()) };
        let at_columns = line.char_indices().nth(tree.names_width).map_or(line.len(), |(at, _)| at);
        let (names, columns) = line.split_at(at_columns);
        let Some((depth, name)) = branch(names) else {
            let is_below = names.chars().all(|c| c == '│' || c == ' ');
            return match is_below && tree.is_measured && columns.contains('│') {
                true => self.more(at, columns),
                false => Ok(()),
            };
        };
        if !columns.contains('│') {
            self.begun = Some((at, line.to_owned()));
            return Ok(());
        }
        tree.path.truncate(depth + 1);
        tree.path.push(name.trim().to_owned());
        tree.allocations = None;
        let cells = cells(columns);
        tree.is_measured = !matches!(cells[FASTEST], "" | "(ignored)");
        if !tree.is_measured {
            return Ok(());
        }
        let name = at.name(&tree.path.join("::"))?;
        let time = |cell: &str| {
            let (value, units) = cell.split_once(' ')?;
            Some(number(value)? * nanoseconds(units)?)
        };
        let times = cells.map(time);
        let [Some(fastest), Some(slowest), Some(_), Some(_)] = times else {
            return Err(at.malformed(format!("{} has a time that cannot be read", name.as_str())));
        };
        let value = times[self.average].unwrap_or_default();
        let metric = Metric::new(value).within(fastest, slowest);
        let benchmark = self.once.benchmark(at, &mut self.results, name.as_str())?;
        Ok(benchmark.add(&Measure::latency(), metric)?)
    }

    fn more(&mut self, at: At, columns: &str) -> Parsed<()> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        let cells = cells(columns);
        if let Some(known) = ALLOCATIONS.iter().find(|known| known.0 == cells[FASTEST]) {
            tree.allocations = Some((known.1, known.2));
            return Ok(());
        }
        let name = at.name(&tree.path.join("::"))?;
        let broken = || at.malformed(format!("{:?} is not a value of {name}", cells[FASTEST]));
        let values = cells.map(scaled);
        if cells[self.average].starts_with("inf ") {
            // Divan divided by a time of 0.
            return Ok(());
        }
        let (value, units) = values[self.average].ok_or_else(broken)?;
        let ends = values[SLOWEST].zip(values[FASTEST]).map(|(low, high)| (low.0, high.0));
        let (measure, ends) = match tree.allocations {
            Some((count, _)) if units.is_empty() => (of_allocations(count, "allocations"), None),
            Some((_, bytes)) if units == "B" => (of_allocations(bytes, "bytes (B)"), None),
            Some(_) => return Err(broken()),
            None => (rate(units).ok_or_else(broken)?, ends),
        };
        Ok(self.results.add(name, measure, Metric::new(value).with_ends(ends))?)
    }

    fn panicked(&mut self, at: At, depth: usize, name: &str) -> Parsed<()> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        tree.path.truncate(depth + 1);
        tree.is_measured = false;
        let path = format!("{}::{}", tree.path.join("::"), name.trim());
        self.results
            .fail(at.name(&path)?, "it printed no result: it panicked, or the run was ended");
        Ok(())
    }
}

/// The text before the columns of a heading, and the number of blanks after it.
fn heading(line: &str) -> Option<(&str, usize)> {
    let is_heading = line.trim_end().ends_with("│ iters") && line.contains("│ slowest ");
    let at = is_heading.then(|| line.rfind("fastest "))??;
    let before = line[..at].trim_end();
    Some((before, at - before.len()))
}

/// Depth of a row with a name, and the text after the branch.
fn branch(names: &str) -> Option<(usize, &str)> {
    let (at, mark) = names.char_indices().find(|(_, c)| !matches!(c, '│' | ' '))?;
    let rest = names[at..].strip_prefix("├─ ").or_else(|| names[at..].strip_prefix("╰─ "))?;
    matches!(mark, '├' | '╰').then(|| (names[..at].chars().count() / 3, rest))
}

fn cells(columns: &str) -> [&str; 4] {
    let mut cells = columns.split('│').map(str::trim);
    std::array::from_fn(|_| cells.next().unwrap_or_default())
}

/// A number, multiplied by the prefix of its units.
fn scaled(cell: &str) -> Option<(f64, &str)> {
    let (value, units) = cell.split_once(' ').unwrap_or((cell, ""));
    let value = number(value)?;
    let mut letters = units.chars();
    let power = letters.next().and_then(|letter| power(SCALES, letter));
    let Some(power) = power else { return Some((value, units)) };
    Some(match letters.as_str().strip_prefix('i') {
        Some(units) if units.starts_with('B') => (value * 1024_f64.powi(power), units),
        _ => (value * 1000_f64.powi(power), letters.as_str()),
    })
}

fn rate(units: &str) -> Option<Measure> {
    let custom =
        |name, units| Measure::custom(name, units, Direction::HigherIsBetter, MeasureKind::Noisy);
    Some(match units {
        "item/s" => Measure::throughput(),
        "B/s" => Measure::named("bytes-per-second"),
        "char/s" => custom("Characters per Second", "characters / second (char/s)"),
        "Hz" => custom("Cycles per Second", "cycles / second (Hz)"),
        _ => return None,
    })
}

fn of_allocations(name: &'static str, units: &'static str) -> Measure {
    match name {
        "allocations" | "allocated" => Measure::named(name),
        _ => Measure::custom(name, units, Direction::LowerIsBetter, MeasureKind::Exact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{benchmarks, check_error};

    const HEAD: &str = "b          fastest       │ slowest       │ median        │ mean          │ samples │ iters\n";

    fn row(name: &str, has_figures: bool) -> String {
        let cells = match has_figures {
            true => "1 ns          │ 1 ns          │ 1 ns          │ 1 ns          │ 100     │ 9",
            false => "              │               │               │               │         │",
        };
        format!("{name:<11}{cells}\n")
    }

    #[test]
    fn the_path_of_a_name() {
        let rows = [
            row("├─ g", false),
            row("│  ├─ h", false),
            row("│  │  ╰─ 1", true),
            row("│  ╰─ i│", true),
            row("╰─ j  k", true),
        ];
        let results = parse(&format!("{HEAD}{}", rows.concat()), None).expect("results");
        assert_eq!(benchmarks(&results), ["b::g::h::1", "b::g::i│", "b::j  k"]);
    }

    #[test]
    fn one_name_of_two_benchmarks_is_refused() {
        let add = row("├─ add", true);
        let again = format!("{HEAD}{add}{HEAD}{add}");
        let metric = parse(&again, None).expect("results").benchmarks[0].metrics[0].1.clone();
        assert_eq!(metric.samples.len(), 2, "another run of the program");
        check_error(
            parse(&format!("{HEAD}{add}{add}"), None),
            "line 3: \"b::add\" has a result in line 2 already",
        );
    }

    #[test]
    fn scaled_numbers() {
        let check = |cell, expected| assert_eq!(scaled(cell), expected, "{cell}");
        check("12", Some((12.0, "")));
        check("16 B", Some((16.0, "B")));
        check("4.096 KB", Some((4096.0, "B")));
        check("1 MiB/s", Some((1_048_576.0, "B/s")));
        check("2.5 Gitem/s", Some((2.5e9, "item/s")));
        check("900 Mitem/s", Some((900e6, "item/s")));
        check("1 Kchar/s", Some((1e3, "char/s")));
        check("370.3 GHz", Some((370.3e9, "Hz")));
        check("x", None);
    }

    #[test]
    fn a_panic_inside_of_a_tree() {
        let (good, add) = (row("├─ good", true), row("╰─ add", true));
        let next = HEAD.replace("b   ", "next");
        let text = format!("{HEAD}{good}├─ bad     {next}{add}");
        let results = parse(&text, None).expect("results");
        assert_eq!(benchmarks(&results), ["b::good", "next::add"]);
        assert_eq!(results.failures[0].name.as_str(), "b::bad");
        let results = parse(&format!("{HEAD}├─ bad     "), None).expect("results");
        assert_eq!(results.failures[0].name.as_str(), "b::bad");
    }

    #[test]
    fn a_name_of_several_lines() {
        let rows = row("├─ a\nb", true) + &row("├─ 1\n2\n3", true) + &row("╰─ add", true);
        let results = parse(&format!("{HEAD}{rows}"), None).expect("results");
        assert_eq!(benchmarks(&results), ["b::a b", "b::1 2 3", "b::add"]);
        assert!(results.failures.is_empty());
        let text = format!("{HEAD}├─ bad     \nthread 'main' panicked\n{}", row("╰─ add", true));
        let results = parse(&text, None).expect("results");
        assert_eq!((benchmarks(&results), results.failures.len()), (vec!["b::add"], 1));
    }

    #[test]
    fn what_is_broken() {
        let text = format!(
            "{HEAD}╰─ add     1 eon         │ 4 µs          │ 2 ns          │ 3 ns          │ 100     │ 9\n"
        );
        check_error(parse(&text, None), "line 2: b::add has a time");
    }
}
