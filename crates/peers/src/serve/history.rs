//! A made-up history, the same each time, as documents of the export format and as `bencher run` sends reports.

use std::fmt::Write as _;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use wingbeat_stats::random::Random;

use crate::prelude::*;

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) project: &'static str,
    pub(super) benchmarks: u32,
    pub(super) reports: u32,
}

const APART_S: i64 = 12 * 3600;
/// When the first report was measured: 2025-06-01.
const FIRST_S: i64 = 1_748_736_000;
const MEASURE: &str = r#"{"slug":"latency","name":"Latency","units":"nanoseconds (ns)","direction":"lower-is-better","kind":"noisy"}"#;

impl Shape {
    pub(super) fn divided(self, by: u32) -> Self {
        Self { reports: (self.reports / by).max(10), ..self }
    }

    pub(super) fn metrics(self) -> u64 {
        u64::from(self.benchmarks) * u64::from(self.reports)
    }

    /// The report of a number from 0: its UUID and its line. Written as text: `serde_json` in a build without
    /// optimizations takes longer for it than the import that is measured.
    fn report(self, number: u32, has_verdicts: bool) -> (String, String) {
        let uuid = format!("{:08x}-{number:04x}-7000-8000-000000000000", self.benchmarks);
        let (mut benchmarks, mut verdicts) = (String::new(), String::new());
        for (index, (name, value)) in (0..).zip(self.values(number)) {
            let comma = if index == 0 { "" } else { "," };
            let (lower, upper) = (value * 0.99, value * 1.01);
            let _ = write!(
                benchmarks,
                r#"{comma}{{"name":"{name}","metrics":[[{MEASURE},{{"value":{value:?},"lower_value":{lower:?},"upper_value":{upper:?}}}]]}}"#
            );
            let level = self.level(number, index);
            let (lower, upper) = (level * 0.97, level * 1.03);
            let _ = write!(
                verdicts,
                r#"{comma}{{"iteration":0,"benchmark":"{name}","measure":"latency","outcome":"no-change","test":"auto","boundary":{{"baseline":{level:?},"lower_limit":{lower:?},"upper_limit":{upper:?}}},"points":64,"reason":{{"code":"within-limits"}}}}"#
            );
        }
        let verdicts = if has_verdicts { verdicts } else { String::new() };
        let (project, time) = (self.project, time(FIRST_S + i64::from(number) * APART_S));
        let document = format!(
            r#"{{"format":1,"report":{{"uuid":"{uuid}","project":"{project}","branch":"main","testbed":"box","hash":"{number:040x}","epoch":0,"start_time":"{time}","end_time":"{time}","adapter":"json","environment":{{"kernel":"Linux 6.18.44","cores":8}},"iterations":[{{"benchmarks":[{benchmarks}]}}],"verdicts":[{verdicts}],"alerts":[]}}}}"#
        );
        (uuid, document)
    }

    fn values(self, number: u32) -> impl Iterator<Item = (String, f64)> {
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
    pub(super) fn judged(self, number: u32) -> String {
        self.report(number, true).1
    }

    /// A report after the history without verdicts: its UUID and its line.
    pub(super) fn after(self, number: u32) -> (String, String) {
        self.report(self.reports + number, false)
    }

    pub(super) fn write(self, to: &mut dyn Write) -> io::Result<()> {
        (0..self.reports).try_for_each(|number| writeln!(to, "{}", self.judged(number)))
    }

    /// A report as the body of `POST /v0/run`, judged by a t-test with those before it, or without a threshold.
    pub(super) fn bencher_run(self, number: u32, history: Option<u32>) -> Value {
        let metric = |value: f64| json!({ "value": value, "lower_value": value * 0.99, "upper_value": value * 1.01 });
        let results =
            self.values(number).map(|(name, value)| (name, json!({ "latency": metric(value) })));
        let results: serde_json::Map<_, _> = results.collect();
        let begin = FIRST_S + i64::from(number) * 3600;
        let model = |history| {
            json!({ "models": { "latency": {
                "test": "t_test", "max_sample_size": history, "lower_boundary": 0.9999, "upper_boundary": 0.9999,
            }}})
        };
        json!({
            "project": self.project, "branch": "main", "hash": format!("{number:040x}"), "testbed": "box",
            "thresholds": history.map(model),
            "start_time": time(begin), "end_time": time(begin + 60),
            "results": [Value::Object(results).to_string()],
            "settings": { "adapter": "json" },
            // Bencher names a project that it makes by it, also where the request names one.
            "context": { "bencher.dev/v0/repo/name": self.project },
        })
    }
}

fn time(seconds: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_documents() {
        let shape = Shape { project: "p", benchmarks: 3, reports: 2 };
        let mut lines = Vec::new();
        shape.write(&mut lines).expect("written");
        let lines = String::from_utf8(lines).expect("text");
        let last: Value = serde_json::from_str(lines.lines().nth(1).expect("two")).expect("JSON");
        let count = |value: &Value| value.as_array().map(Vec::len);
        assert_eq!(count(&last["report"]["iterations"][0]["benchmarks"]), Some(3));
        assert_eq!(count(&last["report"]["verdicts"]), Some(3));
        assert_eq!(last["report"]["start_time"], "2025-06-01T12:00:00Z");
        assert_ne!(shape.after(0).0, shape.after(1).0);
        let body = shape.bencher_run(7, Some(64));
        let results: Value =
            serde_json::from_str(body["results"][0].as_str().expect("a text")).expect("JSON");
        assert_eq!(results.as_object().map(serde_json::Map::len), Some(3));
        assert_ne!(shape.bencher_run(8, None)["results"], body["results"]);
    }
}
