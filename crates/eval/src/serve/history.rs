//! A made-up history, as documents of the export format.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use wingbeat_stats::random::Random;

/// Of which size a project is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) project: &'static str,
    pub(super) benchmarks: u32,
    pub(super) reports: u32,
}

/// Twelve hours between two reports.
const APART_S: i64 = 12 * 3600;

/// When the first report was measured, of a history that is not longer than that: 2025-06-01.
pub(super) const FIRST_S: i64 = 1_748_736_000;
const REPORTS_USUAL: u32 = 1000;

impl Shape {
    pub(super) fn divided(self, by: u32) -> Self {
        Self { reports: (self.reports / by).max(10), ..self }
    }

    /// The report of that number, from 0: its UUID and its line. Written as text: `serde_json` in a build without
    /// optimizations takes longer for it than the import that is measured.
    fn report(&self, number: u32, has_verdicts: bool) -> (String, String) {
        let uuid = format!("{:08x}-{number:04x}-7000-8000-000000000000", self.benchmarks);
        let (mut benchmarks, mut verdicts) = (String::new(), String::new());
        for (index, (name, value)) in (0..).zip(self.values(number)) {
            let comma = if index == 0 { "" } else { "," };
            let (lower, upper) = (value * 0.99, value * 1.01);
            let _ = write!(
                benchmarks,
                r#"{comma}{{"name":"{name}","metrics":[[{MEASURE},{{"value":{value:?},"lower_value":{lower:?},"upper_value":{upper:?}}}]]}}"#
            );
            if has_verdicts {
                let level = self.level(number, index);
                let (lower, upper) = (level * 0.97, level * 1.03);
                let _ = write!(
                    verdicts,
                    r#"{comma}{{"iteration":0,"benchmark":"{name}","measure":"latency","outcome":"no-change","test":"auto","boundary":{{"baseline":{level:?},"lower_limit":{lower:?},"upper_limit":{upper:?}}},"points":64,"reason":{{"code":"within-limits"}}}}"#
                );
            }
        }
        let time = time(self.first_s() + i64::from(number) * APART_S);
        let project = self.project;
        let document = format!(
            r#"{{"format":1,"report":{{"uuid":"{uuid}","project":"{project}","branch":"main","testbed":"box","hash":"{number:040x}","epoch":0,"start_time":"{time}","end_time":"{time}","adapter":"json","environment":{{"kernel":"Linux 6.18.44","cores":8}},"iterations":[{{"benchmarks":[{benchmarks}]}}],"verdicts":[{verdicts}],"alerts":[]}}}}"#
        );
        (uuid, document)
    }

    /// When the first report was measured: of a long history earlier, so that none lies in the future.
    fn first_s(self) -> i64 {
        FIRST_S - i64::from(self.reports.saturating_sub(REPORTS_USUAL)) * APART_S
    }

    /// Benchmarks of the report of that number, with their values.
    pub(super) fn values(self, number: u32) -> impl Iterator<Item = (String, f64)> {
        let mut random = Random::new(u64::from(number) << 32 | u64::from(self.benchmarks));
        (0..self.benchmarks).map(move |index| {
            let name = format!("group_{:02}::benchmark_{index:04}", index % 50);
            (name, self.level(number, index) * (1.0 + 0.01 * (random.unit() - 0.5)))
        })
    }

    fn level(self, number: u32, index: u32) -> f64 {
        let level = 100.0 * f64::from(1 + index % 97);
        // One in a hundred has changed its level within the last month.
        let is_slower = index % 100 == 7 && number + 40 >= self.reports;
        if is_slower { level * 1.2 } else { level }
    }

    /// The line of a report of the history, with its verdicts.
    pub(super) fn judged(&self, number: u32) -> String {
        self.report(number, true).1
    }

    /// A report behind the history, which nobody has judged yet.
    pub(super) fn after(&self, number: u32) -> (String, String) {
        self.report(self.reports + number, false)
    }
}

/// The measure of all metrics.
const MEASURE: &str = r#"{"slug":"latency","name":"Latency","units":"nanoseconds (ns)","direction":"lower-is-better","kind":"noisy"}"#;

/// Writes the histories of these projects. How many metrics they have.
pub(super) fn history(shapes: &[Shape], to: &mut dyn Write) -> io::Result<u64> {
    let mut metrics = 0;
    for shape in shapes {
        for number in 0..shape.reports {
            writeln!(to, "{}", shape.judged(number))?;
            metrics += u64::from(shape.benchmarks);
        }
    }
    Ok(metrics)
}

/// Seconds since 1970 as documents have them.
pub(super) fn time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3600, second % 3600 / 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Year, month and day of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + i64::from(is_leap(year)) {
        left -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn times() {
        let check = |seconds, expected: &str| assert_eq!(time(seconds), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(FIRST_S + 3661, "2025-06-01T01:01:01Z");
    }

    #[test]
    fn reports_are_documents() {
        let shape = Shape { project: "p", benchmarks: 3, reports: 2 };
        let mut lines = Vec::new();
        assert_eq!(history(&[shape], &mut lines).expect("written"), 6);
        let first = String::from_utf8(lines).expect("text");
        let first: Value =
            serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
        assert_eq!(
            first["report"]["iterations"][0]["benchmarks"].as_array().map(Vec::len),
            Some(3)
        );
        assert_eq!(first["report"]["verdicts"].as_array().map(Vec::len), Some(3));
        assert_ne!(shape.after(0).0, shape.after(1).0);
    }
}
