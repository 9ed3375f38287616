//! Projects with made-up histories: one for the demo, and more for the browser tests.

mod history;
mod hostile;
mod profiled;
mod pushed;

use std::error::Error;

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_server::{
    App,
    access::{digest, random_text},
    database::{Database, Kind, NewEntity, NewProject, Project, Visibility},
    storage::StorageError,
};
use wingbeat_track::{
    model::{
        Alert, AlertStatus, BenchmarkName, Measure, Profile, ProjectName, Report, Slug,
        ThresholdModel, threshold::Test,
    },
    store::{AlertFilter, HistoryLimits, ReportFilter, Store, StoreError},
    verdict::{self, ReportInput, Series},
};

/// Creates the article's project with this many days of history.
pub(crate) async fn article(app: &App, days: i64) -> Result<(), Box<dyn Error>> {
    let now = OffsetDateTime::now_utc();
    let url = Some("https://github.com/example/fun-xdp");
    let reports = |project: &ProjectName| history::reports(project, now, days);
    fill(app, ("fun-xdp", "fun-xdp", url), reports, profiled::of_article).await?;
    // A demo has a full day; tests have no time for that.
    let hours = if days > 100 { 24 } else { 3 };
    pushed::fill(app, "fun-xdp", &pushed::of_article(hours)).await
}

/// Creates a project whose names attack pages, as `hostile`, and one with reports of 5,000 metrics, as `large`.
pub(crate) async fn trials(app: &App) -> Result<(), Box<dyn Error>> {
    let now = OffsetDateTime::now_utc();
    let hostile = |project: &ProjectName| hostile::reports(project, now);
    let about = (hostile::PROJECT, "hostile", Some("javascript:alert(3)//"));
    fill(app, about, hostile, profiled::of_hostile).await?;
    pushed::fill(app, "hostile", &pushed::of_hostile()).await?;
    let large = |project: &ProjectName| hostile::large(project, now);
    fill(app, ("large", "large", None), large, |_| Vec::new()).await
}

/// URL at which the first admin sets a password.
pub(crate) async fn invitation(app: &App) -> Result<String, Box<dyn Error>> {
    let secret = random_text()?;
    let hash = digest(&secret);
    let make = move |database: &mut Database| {
        let now = OffsetDateTime::now_utc();
        let invite = database.create_invite(None, &hash, now, now + Duration::days(1));
        invite.map_err(StorageError::from)
    };
    app.storage.write(make).await?;
    Ok(format!("{}/auth/invite/{secret}", app.settings.public_url))
}

/// Creates a project and judges its reports in order, as if they had been uploaded.
async fn fill(
    app: &App,
    (name, slug, url): (&str, &str, Option<&str>),
    reports: impl FnOnce(&ProjectName) -> Vec<Report>,
    profiles: impl Fn(&Report) -> Vec<Profile>,
) -> Result<(), Box<dyn Error>> {
    let new = NewProject {
        name: ProjectName::new(name)?,
        slug: Some(Slug::of(slug)),
        url: url.map(str::to_owned),
        visibility: Visibility::Public,
    };
    let make = move |database: &mut Database| {
        let now = OffsetDateTime::now_utc();
        database.create_project(&new, now).map_err(StorageError::from)
    };
    let project = app.storage.write(make).await?;
    for report in reports(&project.stored) {
        let profiles = profiles(&report);
        let judge = move |database: &mut Database| {
            store(&mut database.results, report)?;
            database.results.insert_profiles(&profiles)?;
            Ok::<_, StorageError>(())
        };
        app.storage.write(judge).await?;
    }
    name_all(app, &project).await?;
    let settle = move |database: &mut Database| {
        settle_old(&mut database.results, &project.stored).map_err(StorageError::from)
    };
    Ok(app.storage.write(settle).await?)
}

/// Assigns UUIDs to all names in a project's results, like the server does on upload.
async fn name_all(app: &App, project: &Project) -> Result<(), Box<dyn Error>> {
    let project = project.clone();
    let name = move |database: &mut Database| {
        let known = database.results.known(&project.stored)?;
        let named = |slug: &str| Measure::named(slug).name.into_owned();
        let text = |names: &[BenchmarkName]| names.iter().map(ToString::to_string).collect();
        let all: [(Kind, Vec<String>); 4] = [
            (Kind::Branch, known.branches.iter().map(ToString::to_string).collect()),
            (Kind::Testbed, known.testbeds.iter().map(ToString::to_string).collect()),
            (Kind::Benchmark, text(&known.benchmarks)),
            (Kind::Measure, known.measures.iter().map(|it| named(it.as_str())).collect()),
        ];
        for (kind, names) in all {
            for name in names {
                let new = NewEntity { name: &name, slug: None, units: None };
                let now = OffsetDateTime::now_utc();
                // A taken name exists already.
                let _ = database.create_entity(project.id, kind, &new, now)?;
            }
        }
        Ok::<_, StorageError>(())
    };
    Ok(app.storage.write(name).await?)
}

const LIMITS: HistoryLimits = HistoryLimits { reports: 64, sampled_reports: 0 };

/// Judges a report against the stored history, and stores it.
fn store(store: &mut Store, mut report: Report) -> Result<(), StoreError> {
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
    let decision = verdict::decide(&input, &verdict::Settings::default());
    let alerts = decision.alerts.iter().filter_map(|&place| decision.verdicts.get(place));
    report.alerts = alerts.map(|verdict| Alert::of(Uuid::now_v7(), verdict)).collect();
    report.verdicts = decision.verdicts;
    store.insert(&report).map(drop)
}

/// Dismisses alerts older than two weeks, every second one with a reason.
fn settle_old(store: &mut Store, project: &ProjectName) -> Result<(), StoreError> {
    let reports = ReportFilter {
        project: Some(project.clone()),
        until: Some(OffsetDateTime::now_utc() - Duration::days(14)),
        ..ReportFilter::default()
    };
    let status = Some(AlertStatus::Active);
    let filter = AlertFilter { reports, status, ..AlertFilter::default() };
    for (number, stored) in store.alerts(&filter, 1000)?.into_iter().enumerate() {
        let reason = (number % 2 == 0).then(|| "repaired in the next release".to_owned());
        store.set_alert_status(stored.alert.uuid, AlertStatus::Dismissed, reason)?;
    }
    Ok(())
}
