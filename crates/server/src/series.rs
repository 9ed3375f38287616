//! Series in one line each: the newest value, how it changed, how it went. They are kept beside the results, since
//! a table of thousands of them would read all of the history: after each report that came or went, the rows
//! of its branch and testbed are made anew from the newest reports. Where rows come from does not show in
//! them, so that it may be done again at any time, and in any order.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use time::Duration;
use wingbeat_stats::{changes, sample::median};
use wingbeat_track::{
    model::{BranchName, MeasureKind, PastReport, ProjectName},
    store::{Plot, PlotQuery, PlotSeries, ReportFilter, Store, StoreError, Stretch},
};

pub use crate::registry::{LastChange, Newest, SeriesRow};
use crate::{ApiError, App, registry::Project, storage::Databases};

/// Values that a small picture has at most.
const SPARK_MAX: usize = 60;

/// Newest reports that count at most: a page is no archive.
const REPORTS_MAX: usize = 1000;

/// Newest reports that count, however many series there are.
const REPORTS_MIN: usize = 60;

/// Values that are read for the rows of a branch and a testbed, unless those are more of so few reports.
const VALUES_MAX: usize = 200_000;

/// What changed within this time is news.
const RECENT: Duration = Duration::days(30);

/// Reports that come within this time are one change.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// Projects whose rows are to be looked at.
#[derive(Debug, Default)]
pub struct Refresher(Mutex<Wanted>);

#[derive(Debug, Default)]
struct Wanted {
    projects: BTreeSet<i64>,
    is_running: bool,
}

/// Has the rows of a project made anew, soon, where reports came or went.
pub(crate) fn touch(app: &App, project: i64) {
    let mut wanted = app.series.0.lock().unwrap_or_else(PoisonError::into_inner);
    wanted.projects.insert(project);
    if !wanted.is_running {
        wanted.is_running = true;
        tokio::spawn(work(app.clone()));
    }
}

/// How often a server looks after what others of its database left undone as they were killed.
const LOOK_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

/// Looks after all projects, now and then again where other servers share the database.
pub(crate) async fn look_after(app: App) {
    touch_all(&app).await;
    while app.storage.is_shared() {
        tokio::time::sleep(LOOK_AFTER).await;
        touch_all(&app).await;
    }
}

/// The same for all projects: somebody may have put other results there.
async fn touch_all(app: &App) {
    let list = |databases: &Databases| Ok::<_, ApiError>(databases.registry.projects()?);
    match app.storage.read(list).await {
        Ok(projects) => projects.iter().for_each(|project| touch(app, project.id)),
        Err(error) => tracing::warn!("cannot make the table of series: {error}"),
    }
}

async fn work(app: App) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let projects = {
            let mut wanted = app.series.0.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.is_running = !wanted.projects.is_empty();
            std::mem::take(&mut wanted.projects)
        };
        if projects.is_empty() {
            return;
        }
        for project in projects {
            if let Err(error) = refresh(&app, project).await {
                tracing::warn!("the table of series is as it was: {error}");
                // A queue that is full now is not later; anything else shows again with the next report.
                if error.status == axum::http::StatusCode::SERVICE_UNAVAILABLE {
                    let mut wanted = app.series.0.lock().unwrap_or_else(PoisonError::into_inner);
                    wanted.projects.insert(project);
                }
            }
        }
    }
}

/// Makes the rows of a project anew where its reports are not those that they were made of.
pub async fn refresh(app: &App, project: i64) -> Result<(), ApiError> {
    let find = move |databases: &Databases| {
        let projects = databases.registry.projects()?;
        let Some(project) = projects.into_iter().find(|known| known.id == project) else {
            return Ok(None);
        };
        let stretches = databases.results.stretches(&project.stored)?;
        let states = databases.registry.series_states(project.id)?;
        Ok::<_, ApiError>(Some((project, stretches, states)))
    };
    let Some((project, stretches, states)) = app.storage.read(find).await? else { return Ok(()) };
    let mut states: HashMap<_, _> =
        states.into_iter().map(|it| ((it.branch, it.testbed), it.state)).collect();
    for stretch in stretches {
        let key = (stretch.branch.clone(), stretch.testbed.clone());
        if states.remove(&key).as_ref() == Some(&stretch.state) {
            continue;
        }
        let stored = project.stored.clone();
        let read = move |databases: &Databases| {
            let plot = newest(&databases.results, stored, &stretch)?;
            let rows: Vec<_> = plot.series.iter().filter_map(|one| row(&plot, one)).collect();
            Ok::<_, ApiError>((stretch, rows))
        };
        let (stretch, rows) = app.storage.read(read).await?;
        let stored = project.stored.clone();
        let save = move |databases: &mut Databases| {
            // Another server of the database may have made rows of newer reports meanwhile.
            let is_latest = databases.results.stretches(&stored)?.contains(&stretch);
            if is_latest {
                databases.registry.set_series(project.id, &stretch, &rows)?;
            }
            Ok::<_, ApiError>(is_latest)
        };
        if !app.storage.write(save).await? {
            touch(app, project.id);
        }
    }
    // What is left has no report any more.
    for ((branch, testbed), _) in states {
        let gone = Stretch { branch, testbed, state: String::new() };
        let save = move |databases: &mut Databases| {
            Ok::<_, ApiError>(databases.registry.set_series(project.id, &gone, &[])?)
        };
        app.storage.write(save).await?;
    }
    Ok(())
}

/// The newest reports of a branch and a testbed.
fn newest(results: &Store, project: ProjectName, stretch: &Stretch) -> Result<Plot, StoreError> {
    let reports = ReportFilter {
        project: Some(project.clone()),
        branch: Some(stretch.branch.clone()),
        testbed: Some(stretch.testbed.clone()),
        ..ReportFilter::default()
    };
    let metrics = results.reports(&reports, 1)?.first().map_or(1, |report| report.metrics.max(1));
    let metrics = usize::try_from(metrics).unwrap_or(usize::MAX);
    results.plot(&PlotQuery {
        branches: vec![stretch.branch.clone()],
        testbeds: vec![stretch.testbed.clone()],
        reports_max: (VALUES_MAX / metrics).clamp(REPORTS_MIN, REPORTS_MAX),
        ..PlotQuery::of(project)
    })
}

/// The rows that are kept of a project, on one of these branches. `None` where there are none yet.
pub(crate) fn kept(
    databases: &Databases,
    project: &Project,
    branches: &[BranchName],
) -> Result<Option<Vec<SeriesRow>>, ApiError> {
    let states = databases.registry.series_states(project.id)?;
    let is_chosen = |branch: &BranchName| branches.is_empty() || branches.contains(branch);
    if !states.iter().any(|state| is_chosen(&state.branch)) {
        return Ok(None);
    }
    let mut rows = databases.registry.series(project.id, branches)?;
    rows.sort_by(|a, b| a.key().cmp(&b.key()));
    Ok(Some(rows))
}

impl SeriesRow {
    fn key(&self) -> impl Ord + use<'_> {
        (&self.branch, &self.testbed, &self.benchmark, &self.measure.slug, &self.measure.units)
    }
}

/// A series in one line; `None` if it has no values.
pub(crate) fn row(plot: &Plot, series: &PlotSeries) -> Option<SeriesRow> {
    let report = |index: usize| plot.reports.get(series.points.get(index)?.report);
    let last = series.points.last()?;
    let newest = report(series.points.len() - 1)?;
    let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    let old = series.points.iter().filter(|point| {
        plot.reports.get(point.report).is_some_and(|report| is_old(report, newest))
    });
    // The window before is as long: older levels are no news.
    let old: Vec<f64> = old.map(|point| point.value).collect();
    let old = old[old.len().saturating_sub(20)..].to_vec();
    let change_30d = (!old.is_empty()).then(|| {
        let before = median(old);
        (last.value - before) / before.abs()
    });
    let mut settings = changes::Settings::default();
    if series.measure.kind == MeasureKind::Exact {
        settings.change_min = 0.0;
    }
    let found = changes::find(&values, &settings);
    let last_change_point = found.last().and_then(|change| {
        let report = report(change.index)?;
        let relative = (change.after - change.before) / change.before.abs();
        Some(LastChange {
            relative: relative.is_finite().then_some(relative),
            report: report.uuid,
            hash: report.hash.clone(),
            time: report.start_time,
            is_recent: !is_old(report, newest),
        })
    });
    Some(SeriesRow {
        branch: series.branch.clone(),
        testbed: series.testbed.clone(),
        benchmark: series.benchmark.clone(),
        measure: series.measure.clone(),
        newest: Newest { value: last.value, report: newest.uuid, time: newest.start_time },
        change_30d: change_30d.filter(|change| change.is_finite()),
        spark: thinned(&values),
        last_change_point,
    })
}

fn is_old(report: &PastReport, newest: &PastReport) -> bool {
    newest.start_time - report.start_time >= RECENT
}

/// The medians of as many neighbours as it takes.
fn thinned(values: &[f64]) -> Vec<f32> {
    let size = values.len().div_ceil(SPARK_MAX).max(1);
    values.chunks(size).map(|values| median(values.to_vec()) as f32).collect()
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;
    use wingbeat_track::model::{BenchmarkName, Measure, Metric, Report, Results};

    use super::*;
    use crate::{
        registry::{NewProject, Visibility},
        settings::Settings,
    };

    fn report(branch: &str, day: i64, value: f64) -> Report {
        let mut results = Results::default();
        for name in ["a", "b"] {
            let name = BenchmarkName::new(name).expect("a name");
            results.add(name, Measure::latency(), Metric::new(value)).expect("added");
        }
        let start = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000 + day);
        let parse = |text: &str| text.to_owned();
        let mut report = Report::new(
            Uuid::now_v7(),
            parse("project").parse().expect("a name"),
            parse(branch).parse().expect("a name"),
            parse("box").parse().expect("a name"),
            start,
        );
        report.hash = Some(format!("{day:040x}"));
        report.iterations = vec![results];
        report
    }

    /// An app in a folder, with the row of the project.
    fn app() -> (tempfile::TempDir, App, Project) {
        let folder = tempfile::tempdir().expect("a folder");
        let app = App::open(Settings::of(folder.path())).expect("opened");
        let registry = crate::storage::open_registry(&app.settings.place).expect("opened");
        let name = ProjectName::new("project").expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
        let project = registry.create_project(&new, OffsetDateTime::now_utc()).expect("made");
        (folder, app, project)
    }

    async fn insert(app: &App, report: &Report) {
        let report = report.clone();
        let store = move |databases: &mut Databases| {
            databases.results.insert(&report)?;
            Ok::<_, ApiError>(())
        };
        app.storage.write(store).await.expect("stored");
    }

    /// The rows that are kept, and those that the results make.
    async fn both(app: &App, project: &Project) -> (Vec<SeriesRow>, Vec<SeriesRow>) {
        refresh(app, project.id).await.expect("refreshed");
        let project = project.clone();
        let read = move |databases: &Databases| {
            let kept = kept(databases, &project, &[])?.unwrap_or_default();
            let plot = databases.results.plot(&PlotQuery::of(project.stored.clone()))?;
            let made = plot.series.iter().filter_map(|one| row(&plot, one)).collect();
            Ok::<_, ApiError>((kept, made))
        };
        app.storage.read(read).await.expect("read")
    }

    #[tokio::test]
    async fn kept_rows_are_those_of_the_results() {
        let (_folder, app, project) = app();
        let mut last = None;
        // Not in the order of time, and with a step in the level.
        for day in (0..60).step_by(2).chain((1..60).step_by(2)) {
            let value = if day < 40 { 10.0 } else { 20.0 } + f64::from(day % 3) / 100.0;
            let report = report("main", i64::from(day), value);
            insert(&app, &report).await;
            if day == 59 {
                last = Some(report);
            }
            if day % 20 == 0 {
                let (kept, made) = both(&app, &project).await;
                assert_eq!(kept, made);
            }
        }
        insert(&app, &report("feature", 61, 3.0)).await;
        let (kept, made) = both(&app, &project).await;
        assert_eq!((kept.len(), &kept), (4, &made));
        let last = last.expect("a report");
        let main = kept.iter().find(|row| row.branch.as_str() == "main").expect("a row");
        assert_eq!(main.newest.report, last.uuid);
        assert!(main.change_30d.is_some_and(|change| (change - 1.0).abs() < 0.01), "{main:?}");
        assert!(main.last_change_point.as_ref().is_some_and(|change| change.is_recent), "{main:?}");
        // A report that is taken back is in no row, and a branch without reports has none.
        for uuid in [last.uuid, kept[0].newest.report] {
            let withdraw = move |databases: &mut Databases| {
                databases.results.withdraw(uuid, None)?;
                Ok::<_, ApiError>(())
            };
            app.storage.write(withdraw).await.expect("withdrawn");
        }
        let (kept, made) = both(&app, &project).await;
        assert_eq!((kept.len(), &kept), (2, &made));
        assert_ne!(kept[0].newest.report, last.uuid);
    }

    #[tokio::test]
    async fn rows_are_made_after_a_while() {
        let (_folder, app, project) = app();
        insert(&app, &report("main", 1, 1.0)).await;
        touch(&app, project.id);
        touch(&app, project.id);
        for _ in 0..100 {
            tokio::time::sleep(PAUSE / 4).await;
            let project = project.clone();
            let read = move |databases: &Databases| kept(databases, &project, &[]);
            if app.storage.read(read).await.expect("read").is_some_and(|rows| rows.len() == 2) {
                return;
            }
        }
        panic!("no rows were made");
    }
}
