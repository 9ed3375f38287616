//! The agent's own metrics, in Prometheus's text format (exposition format 0.0.4).

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use wingbeat_profiler::session::{NameCounts, Rates, Window};

use crate::{divide::Divided, governor::OwnUse, pods::PodCounts, pusher::Counts};

/// Sums since the start, and last measurements.
#[derive(Debug, Default)]
pub struct Metrics {
    windows: u64,
    samples: u64,
    /// By reason.
    broken: BTreeMap<&'static str, u64>,
    lost: u64,
    failed: u64,
    events_lost: u64,
    switches_lost: u64,
    dropped: u64,
    pods: Option<PodCounts>,
    series: u64,
    keep_errors: u64,
    used: Option<OwnUse>,
    rates: Option<Rates>,
    bpf_bytes: u64,
    names: NameCounts,
    pushes: Pushes,
}

/// Current counts of each target, by name.
#[derive(Default)]
struct Pushes(Vec<(String, CountsOf)>);

type CountsOf = Box<dyn Fn() -> Counts + Send + Sync>;

impl fmt::Debug for Pushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Metrics {
    /// Adds a window.
    pub(crate) fn window(&mut self, divided: &Divided, window: &Window) {
        self.windows += 1;
        self.samples += divided.samples;
        for (reason, samples) in &divided.broken {
            *self.broken.entry(reason).or_default() += samples;
        }
        self.dropped += divided.dropped;
        self.lost += window.ticks.lost;
        self.failed += window.ticks.failed.values().sum::<u64>();
        self.events_lost += window.events_lost;
        self.switches_lost += window.switches_lost;
        self.series = divided.window.series.len() as u64;
    }

    /// Records the agent's resource use, its rates, and the kernel memory of its tables and buffers.
    pub(crate) fn used(&mut self, used: OwnUse, rates: Rates, bpf_bytes: u64) {
        (self.used, self.rates, self.bpf_bytes) = (Some(used), Some(rates), bpf_bytes);
    }

    /// Records the requests to the kubelet.
    pub(crate) fn pods(&mut self, counts: PodCounts) {
        self.pods = Some(counts);
    }

    /// Counts a window that could not be stored.
    pub(crate) fn keep_failed(&mut self) {
        self.keep_errors += 1;
    }

    /// Records how often files were read for names.
    pub(crate) fn names(&mut self, names: NameCounts) {
        self.names = names;
    }

    /// Adds a target, whose counts are queried for each export.
    pub(crate) fn push_to(
        &mut self,
        name: String,
        counts: impl Fn() -> Counts + Send + Sync + 'static,
    ) {
        self.pushes.0.push((name, Box::new(counts)));
    }

    /// Formats the metrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let counters = [
            ("windows", self.windows, "Recorded windows"),
            ("samples", self.samples, "Recorded samples"),
            ("samples_lost", self.lost, "Samples lost because the buffer was full"),
            ("samples_failed", self.failed, "Samples that the kernel could not record"),
            ("events_lost", self.events_lost, "Process events lost because the buffer was full"),
            ("switches_lost", self.switches_lost, "Lost blocks off the CPU"),
            ("samples_dropped", self.dropped, "Samples dropped by rules"),
            ("symbol_files_read", self.names.read, "Files read for function names"),
            ("symbol_files_loaded", self.names.loaded, "Files whose function names were on disk"),
            ("keep_errors", self.keep_errors, "Windows that could not be stored on disk"),
        ];
        for (name, value, help) in counters {
            one(&mut text, &format!("{name}_total"), "counter", help, value);
        }
        self.broken_text(&mut text);
        if let Some(PodCounts { requests, errors }) = self.pods {
            let help = "Requests to the kubelet";
            one(&mut text, "kubelet_requests_total", "counter", help, requests);
            let help = "Requests to the kubelet that failed";
            one(&mut text, "kubelet_errors_total", "counter", help, errors);
        }
        if let Some(used) = self.used {
            let cpu_s = used.cpu_ns as f64 / 1e9;
            one(&mut text, "cpu_seconds_total", "counter", "CPU time of the agent", cpu_s);
            let help = "Resident memory of the agent";
            one(&mut text, "memory_bytes", "gauge", help, used.rss_bytes);
        }
        let help = "Memory of unwind tables and buffers in the kernel";
        one(&mut text, "bpf_memory_bytes", "gauge", help, self.bpf_bytes);
        self.rates_text(&mut text);
        one(&mut text, "series", "gauge", "Label sets in the last window", self.series);
        self.push_text(&mut text);
        text
    }

    fn rates_text(&self, text: &mut String) {
        let Some(Rates { frequency_hz, min_block_ns, faults }) = self.rates else { return };
        one(text, "frequency_hertz", "gauge", "Samples per second and CPU", frequency_hz);
        if let Some(min_block_ns) = min_block_ns {
            let help = "Minimum duration of a separately recorded block off the CPU";
            one(text, "min_block_seconds", "gauge", help, min_block_ns as f64 / 1e9);
        }
        if let Some(faults) = faults {
            one(text, "faults_per_sample", "gauge", "Page faults per sample", faults);
        }
    }

    fn broken_text(&self, text: &mut String) {
        let name = "stacks_broken_total";
        head(text, name, "counter", "Samples with an incomplete stack, by reason");
        for (reason, samples) in &self.broken {
            let _ = writeln!(text, "wingbeat_agent_{name}{{reason=\"{reason}\"}} {samples}");
        }
    }

    fn push_text(&self, text: &mut String) {
        type Of = fn(&Counts) -> u64;
        let all: [(&str, &str, Of, &str); 6] = [
            ("pushed_total", "counter", |it| it.pushed, "Windows accepted by the target"),
            ("push_retries_total", "counter", |it| it.retries, "Failed attempts that are repeated"),
            ("push_rejected_total", "counter", |it| it.rejected, "Windows refused by the target"),
            ("push_dropped_total", "counter", |it| it.dropped, "Windows dropped for lack of room"),
            ("push_waiting", "gauge", |it| it.waiting, "Waiting windows"),
            ("push_waiting_bytes", "gauge", |it| it.waiting_bytes, "Bytes of waiting windows"),
        ];
        let pushes: Vec<(&str, Counts)> =
            self.pushes.0.iter().map(|(name, counts)| (name.as_str(), counts())).collect();
        for (name, kind, of, help) in all.into_iter().filter(|_| !pushes.is_empty()) {
            head(text, name, kind, help);
            for (target, counts) in &pushes {
                let target = escaped(target);
                let _ =
                    writeln!(text, "wingbeat_agent_{name}{{target=\"{target}\"}} {}", of(counts));
            }
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP wingbeat_agent_{name} {help}");
    let _ = writeln!(text, "# TYPE wingbeat_agent_{name} {kind}");
}

fn one(text: &mut String, name: &str, kind: &str, help: &str, value: impl fmt::Display) {
    head(text, name, kind, help);
    let _ = writeln!(text, "wingbeat_agent_{name} {value}");
}

/// Escapes a label value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_format() {
        let mut metrics = Metrics::default();
        metrics.keep_failed();
        let used = OwnUse { cpu_share: 0.01, cpu_ns: 1_500_000_000, rss_bytes: 4096 };
        let rates = Rates { frequency_hz: 19, min_block_ns: Some(2_000_000), faults: None };
        metrics.used(used, rates, 7);
        metrics.push_to("a\"b".to_owned(), || Counts { pushed: 3, ..Counts::default() });
        let text = metrics.text();
        for line in [
            "wingbeat_agent_keep_errors_total 1",
            "wingbeat_agent_cpu_seconds_total 1.5",
            "# TYPE wingbeat_agent_frequency_hertz gauge",
            "wingbeat_agent_frequency_hertz 19",
            "wingbeat_agent_min_block_seconds 0.002",
            "wingbeat_agent_pushed_total{target=\"a\\\"b\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let names = text.lines().filter(|line| !line.starts_with('#'));
        assert!(names.clone().count() > 10);
        assert!(names.into_iter().all(|line| line.starts_with("wingbeat_agent_")));
    }
}
