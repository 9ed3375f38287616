//! Arithmetic and tables: medians with their range, how sure a share is, rows in columns.

use wingbeat_stats::Sample;
use xtask::marked;

pub(crate) const NONE: &str = "–";

/// How a figure is written: a factor, decimal places, and the unit.
pub(crate) type Unit = (f64, usize, &'static str);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of some values; `None` of none, or when one is not a number.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sample = Sample::new(values.into_iter().collect()).ok()?;
        Some(Self { median: sample.median(), min: sample.min(), max: sample.max() })
    }
}

fn number(value: f64, (factor, places, _): Unit) -> String {
    let text = format!("{:.places$}", value * factor);
    // Rounding may leave a zero with a sign.
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| byte == b'0' || byte == b'.') => rest.to_owned(),
        _ => text.replace('-', "−"),
    }
}

/// `median (min to max)`, or only the median when the three read the same.
pub(crate) fn show(spread: Option<Spread>, unit: Unit) -> String {
    let Some(Spread { median, min, max }) = spread else { return NONE.to_owned() };
    let [median, min, max] = [median, min, max].map(|it| number(it, unit));
    let range = if min == max { String::new() } else { format!(" ({min} to {max})") };
    format!("{median}{}{range}", unit.2)
}

pub(crate) fn median(spread: Option<Spread>, unit: Unit) -> String {
    show(spread.map(|Spread { median, .. }| Spread { median, min: median, max: median }), unit)
}

pub(crate) fn deviation(values: Vec<f64>) -> Option<f64> {
    Sample::new(values).ok()?.std_dev()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) hits: usize,
    pub(crate) of: usize,
}

impl Share {
    /// Its interval at 95 %, after Wilson (1927), which also holds near 0 and 1; `None` of nothing.
    pub(crate) fn interval(self) -> Option<(f64, f64)> {
        const Z: f64 = 1.959_964;
        let (share, count) = (self.hits as f64 / self.of as f64, self.of as f64);
        let scale = 1.0 + Z * Z / count;
        let middle = (share + Z * Z / (2.0 * count)) / scale;
        let half = Z / scale * (share * (1.0 - share) / count + (Z / (2.0 * count)).powi(2)).sqrt();
        (self.of > 0).then(|| ((middle - half).max(0.0), (middle + half).min(1.0)))
    }

    /// Whether it is at most this. Few cases prove nothing: the whole interval has to lie on one side.
    pub(crate) fn at_most(self, bound: f64) -> &'static str {
        match self.interval() {
            Some((low, high)) if (low <= bound) == (high <= bound) => verdict(low <= bound),
            _ => "open: too few cases",
        }
    }
}

pub(crate) fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "**missed**" }
}

/// A column: its heading, and its cell in a row.
pub(crate) type Column<'a, T> = (String, Box<dyn Fn(&T) -> String + 'a>);

pub(crate) fn column<'a, T, S: ToString>(
    head: impl Into<String>,
    cell: impl Fn(&T) -> S + 'a,
) -> Column<'a, T> {
    (head.into(), Box::new(move |row| cell(row).to_string()))
}

/// Rows in aligned columns, as Markdown; empty without rows.
pub(crate) fn table<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> String {
    // A bar would end the cell, even within code.
    let row = |row: T| columns.iter().map(|(_, cell)| cell(&row).replace('|', r"\|")).collect();
    let mut lines: Vec<Vec<String>> = rows.into_iter().map(row).collect();
    if !lines.is_empty() {
        lines.insert(0, columns.iter().map(|(head, _)| head.clone()).collect());
    }
    marked::aligned(&lines)
}

/// Each once, in the order in which it comes first.
pub(crate) fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for it in all {
        if !seen.contains(&it) {
            seen.push(it);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_tables() {
        let check = |values: &[f64], unit, expected: &str| {
            assert_eq!(show(Spread::of(values.iter().copied()), unit), expected);
        };
        check(&[1.012, 0.99, 1.0], (1.0, 2, ""), "1.00 (0.99 to 1.01)");
        check(&[0.999, 1.0, 1.001], (1.0, 2, ""), "1.00");
        check(&[-0.0044, -0.0004, 0.002], (100.0, 1, " %"), "0.0 % (−0.4 to 0.2)");
        check(&[1.0, f64::NAN], (1.0, 1, ""), NONE);
        type Row = (&'static str, u32);
        let columns = [column("a", |row: &Row| row.0), column("b", |row: &Row| row.1)];
        let text = table([("x|", 22)], &columns);
        assert_eq!(text, "| a   | b   |\n| --- | --- |\n| x\\| | 22  |\n");
        assert_eq!(table([], &columns), "");
    }

    #[test]
    fn shares_need_cases() {
        // Wilson's intervals from tables, to three places.
        let check = |hits, of, interval: Option<(f64, f64)>, at_most| {
            let round = |value: f64| (value * 1000.0).round() / 1000.0;
            let share = Share { hits, of };
            let found = share.interval().map(|(low, high)| (round(low), round(high)));
            assert_eq!((found, share.at_most(0.005)), (interval, at_most), "{share:?}");
        };
        check(0, 0, None, "open: too few cases");
        check(5, 10, Some((0.237, 0.763)), "**missed**");
        check(0, 320, Some((0.0, 0.012)), "open: too few cases");
        check(0, 800, Some((0.0, 0.005)), "reached");
    }
}
