//! Columns of the result table: their figures and number of digits.

use wingbeat_text::{Column, decimal, grouped, or_dash, printable};

use crate::result::{Baseline, Case, Distribution, Latency, RunCounts, Size, Verified, Verifier};

/// Placeholder for a missing figure; a line below the table explains it.
pub(super) const UNAVAILABLE: &str = "–";

/// Times from here on are shown without decimals.
const LONG_NS: f64 = 100_000.0;

const TIME: &str = "time of a run, ns";
const SINGLE: &str = "single runs, ns";
const INSTRUCTIONS: &str = "instructions";
const RUN: &str = "run";
const VERIFIER: &str = "verifier";
const BYTES: &str = "bytes";

/// A row: an empty program, a case, or a program that was loaded but not run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Row<'a> {
    Baseline(&'a Baseline),
    Case(&'a Case),
    Verified(&'a Verified),
}

impl<'a> Row<'a> {
    pub(super) fn name(self) -> String {
        match self {
            Self::Baseline(baseline) => format!("(empty {})", printable(&baseline.r#type)),
            Self::Case(case) => printable(case.name.trim_end()),
            Self::Verified(program) => printable(program.name.trim_end()),
        }
    }

    pub(super) fn latency(self) -> Option<&'a Latency> {
        match self {
            Self::Baseline(baseline) => baseline.latency.measured(),
            Self::Case(case) => case.latency.measured(),
            Self::Verified(_) => None,
        }
    }

    pub(super) fn distribution(self) -> Option<&'a Distribution> {
        match self {
            Self::Baseline(baseline) => baseline.distribution.measured(),
            Self::Case(case) => case.distribution.measured(),
            Self::Verified(_) => None,
        }
    }

    /// Time minus that of the empty program of the same type, if measured.
    pub(super) fn net(self) -> Option<f64> {
        self.latency()?.net_ns
    }

    /// Verifier figures; not collected for empty programs.
    pub(super) fn verifier(self) -> Option<&'a Verifier> {
        match self {
            Self::Baseline(_) => None,
            Self::Case(case) => Some(&case.verifier),
            Self::Verified(program) => Some(&program.verifier),
        }
    }

    pub(super) fn size(self) -> Option<&'a Size> {
        match self {
            Self::Baseline(_) => None,
            Self::Case(case) => Some(&case.size),
            Self::Verified(program) => Some(&program.size),
        }
    }

    /// Whether it should be timed, so that a missing time must be explained.
    fn is_timed(self) -> bool {
        !matches!(self, Self::Verified(_))
    }

    pub(super) fn case(self) -> Option<&'a Case> {
        match self {
            Self::Baseline(_) | Self::Verified(_) => None,
            Self::Case(case) => Some(case),
        }
    }
}

/// All columns, most important first.
pub(super) fn columns(rows: &[Row]) -> Vec<Column> {
    let mut columns = times(rows);
    columns.extend(single_runs(rows));
    columns.extend(instructions(rows));
    columns.extend(run(rows));
    columns.extend(verifier(rows));
    columns.extend(sizes(rows));
    columns
}

fn times(rows: &[Row]) -> Vec<Column> {
    let of = |figure: fn(&Latency) -> f64| -> Vec<Option<f64>> {
        rows.iter().map(|row| row.latency().map(figure)).collect()
    };
    let (lower, upper) = (of(|time| time.lower_ns), of(|time| time.upper_ns));
    let median = of(|time| time.median_ns);
    let net: Vec<_> = rows.iter().map(|row| row.net()).collect();
    let decimals = decimals_for([&median, &upper]);
    let confidence = rows.iter().find_map(|row| row.latency()).map_or(0.95, |time| time.confidence);
    let intervals = intervals(&reals(&lower, decimals), &reals(&upper, decimals));
    let column = |heading: &str, cells| Column::numbers(heading, timed(rows, cells)).in_group(TIME);
    let floor = of(|time| time.floor_ns);
    vec![
        column("floor", reals(&floor, decimals)),
        column("median", reals(&median, decimals)),
        column(&format!("{} % interval", percent_of_confidence(confidence)), intervals),
        column("net", reals(&net, decimals)),
    ]
}

/// `95`, `99`, `99.9`.
pub(super) fn percent_of_confidence(confidence: f64) -> String {
    let percent = confidence * 100.0;
    let decimals = if (percent - percent.round()).abs() < 0.05 { 0 } else { 1 };
    decimal(percent, decimals)
}

fn single_runs(rows: &[Row]) -> Vec<Column> {
    let of = |figure: fn(&Distribution) -> f64| -> Vec<Option<f64>> {
        rows.iter().map(|row| row.distribution().map(figure)).collect()
    };
    // The clock counts whole nanoseconds.
    let column = |heading: &str, figure| {
        Column::numbers(heading, timed(rows, reals(&of(figure), 0))).in_group(SINGLE)
    };
    vec![
        column("p50", |single| single.p50_ns),
        column("p99", |single| single.p99_ns),
        column("p99.9", |single| single.p999_ns),
        column("max", |single| single.max_ns as f64),
    ]
}

fn instructions(rows: &[Row]) -> Vec<Column> {
    let executed = |case: &Case| match case.counts.measured() {
        None => UNAVAILABLE.to_owned(),
        Some(RunCounts { variation: Some(found), steady_instructions, .. }) => {
            let mark = if steady_instructions.is_some() { " *" } else { "" };
            format!("{} … {}{mark}", grouped(found.lowest), grouped(found.highest))
        }
        Some(counts) if counts.steady_instructions.is_some() || is_on_own_output(case) => {
            format!("{} *", grouped(counts.instructions))
        }
        Some(counts) => grouped(counts.instructions),
    };
    let mut executed = of_cases(rows, executed);
    // Marks have their own space, so that digits stay aligned.
    if executed.iter().any(|cell| cell.ends_with('*')) {
        for cell in executed.iter_mut().filter(|cell| !cell.is_empty() && !cell.ends_with('*')) {
            cell.push_str("  ");
        }
    }
    let verified = of_loaded(rows, |row| row.verifier()?.processed_instructions);
    vec![
        Column::numbers("executed", executed).in_group(INSTRUCTIONS),
        Column::numbers("verified", verified).in_group(INSTRUCTIONS),
    ]
}

fn is_on_own_output(case: &Case) -> bool {
    case.latency.measured().is_some_and(Latency::is_on_own_output)
}

fn run(rows: &[Row]) -> Vec<Column> {
    let calls = |case: &Case| {
        let counts = case.counts.measured();
        let sum = counts.map(|counts| {
            counts.calls.iter().fold(0_u64, |sum, calls| sum.saturating_add(calls.calls))
        });
        or_dash(sum, grouped)
    };
    vec![
        Column::words("returns", of_cases(rows, returned)).in_group(RUN),
        Column::numbers("calls", of_cases(rows, calls)).in_group(RUN),
    ]
}

/// `XDP_PASS`, or the number if it has no name.
pub(super) fn returned(case: &Case) -> String {
    let number = case.outcome.return_value;
    case.outcome.return_name.as_deref().map_or_else(|| number.to_string(), printable)
}

fn verifier(rows: &[Row]) -> Vec<Column> {
    let column = |heading: &str, figure: fn(&Verifier) -> Option<u64>| {
        Column::numbers(heading, of_loaded(rows, |row| figure(row.verifier()?))).in_group(VERIFIER)
    };
    vec![
        column("states", |verifier| verifier.total_states),
        column("peak", |verifier| verifier.peak_states),
        column("time, µs", |verifier| verifier.duration_us),
    ]
}

fn sizes(rows: &[Row]) -> Vec<Column> {
    let column = |heading: &str, figure: fn(&Row) -> Option<u64>| {
        Column::numbers(heading, of_loaded(rows, figure)).in_group(BYTES)
    };
    vec![
        column("stack", |row| Some(row.verifier()?.stack_depth_bytes.into())),
        column("xlated", |row| Some(row.size()?.xlated_bytes.into())),
        column("jited", |row| Some(row.size()?.jited_bytes.into())),
        column("maps", |row| row.size()?.map_memory_bytes),
    ]
}

/// Cells of figures known after loading. Empty for baselines, and for a program's further inputs, which would repeat them.
fn of_loaded(rows: &[Row], figure: impl Fn(&Row) -> Option<u64>) -> Vec<String> {
    let programs: Vec<_> =
        rows.iter().map(|row| row.case().map(|case| case.program.as_str())).collect();
    let is_repeated = |number: usize| {
        number > 0 && programs[number].is_some() && programs[number] == programs[number - 1]
    };
    let cell = |(number, row): (usize, &Row)| match row {
        Row::Baseline(_) => String::new(),
        _ if is_repeated(number) => String::new(),
        _ => or_dash(figure(row), grouped),
    };
    rows.iter().enumerate().map(cell).collect()
}

/// Clears the cells of programs that were not to be timed.
fn timed(rows: &[Row], mut cells: Vec<String>) -> Vec<String> {
    for (row, cell) in rows.iter().zip(&mut cells) {
        if !row.is_timed() {
            cell.clear();
        }
    }
    cells
}

/// Cells of figures that only cases have; empty in other rows.
fn of_cases(rows: &[Row], cell: impl Fn(&Case) -> String) -> Vec<String> {
    rows.iter().map(|row| row.case().map_or_else(String::new, &cell)).collect()
}

fn reals(numbers: &[Option<f64>], decimals: usize) -> Vec<String> {
    numbers.iter().map(|number| or_dash(*number, |number| decimal(number, decimals))).collect()
}

/// Number of decimals of a column of times.
fn decimals_for(columns: [&[Option<f64>]; 2]) -> usize {
    let largest = columns.into_iter().flatten().flatten().copied().fold(0.0, f64::max);
    if largest < LONG_NS { 1 } else { 0 }
}

/// `62.9 … 64.0`, with both bounds aligned.
pub(super) fn intervals(lower: &[String], upper: &[String]) -> Vec<String> {
    let width = |cells: &[String]| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (lower_width, upper_width) = (width(lower), width(upper));
    let cell = |(lower, upper): (&String, &String)| match lower.as_str() {
        UNAVAILABLE => UNAVAILABLE.to_owned(),
        _ => format!("{lower:>lower_width$} … {upper:>upper_width$}"),
    };
    lower.iter().zip(upper).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_intervals_stand_below_each_other() {
        let cells = |cells: [&str; 3]| cells.map(str::to_owned);
        assert_eq!(
            intervals(&cells(["9.9", "–", "1,230.1"]), &cells(["10.4", "–", "1,239.9"])),
            ["    9.9 …    10.4", "–", "1,230.1 … 1,239.9"]
        );
    }

    #[test]
    fn decimals_fit_the_largest() {
        let check = |largest, expected| {
            assert_eq!(decimals_for([&[Some(1.0), None], &[Some(largest)]]), expected, "{largest}");
        };
        check(99_999.9, 1);
        check(100_000.0, 0);
        check(f64::NAN, 1);
        assert_eq!(decimals_for([&[None], &[]]), 1);
    }

    #[test]
    fn confidences() {
        let check = |confidence, expected: &str| {
            assert_eq!(percent_of_confidence(confidence), expected);
        };
        check(0.95, "95");
        check(0.99, "99");
        check(0.999, "99.9");
        check(f64::NAN, "–");
    }
}
