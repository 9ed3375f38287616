//! Metrics in Prometheus' text format.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::storage::Storage;

/// Upper bounds of the duration histogram, in seconds.
const BOUNDS_S: [f64; 7] = [0.005, 0.02, 0.1, 0.5, 2.0, 10.0, f64::INFINITY];

/// Request counters.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<BTreeMap<(&'static str, String), Requests>>);

/// Requests of one method and route.
#[derive(Debug, Default, Clone)]
struct Requests {
    by_status: BTreeMap<u16, u64>,
    by_duration: [u64; BOUNDS_S.len()],
    duration: Duration,
}

impl Metrics {
    /// Counts a request.
    pub fn count(&self, method: &str, route: &str, status: u16, duration: Duration) {
        // Arbitrary methods could grow the table without bound.
        let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
        let method = known.into_iter().find(|known| *known == method).unwrap_or("other");
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = table.entry((method, route.to_owned())).or_default();
        *requests.by_status.entry(status).or_default() += 1;
        let class = BOUNDS_S.iter().position(|&bound_s| duration.as_secs_f64() <= bound_s);
        requests.by_duration[class.unwrap_or(BOUNDS_S.len() - 1)] += 1;
        requests.duration += duration;
    }

    /// All metrics as text, including those of the database and the process.
    pub async fn text(&self, storage: &Storage) -> String {
        let bytes = storage.bytes().await;
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = requests(&table);
        let mut gauge = |name: &str, help: &str, labels: &str, value: u64| {
            // Writing to a string cannot fail.
            let _ =
                write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{labels} {value}\n");
        };
        gauge("wingbeat_write_queue_length", "Writes that wait.", "", storage.waiting() as u64);
        let help = "Size of the database with its log, in bytes.";
        gauge("wingbeat_database_bytes", help, "", bytes);
        if let Some(bytes) = resident_bytes() {
            gauge("process_resident_memory_bytes", "Resident memory, in bytes.", "", bytes);
        }
        gauge(
            "wingbeat_build_info",
            "Version of this server.",
            &format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")),
            1,
        );
        text
    }
}

fn requests(table: &BTreeMap<(&'static str, String), Requests>) -> String {
    let mut text = String::from(
        "# HELP wingbeat_http_requests_total Answered requests.\n\
         # TYPE wingbeat_http_requests_total counter\n",
    );
    for ((method, route), requests) in table {
        for (status, count) in &requests.by_status {
            let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
            let _ = writeln!(text, "wingbeat_http_requests_total{{{labels}}} {count}");
        }
    }
    text.push_str(
        "# HELP wingbeat_http_request_duration_seconds Time from request to answer.\n\
         # TYPE wingbeat_http_request_duration_seconds histogram\n",
    );
    let name = "wingbeat_http_request_duration_seconds";
    for ((method, route), requests) in table {
        let labels = format!("method=\"{method}\",route=\"{route}\"");
        let mut sum = 0;
        for (bound_s, count) in BOUNDS_S.iter().zip(requests.by_duration) {
            sum += count;
            let bound = if bound_s.is_finite() { bound_s.to_string() } else { "+Inf".to_owned() };
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {sum}");
        }
        let seconds = requests.duration.as_secs_f64();
        let _ = writeln!(text, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {sum}");
    }
    text
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let metrics = Metrics::default();
        metrics.count("GET", "/v0/projects/{project}", 200, Duration::from_millis(3));
        metrics.count("GET", "/v0/projects/{project}", 404, Duration::from_millis(30));
        metrics.count("BREW", "none", 405, Duration::from_secs(99));
        let text = requests(&metrics.0.lock().expect("sound"));
        let check = |line: &str| assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        let route = "method=\"GET\",route=\"/v0/projects/{project}\"";
        check(&format!("wingbeat_http_requests_total{{{route},status=\"200\"}} 1"));
        check(&format!("wingbeat_http_requests_total{{{route},status=\"404\"}} 1"));
        check("wingbeat_http_requests_total{method=\"other\",route=\"none\",status=\"405\"} 1");
        let bucket = "wingbeat_http_request_duration_seconds_bucket";
        check(&format!("{bucket}{{{route},le=\"0.005\"}} 1"));
        check(&format!("{bucket}{{{route},le=\"0.1\"}} 2"));
        check(&format!("{bucket}{{{route},le=\"+Inf\"}} 2"));
        check(&format!("wingbeat_http_request_duration_seconds_sum{{{route}}} 0.033"));
        check(&format!("{bucket}{{method=\"other\",route=\"none\",le=\"10\"}} 0"));
        check(&format!("{bucket}{{method=\"other\",route=\"none\",le=\"+Inf\"}} 1"));
    }

    #[test]
    fn the_process_has_memory() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
