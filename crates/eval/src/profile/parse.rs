//! How many samples a tool's output holds, and how many it says it lost. Text in, numbers out.

use std::{
    io::{self, BufRead, Read},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;
use xtask::command::output_of;

use crate::comparison::kept;

/// The sum of the counts at the ends of folded lines, `a;b;c 3`.
pub(super) fn folded_samples(text: impl BufRead) -> anyhow::Result<u64> {
    sum_of_lines(text, |line| line.rsplit_once(' ')?.1.parse().ok())
}

/// The sum of the counts in a map that bpftrace printed, whose keys end with `]: 3`.
pub(super) fn bpftrace_samples(text: impl BufRead) -> anyhow::Result<u64> {
    sum_of_lines(text, |line| line.rsplit_once("]: ")?.1.parse().ok())
}

fn sum_of_lines(text: impl BufRead, count: impl Fn(&str) -> Option<u64>) -> anyhow::Result<u64> {
    // Names of symbols need not be UTF-8.
    let counts = text.split(b'\n').map(|line| -> io::Result<u64> {
        Ok(count(String::from_utf8_lossy(&line?).trim_end()).unwrap_or(0))
    });
    counts.sum::<io::Result<u64>>().context("cannot read the stacks")
}

/// Samples of an event in and lost to a recording of perf.
pub(crate) fn perf_stats(data: &Path, event: &str) -> anyhow::Result<(u64, u64)> {
    let said = output_of(Command::new("perf").args(["report", "--stats", "-i"]).arg(data));
    perf_stats_of(&said.context("`perf report --stats` does not read what perf recorded")?, event)
}

fn perf_stats_of(text: &str, event: &str) -> anyhow::Result<(u64, u64)> {
    // First come the records of the file, then each event. A record may stand for many lost samples.
    let (records, events) = text
        .split_once(&format!("{event} stats:"))
        .with_context(|| format!("`perf report --stats` knows no {event}"))?;
    let number = |part: &str, name: &str| {
        let line = part.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split(':').nth(1)?.split_whitespace().next()?.parse::<u64>().ok()
    };
    let samples = number(events, "SAMPLE events").unwrap_or(0);
    // Kernels before 6.0 do not count lost samples, only the occasions.
    let lost = number(events, "LOST_SAMPLES events").or_else(|| number(records, "LOST events"));
    Ok((samples, lost.unwrap_or(0)))
}

/// Samples of all threads in a profile for the Firefox Profiler, which samply writes.
///
/// Read as a stream, and only what is needed: the memory of this program is copied into the figures
/// of the children that it starts afterwards.
pub(super) fn firefox_samples(json: impl Read) -> anyhow::Result<u64> {
    #[derive(Deserialize)]
    struct Profile {
        threads: Vec<Thread>,
    }
    #[derive(Deserialize)]
    struct Thread {
        samples: Samples,
    }
    #[derive(Deserialize)]
    struct Samples {
        length: u64,
    }
    let profile: Profile =
        serde_json::from_reader(json).context("this is no profile for the Firefox Profiler")?;
    Ok(profile.threads.iter().map(|thread| thread.samples.length).sum())
}

/// What samply says it lost, `Lost 592 events.`; it says nothing when nothing was.
pub(crate) fn samply_lost(said: &str) -> u64 {
    let counts = said.lines().filter_map(|line| {
        line.strip_prefix("Lost ")?.strip_suffix(" events.")?.parse::<u64>().ok()
    });
    counts.sum()
}

/// Samples in a flame graph that inferno drew, from the title of its root.
pub(super) fn svg_samples(svg: impl BufRead) -> anyhow::Result<u64> {
    // Piece by piece: the picture may be one long line.
    for piece in svg.split(b'>') {
        let piece = piece.context("cannot read the flame graph")?;
        let piece = String::from_utf8_lossy(&piece);
        let count = piece.strip_prefix("all (").and_then(|rest| rest.split_once(" samples"));
        if let Some((number, _)) = count {
            return number.replace(',', "").parse().context("the root's samples are no number");
        }
    }
    bail!("the flame graph has no root, \"all (N samples\": was there anything to draw?")
}

/// What `wingbeat profile --summary-json` left.
pub(crate) fn summary(file: &Path) -> anyhow::Result<Value> {
    kept(file).context("wingbeat left no summary")
}

/// A number of a summary, by its path, as in `/ticks/lost`.
pub(crate) fn number(summary: &Value, path: &str) -> anyhow::Result<u64> {
    let found = summary.pointer(path).and_then(Value::as_u64);
    found.with_context(|| format!("wingbeat's summary has no number {path}"))
}

/// Samples by wingbeat's own account: sampled, lost, bytes of each, CPU nanoseconds.
pub(super) fn wingbeat_samples(summary: &Value) -> anyhow::Result<(u64, u64, f64, u64)> {
    let cpu_ns = ["record", "symbolize", "write"]
        .map(|part| number(summary, &format!("/own/cpu_time_ns/{part}")));
    let cpu_ns = cpu_ns.into_iter().sum::<anyhow::Result<u64>>()?;
    let bytes = summary["bytes_per_sample"].as_f64().context("no bytes_per_sample")?;
    Ok((number(summary, "/ticks/sampled")?, number(summary, "/ticks/lost")?, bytes, cpu_ns))
}

/// Blocks that wingbeat says it lost, whatever the reason.
pub(super) fn wingbeat_lost_blocks(summary: &Value) -> anyhow::Result<u64> {
    let lost = summary["off_cpu"]["switches"]["lost"].as_object();
    let lost = lost.context("wingbeat's summary has no time off the CPU")?;
    Ok(lost.values().filter_map(Value::as_u64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded() {
        let check = |text: &str, expected| {
            assert_eq!(folded_samples(text.as_bytes()).expect("text"), expected, "{text}");
        };
        check("a;b 3\na;c d 4\n", 7);
        check("a;b\n\nWARNING: 1 stack traces could not be displayed.\n", 0);
        check("", 0);
    }

    #[test]
    fn bpftrace() {
        let text = "Attaching 1 probe...\n\n\n@[, \n    a+1\n    b+2\n]: 14\n@[\n    k+3\n, \n]: 2\n@[, ]: 5\n";
        assert_eq!(bpftrace_samples(text.as_bytes()).expect("text"), 21);
        assert_eq!(bpftrace_samples(&b"@[, \n    \xff+1\n]: 3\n"[..]).expect("bytes"), 3);
    }

    #[test]
    fn perf() {
        let check = |text: &str, expected| {
            assert_eq!(perf_stats_of(text, "cpu-clock").ok(), expected, "{text}");
        };
        let records = "Aggregated stats:\n  TOTAL events:  14625\n  LOST events:  6  ( 0.0%)\n  SAMPLE events:  12429  (85.0%)\n  LOST_SAMPLES events:  1  ( 0.0%)\n";
        let new = "cpu-clock stats:\n  SAMPLE events:  12429\n  LOST_SAMPLES events:  130\n";
        check(&format!("{records}{new}"), Some((12429, 130)));
        check(&format!("{records}cpu-clock stats:\n  SAMPLE events:  12429\n"), Some((12429, 6)));
        check("TOTAL events: 3\ncpu-clock stats:\n SAMPLE events: 2\n", Some((2, 0)));
        check("TOTAL events: 3\n", None);
    }

    #[test]
    fn samply() {
        let json = r#"{"meta": {"version": 24}, "threads": [
            {"name": "a", "samples": {"length": 2, "stack": [null, 1]}},
            {"name": "b", "samples": {"length": 3, "weight": [1, 1, 1]}}], "pages": []}"#;
        assert_eq!(firefox_samples(json.as_bytes()).expect("a profile"), 5);
        assert!(firefox_samples(&b"{}"[..]).is_err());
        assert_eq!(samply_lost("Lost 592 events.\nLost 8 events.\n"), 600);
        assert_eq!(samply_lost("all is well\n"), 0);
    }

    #[test]
    fn flame_graphs() {
        let svg = "<svg><title>Flame Graph</title><g><title>all (1,915 samples, 100%)</title>";
        assert_eq!(svg_samples(svg.as_bytes()).expect("a root"), 1915);
        assert!(svg_samples(&b"<svg/>"[..]).is_err());
    }

    #[test]
    fn wingbeat() {
        let json = r#"{"ticks": {"sampled": 228, "idle": 0, "other": 1, "lost": 3, "failed": {}},
            "bytes_per_sample": 136,
            "own": {"cpu_time_ns": {"record": 30, "symbolize": 9, "write": 2}}}"#;
        let summary = serde_json::from_str(json).expect("JSON");
        assert_eq!(wingbeat_samples(&summary).expect("a summary"), (228, 3, 136.0, 41));
        assert!(wingbeat_samples(&Value::Null).is_err());
        assert!(wingbeat_lost_blocks(&summary).is_err());
        let lost = serde_json::json!({"off_cpu": {"switches": {"lost": {"a": 2, "b": 3}}}});
        assert_eq!(wingbeat_lost_blocks(&lost).ok(), Some(5));
    }
}
