//! Reports.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    model::{Notice, Report},
    output::{ReportRow as MetricRow, adapter_name},
    store::{AlertFilter, IterationCount, ReportFilter, ReportSummary, StoredAlert},
};

use super::{Judges, View};
use crate::{
    ApiError,
    api::{
        run::notices_of,
        shapes::{
            JsonAlertCounts, JsonIterationCounts, JsonOneMetric, JsonPerfAlert, JsonPubUser,
            JsonReport, JsonReportCounts, JsonReportMeasure, JsonReportResult,
        },
    },
    database::{Kind, ReportRow},
};

impl View<'_> {
    /// The whole report with that UUID; `None` if the project lacks it.
    pub(in crate::api) fn report(&self, uuid: Uuid) -> Result<Option<JsonReport>, ApiError> {
        let row = self.database.report(uuid)?;
        let Some(row) = row.filter(|row| row.project == self.project.id) else { return Ok(None) };
        let Some(report) = self.database.results.report(uuid)? else { return Ok(None) };
        let notices = notices_of(self.database, uuid)?;
        self.whole(&row, &report, notices).map(Some)
    }

    /// A stored report that is known already, with its notices; `None` if it was deleted meanwhile.
    pub(in crate::api) fn stored(
        &self,
        report: &Report,
        notices: Vec<Notice>,
    ) -> Result<Option<JsonReport>, ApiError> {
        let row = self.database.report(report.uuid)?;
        row.map(|row| self.whole(&row, report, notices)).transpose()
    }

    fn whole(
        &self,
        row: &ReportRow,
        report: &Report,
        notices: Vec<Notice>,
    ) -> Result<JsonReport, ApiError> {
        let branch = self.branch_of(report)?;
        let testbed = self.named(Kind::Testbed, report.testbed.as_str())?;
        let mut alerts = Vec::new();
        for alert in self.alerts_of(report)? {
            alerts.push(self.alert(row, branch.clone(), &alert)?);
        }
        Ok(JsonReport {
            uuid: report.uuid,
            user: user(row),
            project: self.project(),
            branch,
            testbed: self.testbed(&testbed),
            start_time: report.start_time,
            end_time: report.end_time,
            adapter: adapter_name(report.adapter).to_owned(),
            results: Some(self.results(row, report)?),
            alerts: Some(alerts),
            counts: Some(JsonReportCounts::of(report)),
            notices,
            created: row.created,
            wingbeat: None,
        })
    }

    /// A report without its content.
    pub(in crate::api) fn report_in_list(
        &self,
        report: &ReportSummary,
    ) -> Result<Option<JsonReport>, ApiError> {
        let Some(row) = self.database.report(report.uuid)? else { return Ok(None) };
        let testbed = self.named(Kind::Testbed, report.testbed.as_str())?;
        let (total, active) = (report.alerts, report.active_alerts);
        Ok(Some(JsonReport {
            uuid: report.uuid,
            user: user(&row),
            project: self.project(),
            branch: self.branch_of_summary(report)?,
            testbed: self.testbed(&testbed),
            start_time: report.start_time,
            end_time: report.end_time,
            adapter: adapter_name(report.adapter).to_owned(),
            results: None,
            alerts: None,
            counts: Some(JsonReportCounts {
                results: self.counts(report.uuid)?,
                alerts: JsonAlertCounts { total, active },
            }),
            notices: Vec::new(),
            created: row.created,
            wingbeat: None,
        }))
    }

    /// A metric of a report, by its index.
    pub(in crate::api) fn metric(&self, uuid: Uuid) -> Result<Option<JsonOneMetric>, ApiError> {
        let found = self.database.find_metric(uuid)?;
        let Some((row, position)) = found.filter(|(row, _)| row.project == self.project.id) else {
            return Ok(None);
        };
        let Some(report) = self.database.results.report(row.uuid)? else { return Ok(None) };
        let rows = MetricRow::all(&report, &[]);
        let Some(found) = rows.get(position as usize) else { return Ok(None) };
        let alerts = self.alerts_of(&report)?;
        let alert = alerts.iter().find(|alert| alert.position == position);
        let testbed = self.named(Kind::Testbed, report.testbed.as_str())?;
        let measure = self.named(Kind::Measure, found.measure.slug.as_str())?;
        let benchmark = self.named(Kind::Benchmark, found.benchmark.name.as_str())?;
        let branch = self.named(Kind::Branch, report.branch.as_str())?;
        let judges = Judges::of(self, &branch, &testbed)?;
        Ok(Some(JsonOneMetric {
            uuid,
            report: report.uuid,
            iteration: found.iteration,
            start_time: report.start_time,
            end_time: report.end_time,
            branch: self.branch_of(&report)?,
            testbed: self.testbed(&testbed),
            benchmark: self.entity(&benchmark),
            measure: self.measure(&measure),
            metric: found.metric_json(uuid),
            threshold: judges.at(&measure, row.created, is_judged(found)),
            boundary: found.verdict.and_then(|verdict| verdict.boundary),
            alert: alert.map(|alert| perf_alert(row.created, alert)),
        }))
    }

    fn results(
        &self,
        row: &ReportRow,
        report: &Report,
    ) -> Result<Vec<Vec<JsonReportResult>>, ApiError> {
        let branch = self.named(Kind::Branch, report.branch.as_str())?;
        let testbed = self.named(Kind::Testbed, report.testbed.as_str())?;
        let judges = Judges::of(self, &branch, &testbed)?;
        let rows = MetricRow::all(report, &[]);
        let mut rest = (0..).zip(&rows);
        let mut iterations = Vec::new();
        for (iteration, results) in (0..).zip(&report.iterations) {
            let mut benchmarks = Vec::new();
            for benchmark in &results.benchmarks {
                let mut measures = Vec::new();
                for (position, it) in rest.by_ref().take(benchmark.metrics.len()) {
                    let measure = self.named(Kind::Measure, it.measure.slug.as_str())?;
                    measures.push(JsonReportMeasure {
                        measure: self.measure(&measure),
                        metric: it.metric_json(row.metric(position)),
                        threshold: judges.at(&measure, row.created, is_judged(it)),
                        boundary: it.verdict.and_then(|verdict| verdict.boundary),
                        wingbeat: Some(it.json()),
                    });
                }
                let benchmark = self.named(Kind::Benchmark, benchmark.name.as_str())?;
                let benchmark = self.entity(&benchmark);
                benchmarks.push(JsonReportResult { iteration, benchmark, measures });
            }
            iterations.push(benchmarks);
        }
        Ok(iterations)
    }

    fn counts(&self, report: Uuid) -> Result<Vec<JsonIterationCounts>, ApiError> {
        let json = |count: IterationCount| JsonIterationCounts {
            benchmarks: count.benchmarks,
            measures: count.measures,
        };
        Ok(self.database.results.iteration_counts(report)?.into_iter().map(json).collect())
    }

    /// Alerts of a report with their status.
    fn alerts_of(&self, report: &Report) -> Result<Vec<StoredAlert>, ApiError> {
        if report.alerts.is_empty() {
            return Ok(Vec::new());
        }
        let reports = ReportFilter { uuid: Some(report.uuid), ..ReportFilter::of(&report.project) };
        let filter = AlertFilter { reports, ..AlertFilter::default() };
        Ok(self.database.results.alerts(&filter, usize::MAX)?)
    }
}

fn is_judged(row: &MetricRow<'_>) -> bool {
    row.verdict.is_some_and(|verdict| verdict.test.is_some())
}

/// The alert of a report that was received at this time.
pub(super) fn perf_alert(received: OffsetDateTime, stored: &StoredAlert) -> JsonPerfAlert {
    JsonPerfAlert {
        uuid: stored.alert.uuid,
        limit: stored.alert.limit,
        status: stored.alert.status,
        modified: stored.changed.unwrap_or(received),
    }
}

fn user(row: &ReportRow) -> Option<JsonPubUser> {
    row.user.as_ref().map(|user| JsonPubUser {
        uuid: user.uuid,
        name: user.name.clone(),
        slug: user.slug.clone(),
    })
}
