//! Judges reports of a made-up history, and dismisses old alerts.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::{
    detect::{self, ReportInput, Series},
    model::{Alert, AlertStatus, ProjectName, Report, ThresholdModel, threshold::Test},
    store::{AlertFilter, HistoryLimits, ReportFilter, Store, StoreError},
};

const LIMITS: HistoryLimits = HistoryLimits { reports: 64, sampled_reports: 0 };

/// Judges a report against the stored history, and stores it.
pub(crate) fn store(store: &mut Store, mut report: Report) -> Result<(), StoreError> {
    let past = store.history(&report, LIMITS)?;
    let series = report.metrics().map(|(iteration, benchmark, measure, metric)| Series {
        iteration,
        model: Some(ThresholdModel::new(Test::Auto)),
        history: past.find(&benchmark.name, measure).map_or(&[][..], |past| &past.points),
        ..Series::new(&benchmark.name, measure, metric)
    });
    let input = ReportInput {
        start_time: report.start_time,
        environment: &report.environment,
        hash: report.hash.as_deref(),
        past: &past.reports,
        series: series.collect(),
    };
    let decision = detect::detect(&input, &detect::Settings::default());
    let alerts = decision.alerts.iter().filter_map(|&place| decision.verdicts.get(place));
    report.alerts = alerts.map(|verdict| Alert::of(Uuid::now_v7(), verdict)).collect();
    report.verdicts = decision.verdicts;
    store.insert(&report).map(drop)
}

/// Dismisses alerts older than two weeks, every second one with a reason.
pub(crate) fn settle_old(store: &mut Store, project: &ProjectName) -> Result<(), StoreError> {
    let reports = ReportFilter {
        project: Some(project.clone()),
        until: Some(OffsetDateTime::now_utc() - Duration::days(14)),
        ..ReportFilter::default()
    };
    let filter = AlertFilter { reports, status: Some(AlertStatus::Active), uuid: None };
    for (number, stored) in store.alerts(&filter, 1000)?.into_iter().enumerate() {
        let reason = (number % 2 == 0).then(|| "repaired in the next release".to_owned());
        store.set_alert_status(stored.alert.uuid, AlertStatus::Dismissed, reason)?;
    }
    Ok(())
}
