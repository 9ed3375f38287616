//! libtest's JSON lines (`cargo bench -- -Z unstable-options --format json`), one event each.
//!
//! ```text
//! { "type": "suite", "event": "started", "test_count": 2 }
//! { "type": "bench", "name": "sum", "median": 1234.5, "deviation": 7.8, "mib_per_second": 451 }
//! { "type": "test", "name": "bad", "event": "failed", "stdout": "…" }
//! ```

use std::borrow::Cow;

use serde::Deserialize;

use super::Figures;
use crate::adapter::prelude::*;

pub(super) enum Event<'t> {
    Begun,
    Ended,
    Bench {
        name: Cow<'t, str>,
        figures: Figures,
    },
    Failed {
        name: Cow<'t, str>,
        /// The captured output, or another reason of the failure.
        said: Cow<'t, str>,
    },
}

#[derive(Deserialize)]
struct Line<'t> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    event: Option<Cow<'t, str>>,
    #[serde(borrow)]
    name: Option<Cow<'t, str>>,
    median: Option<f64>,
    #[serde(default)]
    deviation: f64,
    mib_per_second: Option<f64>,
    #[serde(borrow)]
    stdout: Option<Cow<'t, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'t, str>>,
}

fn around(median: f64, deviation: f64) -> Metric {
    Metric::new(median).within(median - deviation, median + deviation)
}

/// The event in a line. A malformed result line is an error.
pub(super) fn event(line: &str) -> Result<Option<Event<'_>>, String> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    let is_bench = line.contains("\"type\": \"bench\"") || line.contains("\"type\":\"bench\"");
    let line: Line<'_> = match serde_json::from_str(line.trim()) {
        Ok(line) => line,
        Err(error) if is_bench => return Err(error.to_string()),
        Err(_) => return Ok(None),
    };
    Ok(match (&*line.kind, line.event.as_deref(), line.name) {
        ("suite", Some("started"), _) => Some(Event::Begun),
        ("suite", Some("ok" | "failed"), _) => Some(Event::Ended),
        ("bench", None, Some(name)) => Some(Event::Bench {
            name,
            figures: Figures {
                time: around(line.median.ok_or("it has no median")?, line.deviation),
                counts: None,
                // Assumed: integers in JSON show no decimals.
                has_decimals: true,
                // In units of 1,000,000 bytes, despite the name.
                megabytes_per_second: line.mib_per_second,
            },
        }),
        ("test" | "bench", Some("failed"), Some(name)) => {
            let said = line.stdout.or(line.reason).unwrap_or_default();
            Some(Event::Failed { name, said })
        }
        _ => None,
    })
}
