//! The server's response to a report: the members needed from Bencher's `JsonReport`, and links.

use serde::Deserialize;
use serde_json::Value;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    bencher::{JsonAlert, JsonReport, JsonVisibility},
    explain::Explained,
    model::{AlertStatus, Boundary, Limit, Notice},
};

/// Days before the report shown by links, as in Bencher's client.
const LINK_DAYS: i64 = 30;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The report as returned by the server, for `--format json`.
    pub json: Value,
    pub uuid: Uuid,
    /// Number of metrics in all iterations.
    pub metrics: usize,
    /// Number of metrics that the server judges.
    pub judged: usize,
    /// Of these, the number with enough history for a limit.
    pub compared: usize,
    /// Total number of alerts, used by `--err`.
    pub alerts_total: u64,
    /// Number of alerts that are neither dismissed nor silenced.
    pub alerts_active: u64,
    pub alerts: Vec<RemoteAlert>,
    /// Address of the report in the console, if known.
    pub report_url: Option<String>,
    /// Plots in the console by benchmark and measure, if their addresses are known.
    pub plots: Vec<(String, String)>,
    pub claim_url: Option<String>,
    /// A wingbeat server's notices about the whole report.
    pub notices: Vec<Notice>,
    pub warnings: Vec<String>,
    /// Explanations of alerts, once the profiles were sent.
    pub explained: Vec<Explained>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RemoteAlert {
    pub benchmark: String,
    pub measure: String,
    pub units: String,
    pub value: f64,
    pub baseline: Option<f64>,
    pub limit: Limit,
    pub limit_value: Option<f64>,
    pub status: AlertStatus,
    pub url: Option<String>,
}

fn has_limit(boundary: Boundary) -> bool {
    boundary.lower_limit.or(boundary.upper_limit).is_some()
}

impl Answer {
    /// Parses a `JsonReport`. Only the members that Bencher's client requires are mandatory.
    pub(super) fn parse(text: &str) -> Result<(Self, Links), serde_json::Error> {
        let json: Value = serde_json::from_str(text)?;
        let report = JsonReport::deserialize(&json)?;
        Ok(Self::of(json, report))
    }

    /// `json` is the whole of the report, for `--format json`.
    pub(super) fn of(json: Value, report: JsonReport) -> (Self, Links) {
        let alerts: Vec<RemoteAlert> =
            report.alerts.iter().flatten().map(RemoteAlert::of).collect();
        let active = alerts.iter().filter(|alert| alert.status == AlertStatus::Active).count();
        let counts = report.counts.as_ref().map(|counts| counts.alerts);
        let measures = || report.results.iter().flatten().flatten().flat_map(|it| &it.measures);
        let answer = Self {
            uuid: report.uuid,
            metrics: measures().count(),
            // Bencher's servers judge by thresholds; a history that is too short leaves no boundary.
            judged: measures().filter(|it| it.threshold.is_some() || it.boundary.is_some()).count(),
            compared: measures().filter(|it| it.boundary.is_some_and(has_limit)).count(),
            alerts_total: counts.map_or(alerts.len() as u64, |counts| counts.total),
            alerts_active: counts.map_or(active as u64, |counts| counts.active),
            alerts,
            notices: report.notices.clone(),
            json,
            ..Self::default()
        };
        (answer, Links(report))
    }
}

impl RemoteAlert {
    fn of(alert: &JsonAlert) -> Self {
        Self {
            benchmark: alert.benchmark.name.clone(),
            measure: alert.threshold.measure.name.clone(),
            units: alert.threshold.measure.units.clone(),
            value: alert.metric.value,
            baseline: alert.boundary.baseline,
            limit: alert.limit,
            limit_value: alert.boundary.limit(alert.limit),
            status: alert.status,
            url: None,
        }
    }
}

pub(super) struct Links(JsonReport);

impl Links {
    /// Sets the addresses in the form of Bencher's client.
    pub(super) fn fill(&self, answer: &mut Answer, console: &str, is_public: bool) {
        let report = &self.0;
        let console = console.trim_end_matches('/');
        let slug = encoded(&report.project.slug);
        let base = match report.project.visibility {
            JsonVisibility::Private if !is_public => format!("{console}/console/projects/{slug}"),
            _ => format!("{console}/perf/{slug}"),
        };
        answer.report_url = Some(format!("{base}/reports/{}", report.uuid));
        // Plots of a private project are on a separate page.
        let plots = if base.contains("/console/") { format!("{base}/perf") } else { base };
        for (alert, json) in answer.alerts.iter_mut().zip(report.alerts.iter().flatten()) {
            let (benchmark, measure) = (json.benchmark.uuid, json.threshold.measure.uuid);
            alert.url = Some(self.plot(&plots, benchmark, measure, Some(json.boundary)));
        }
        for result in report.results.iter().flatten().flatten() {
            for measure in &result.measures {
                let (benchmark, name) = (&result.benchmark, &measure.measure.name);
                let several = report.results.as_ref().is_some_and(|results| results.len() > 1);
                let iteration = match several {
                    true => format!(" (iteration {})", u64::from(result.iteration) + 1),
                    false => String::new(),
                };
                let url = self.plot(&plots, benchmark.uuid, measure.measure.uuid, measure.boundary);
                answer.plots.push((format!("{} {name}{iteration}", benchmark.name), url));
            }
        }
        if report.project.claimed.is_none() {
            let organization = report.project.organization;
            answer.claim_url = Some(format!("{console}/auth/signup?claim={organization}"));
        }
    }

    fn plot(
        &self,
        base: &str,
        benchmark: Uuid,
        measure: Uuid,
        boundary: Option<Boundary>,
    ) -> String {
        let report = &self.0;
        let ms = |time: OffsetDateTime| time.unix_timestamp_nanos() / 1_000_000;
        let begin = report.start_time.checked_sub(Duration::days(LINK_DAYS));
        let mut url = format!(
            "{base}?branches={}&heads={}&testbeds={}&benchmarks={benchmark}&measures={measure}\
             &start_time={}&end_time={}&report={}",
            report.branch.uuid,
            report.branch.head.uuid,
            report.testbed.uuid,
            ms(begin.unwrap_or(report.start_time)),
            ms(report.end_time),
            report.uuid,
        );
        for (name, limit) in [
            ("lower_boundary", boundary.and_then(|boundary| boundary.lower_limit)),
            ("upper_boundary", boundary.and_then(|boundary| boundary.upper_limit)),
        ] {
            if limit.is_some() {
                url += &format!("&{name}=true");
            }
        }
        url
    }
}

/// Percent-encodes a path segment. Slugs need no encoding, but a server may send anything.
pub(super) fn encoded(part: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    part.bytes().map(byte).collect()
}
