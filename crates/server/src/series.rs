//! One-line summaries of series: newest value, change and sparkline. They are materialized next to the results, because
//! a table of thousands of series would otherwise read the whole history: after each added or withdrawn report, the
//! rows of its branch and testbed are rebuilt from the newest reports. The result depends on the reports alone, so
//! rebuilding is idempotent and order-independent.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use time::Duration;
use wingbeat_stats::{changes, sample::median};
use wingbeat_track::{
    model::{BranchName, MeasureKind, PastReport, ProjectName},
    store::{Plot, PlotPoint, PlotQuery, PlotSeries, ReportFilter, Store, StoreError, Stretch},
};

pub use crate::database::{LastChange, Newest, SeriesRow};
use crate::{
    ApiError, App,
    database::{Database, Project},
};

/// Maximum values in a sparkline.
const SPARK_MAX: usize = 60;

/// Maximum newest reports considered.
const REPORTS_MAX: usize = 1000;

/// Minimum newest reports considered, regardless of the number of series.
const REPORTS_MIN: usize = 60;

/// Maximum values read for the rows of a branch and testbed, unless the minimum of reports has more.
const VALUES_MAX: usize = 200_000;

/// Changes within this time count as recent.
const RECENT: Duration = Duration::days(30);

/// Most values of the level 30 days ago.
const LEVEL_MAX: usize = 20;

/// Debounce time: reports that arrive within it cause one rebuild.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// Least pause after a rebuild, as a multiple of its duration: while reports keep coming, rebuilding takes a small share
/// of a CPU.
const PAUSE_SHARE: u32 = 10;

/// Projects whose rows need checking.
#[derive(Debug, Default)]
pub struct Refresher(Mutex<Wanted>);

#[derive(Debug, Default)]
struct Wanted {
    projects: BTreeSet<i64>,
    is_running: bool,
}

/// Schedules a rebuild of a project's rows after reports were added or withdrawn.
pub(crate) fn touch(app: &App, project: i64) {
    let mut wanted = app.series.0.lock().unwrap_or_else(PoisonError::into_inner);
    wanted.projects.insert(project);
    if !wanted.is_running {
        wanted.is_running = true;
        tokio::spawn(work(app.clone()));
    }
}

/// Interval of checks for rebuilds that a killed server of the same database left undone.
const LOOK_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

/// Checks all projects at start, and periodically if other servers share the database.
pub(crate) async fn look_after(app: App) {
    touch_all(&app).await;
    while app.storage.is_shared() {
        tokio::time::sleep(LOOK_AFTER).await;
        touch_all(&app).await;
    }
}

/// Schedules all projects: their results may have been replaced.
async fn touch_all(app: &App) {
    let list = |database: &Database| Ok::<_, ApiError>(database.projects()?);
    match app.storage.read(list).await {
        Ok(projects) => projects.iter().for_each(|project| touch(app, project.id)),
        Err(error) => tracing::warn!("cannot list projects to update the series table: {error}"),
    }
}

async fn work(app: App) {
    let mut pause = PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let projects = {
            let mut wanted = app.series.0.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.is_running = !wanted.projects.is_empty();
            std::mem::take(&mut wanted.projects)
        };
        if projects.is_empty() {
            return;
        }
        let begin = Instant::now();
        for project in projects {
            if let Err(error) = refresh(&app, project).await {
                tracing::warn!("the series table was not updated: {error}");
                // A full queue is temporary; other errors will recur with the next report.
                if error.status == axum::http::StatusCode::SERVICE_UNAVAILABLE {
                    let mut wanted = app.series.0.lock().unwrap_or_else(PoisonError::into_inner);
                    wanted.projects.insert(project);
                }
            }
        }
        pause = PAUSE.max(begin.elapsed() * PAUSE_SHARE);
    }
}

/// Rebuilds the rows of a project whose reports have changed.
pub async fn refresh(app: &App, project: i64) -> Result<(), ApiError> {
    let find = move |database: &Database| {
        let projects = database.projects()?;
        let Some(project) = projects.into_iter().find(|known| known.id == project) else {
            return Ok(None);
        };
        let stretches = database.results.stretches(&project.stored)?;
        let states = database.series_states(project.id)?;
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
        let read = move |database: &Database| {
            let plot = newest(&database.results, stored, &stretch)?;
            let rows: Vec<_> = plot.series.iter().filter_map(|one| row(&plot, one)).collect();
            Ok::<_, ApiError>((stretch, rows))
        };
        let (stretch, rows) = app.storage.read(read).await?;
        let stored = project.stored.clone();
        let save = move |database: &mut Database| {
            // Another server of the database may have stored rows of newer reports in the meantime.
            let is_latest = database.results.stretches(&stored)?.contains(&stretch);
            if is_latest {
                database.set_series(project.id, &stretch, &rows)?;
            }
            Ok::<_, ApiError>(is_latest)
        };
        if !app.storage.write(save).await? {
            touch(app, project.id);
        }
    }
    // The rest has no reports any more.
    for ((branch, testbed), _) in states {
        let gone = Stretch { branch, testbed, state: String::new() };
        let save = move |database: &mut Database| {
            Ok::<_, ApiError>(database.set_series(project.id, &gone, &[])?)
        };
        app.storage.write(save).await?;
    }
    Ok(())
}

/// The newest reports of a branch and testbed.
fn newest(results: &Store, project: ProjectName, stretch: &Stretch) -> Result<Plot, StoreError> {
    let reports = ReportFilter {
        branch: Some(stretch.branch.clone()),
        testbed: Some(stretch.testbed.clone()),
        ..ReportFilter::of(&project)
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

/// The stored rows of a project on one of these branches. `None` if not built yet.
pub(crate) fn kept(
    database: &Database,
    project: &Project,
    branches: &[BranchName],
) -> Result<Option<Vec<SeriesRow>>, ApiError> {
    let states = database.series_states(project.id)?;
    let is_chosen = |branch: &BranchName| branches.is_empty() || branches.contains(branch);
    if !states.iter().any(|state| is_chosen(&state.branch)) {
        return Ok(None);
    }
    let mut rows = database.series(project.id, branches)?;
    rows.sort_by(|a, b| a.key().cmp(&b.key()));
    Ok(Some(rows))
}

impl SeriesRow {
    fn key(&self) -> impl Ord + use<'_> {
        (&self.branch, &self.testbed, &self.benchmark, &self.measure.slug, &self.measure.units)
    }
}

/// Summarizes a series; `None` if it has no values.
pub(crate) fn row(plot: &Plot, series: &PlotSeries) -> Option<SeriesRow> {
    let report = |index: usize| plot.reports.get(series.points.get(index)?.report);
    let last = series.points.last()?;
    let newest = report(series.points.len() - 1)?;
    let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    let mut settings = changes::Settings::default();
    if series.measure.kind == MeasureKind::Exact {
        settings.change_min = 0.0;
    }
    let found = changes::find(&values, &settings);
    let is_old_at = |point: &PlotPoint| {
        plot.reports.get(point.report).is_some_and(|report| is_old(report, newest))
    };
    let old = series.points.iter().take_while(|point| is_old_at(point)).count();
    // The level of that time: the values since the change before, and no more than a few, because noise drifts.
    let since = found.iter().map(|change| change.index).filter(|index| *index < old).max();
    let before = &values[since.unwrap_or(0).max(old.saturating_sub(LEVEL_MAX))..old];
    let change_30d = (!before.is_empty()).then(|| {
        let before = median(before.to_vec());
        (last.value - before) / before.abs()
    });
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

/// Thins values by medians of neighbours.
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
        database::{NewProject, Visibility},
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

    /// An app in a folder, with a project row.
    fn app() -> (tempfile::TempDir, App, Project) {
        let folder = tempfile::tempdir().expect("a folder");
        let app = App::open(Settings::of(folder.path())).expect("opened");
        let database = crate::storage::open(&app.settings.location).expect("opened");
        let name = ProjectName::new("project").expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
        let project = database.create_project(&new, OffsetDateTime::now_utc()).expect("made");
        (folder, app, project)
    }

    async fn insert(app: &App, report: &Report) {
        let report = report.clone();
        let store = move |database: &mut Database| {
            database.results.insert(&report)?;
            Ok::<_, ApiError>(())
        };
        app.storage.write(store).await.expect("stored");
    }

    /// The stored rows, and rows computed from the results.
    async fn both(app: &App, project: &Project) -> (Vec<SeriesRow>, Vec<SeriesRow>) {
        refresh(app, project.id).await.expect("refreshed");
        let project = project.clone();
        let read = move |database: &Database| {
            let kept = kept(database, &project, &[])?.unwrap_or_default();
            let plot = database.results.plot(&PlotQuery::of(project.stored.clone()))?;
            let made = plot.series.iter().filter_map(|one| row(&plot, one)).collect();
            Ok::<_, ApiError>((kept, made))
        };
        app.storage.read(read).await.expect("read")
    }

    #[tokio::test]
    async fn kept_rows_are_those_of_the_results() {
        let (_folder, app, project) = app();
        let mut last = None;
        // Out of time order, and with a step in the level.
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
        // A withdrawn report is in no row, and a branch without reports has none.
        for uuid in [last.uuid, kept[0].newest.report] {
            let withdraw = move |database: &mut Database| {
                database.results.withdraw(uuid, None)?;
                Ok::<_, ApiError>(())
            };
            app.storage.write(withdraw).await.expect("withdrawn");
        }
        let (kept, made) = both(&app, &project).await;
        assert_eq!((kept.len(), &kept), (2, &made));
        assert_ne!(kept[0].newest.report, last.uuid);
    }

    #[tokio::test]
    async fn a_change_of_30_days_is_from_the_level_of_that_time() {
        let check = async |step_day: i64, expected: f64| {
            let (_folder, app, project) = app();
            for day in 0..90 {
                let value = if day < step_day { 100.0 } else { 120.0 };
                insert(&app, &report("main", day, value + (day % 3) as f64 / 100.0)).await;
            }
            let (kept, _) = both(&app, &project).await;
            let found = kept[0].change_30d.expect("a change");
            assert!((found - expected).abs() < 0.001, "{step_day}: {found}");
        };
        // Ten days before the time compared with, and ten days after it.
        check(50, 0.0).await;
        check(70, 0.2).await;
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
            let read = move |database: &Database| kept(database, &project, &[]);
            if app.storage.read(read).await.expect("read").is_some_and(|rows| rows.len() == 2) {
                return;
            }
        }
        panic!("no rows were made");
    }
}
