//! The history that a new report is judged by.
//!
//! For a branch without a start point it consists of the branch's own earlier reports. For one with a start point it
//! consists of those of the start point, so that its own earlier pushes cannot hide a regression.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use rustc_hash::FxHashMap;
use uuid::Uuid;
use wingbeat_sql::{Connection, Many, Row, limit_ns};
use wingbeat_stats::sample::median;

use super::{
    SqlResult, Store, StoreError,
    columns::{Numbers, environment},
    error::damage,
    log::branch_head,
    many, prepare,
    read::SAMPLES_AT_ONCE,
    rows::{Conditions, Names, name_row, newest, project_row},
    versions::START_POINTS_MAX,
    withdrawals::STANDS,
};
use crate::model::{
    AlertStatus, BenchmarkName, Limit, Measure, Outcome, Past, PastPoint, PastReport, PastSeries,
    Report, Slug, StartPoint,
};

/// How much of a history is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum number of reports, newest first.
    pub reports: usize,
    /// Number of newest reports whose samples are read as well: they are large.
    pub sampled_reports: usize,
}

impl HistoryLimits {
    /// All reports, with all samples.
    pub const NONE: Self = Self { reports: usize::MAX, sampled_reports: usize::MAX };
}

impl Store {
    /// The history of a report: earlier ones by start time and UUID. Reports that confirm another are excluded.
    pub fn history(&self, report: &Report, limits: HistoryLimits) -> Result<Past, StoreError> {
        self.doing("reading a history", || {
            // A consistent view of the store despite concurrent writes.
            let view = self.connection.view()?;
            past(&view, reports(&view, report, limits)?, limits.sampled_reports)
        })
    }

    /// The newest earlier reports of the same branch, without samples, if it has a start point: then they are not part
    /// of its history.
    pub fn pushes(&self, report: &Report, most: usize) -> Result<Past, StoreError> {
        if report.start_point.is_none() {
            return Ok(Past::default());
        }
        let own = Report { start_point: None, ..report.clone() };
        self.history(&own, HistoryLimits { reports: most, sampled_reports: 0 })
    }
}

fn reports(
    db: &Connection,
    report: &Report,
    limits: HistoryLimits,
) -> SqlResult<Vec<StoredReport>> {
    let Some(project) = project_row(db, &report.project)? else { return Ok(Vec::new()) };
    let testbed = name_row(db, "testbed", project, report.testbed.as_str())?;
    let Some(testbed) = testbed else { return Ok(Vec::new()) };
    let branch = name_row(db, "branch", project, report.branch.as_str())?;
    let end = (limit_ns(report.start_time), report.uuid);
    match (&report.start_point, branch) {
        (Some(start), _) => inherited(db, limits, (project, testbed), start, end),
        (None, Some(branch)) => {
            let stretch = Stretch { branch, testbed, epoch: report.epoch, end };
            stretch.newest(db, limits.reports)
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// Reports of one branch, testbed and epoch before some point in time.
struct Stretch {
    branch: i64,
    testbed: i64,
    epoch: u32,
    /// Start time in nanoseconds and UUID of the first report beyond.
    end: (i64, Uuid),
}

impl Stretch {
    fn newest(&self, db: &Connection, most: usize) -> SqlResult<Vec<StoredReport>> {
        let mut conditions = Conditions::default();
        conditions.add("r.branch =", Some(self.branch));
        conditions.add("r.testbed =", Some(self.testbed));
        conditions.add("r.epoch =", Some(self.epoch));
        conditions.require("r.confirms IS NULL");
        conditions.before(self.end.0, self.end.1);
        newest(db, &format!("r.id AS row, {PAST_COLUMNS}"), conditions, most, past_report)
    }
}

/// Reports of a start point, of its own start point and so on, newest first.
fn inherited(
    db: &Connection,
    limits: HistoryLimits,
    (project, testbed): (i64, i64),
    start: &StartPoint,
    before: (i64, Uuid),
) -> SqlResult<Vec<StoredReport>> {
    let mut reports = Vec::new();
    let mut visited = HashSet::new();
    let mut versions_left = usize::MAX;
    let mut next = Some(start.clone());
    while let Some(start) = next.take() {
        versions_left = versions_left.min(start.max_versions as usize);
        let branch = name_row(db, "branch", project, start.branch.as_str())?;
        let Some(branch) = branch else { break };
        let end = match start.until {
            // The first nanosecond that does not count.
            Some(until) => (limit_ns(until).saturating_add(1), Uuid::nil()),
            None => before,
        };
        let until_ns = start.until.map_or(end.0, limit_ns);
        let Some(head) = branch_head(db, branch, until_ns)? else { break };
        if !visited.insert((branch, head.epoch)) || visited.len() > START_POINTS_MAX {
            break;
        }
        let stretch = Stretch { branch, testbed, epoch: head.epoch, end };
        let most = limits.reports - reports.len();
        let mut versions = HashSet::new();
        for report in stretch.newest(db, most)? {
            let version =
                report.report.hash.clone().unwrap_or_else(|| report.report.uuid.to_string());
            if versions.len() == versions_left && !versions.contains(&version) {
                break;
            }
            versions.insert(version);
            reports.push(report);
        }
        versions_left -= versions.len();
        next = head.start_point.filter(|_| versions_left > 0 && reports.len() < limits.reports);
    }
    Ok(reports)
}

/// An earlier report with its row number.
#[derive(Debug)]
pub(super) struct StoredReport {
    pub(super) report: PastReport,
    pub(super) row: i64,
    is_confirmed: bool,
    has_marks: bool,
}

/// Columns of the report `r`: whether others confirm it, and whether any of its metrics stands out.
pub(super) const PAST_COLUMNS: &str =
    "EXISTS (SELECT 1 FROM report c WHERE c.confirms = r.uuid) AS is_confirmed,
     r.notable + r.alerts > 0 AS has_marks";

/// A report from `row`, `uuid`, `branch`, `hash`, `start_time_ns`, [`PAST_COLUMNS`] and its environment.
pub(super) fn past_report(row: &Row<'_>) -> SqlResult<StoredReport> {
    let report = PastReport {
        uuid: row.get("uuid")?,
        branch: row.get("branch")?,
        hash: row.get("hash")?,
        start_time: row.time("start_time_ns")?,
        environment: environment(row)?,
    };
    Ok(StoredReport {
        report,
        row: row.get("row")?,
        is_confirmed: row.get("is_confirmed")?,
        has_marks: row.get("has_marks")?,
    })
}

/// Number of reports fetched at a time from PostgreSQL. Their rows are held in memory.
pub(super) const REPORTS_AT_ONCE: usize = 32;

/// ORDER BY clause for PostgreSQL. SQLite's tables are already in that order, and some plans would sort needlessly.
pub(super) fn in_order(db: &Connection) -> &'static str {
    if db.is_postgres() { "ORDER BY benchmark, measure, iteration" } else { "" }
}

/// The series of reports, which are given newest first.
fn past(
    db: &Connection,
    mut reports: Vec<StoredReport>,
    sampled_reports_max: usize,
) -> SqlResult<Past> {
    reports.reverse();
    let first_sampled = reports.len().saturating_sub(sampled_reports_max);
    let mut series = Vec::<RawSeries>::new();
    let mut index = HashMap::new();
    let mut all_values = values(db, reports.iter().map(|report| report.row))?;
    let mut all_samples = many(db, "SELECT bytes FROM samples WHERE id = ?1", SAMPLES_AT_ONCE)?;
    let mut all_marks = Marks::prepare(db, &reports)?;
    for (at, report) in reports.iter().enumerate() {
        let marks = all_marks.of(report)?;
        let repeats = repeats(db, report, &mut all_values)?;
        let is_sampled = at >= first_sampled;
        let mut rows = all_values.query(report.row)?;
        if is_sampled {
            all_samples.expect(rows.ahead(4));
        }
        let mut next = 0;
        while let Some(row) = &rows.next()? {
            let (benchmark, measure, iteration) = metric_key(row, 0)?;
            let mut samples = Vec::new();
            if let Some(id) = row.get::<_, Option<i64>>(4)?.filter(|_| is_sampled) {
                let mut found = all_samples.query(id)?;
                let bytes = found.next()?.ok_or_else(|| damage("samples are missing"))?;
                samples = bytes.get::<_, Numbers>(0)?.0;
            }
            let mark = marks.get(&(benchmark, measure, iteration)).copied().unwrap_or_default();
            let key = (benchmark, measure);
            let point = PastPoint {
                report: at,
                iteration,
                value: row.get(3)?,
                repeats: repeats.get(&key).cloned().unwrap_or_default(),
                samples,
                alert: mark.alert,
                outcome: mark.outcome,
            };
            // Reports are similar, so the next series is mostly the one that followed before.
            if series.get(next).is_none_or(|series| series.key != key) {
                next = *index.entry(key).or_insert_with(|| {
                    let points = Vec::with_capacity((reports.len() - at).min(64));
                    series.push(RawSeries { key, points });
                    series.len() - 1
                });
            }
            series[next].points.push(point);
            next += 1;
        }
    }
    let reports = reports.into_iter().map(|stored| stored.report).collect();
    Ok(Past { reports, series: name_series(db, series)? })
}

/// The values of reports, to be read one after another, roughly in this order.
fn values(db: &Connection, reports: impl IntoIterator<Item = i64>) -> SqlResult<Many<'_>> {
    let sql = format!(
        "SELECT benchmark, measure, iteration, value, samples FROM metric WHERE report = ?1 {}",
        in_order(db)
    );
    let mut values = many(db, &sql, REPORTS_AT_ONCE)?;
    values.expect(reports);
    Ok(values)
}

/// A series by the row numbers of its benchmark and its measure.
struct RawSeries {
    key: (i64, i64),
    points: Vec<PastPoint>,
}

/// Values of a report's metrics from each repeated measurement. Iterations of a repetition count as one value, their
/// median.
fn repeats(
    db: &Connection,
    report: &StoredReport,
    all_values: &mut Many<'_>,
) -> SqlResult<FxHashMap<(i64, i64), Vec<f64>>> {
    let mut repeats = FxHashMap::<_, Vec<f64>>::default();
    if !report.is_confirmed {
        return Ok(repeats);
    }
    let sql = format!(
        "SELECT id FROM report r WHERE confirms = ?1 AND {STANDS} ORDER BY start_time_ns, uuid"
    );
    let mut statement = prepare(db, &sql)?;
    let confirming = statement.query_map([report.report.uuid], |row| row.get::<_, i64>(0))?;
    for confirming in confirming {
        let mut again = FxHashMap::<_, Vec<f64>>::default();
        let mut rows = all_values.query(confirming?)?;
        while let Some(row) = &rows.next()? {
            let (benchmark, measure, _) = metric_key(row, 0)?;
            again.entry((benchmark, measure)).or_default().push(row.get(3)?);
        }
        for (key, values) in again {
            repeats.entry(key).or_default().push(median(values));
        }
    }
    Ok(repeats)
}

/// A metric within its report: row numbers of its benchmark and its measure, and its iteration.
pub(super) type MetricRow = (i64, i64, u32);

/// Reads three columns from `first` on: `benchmark`, `measure`, `iteration`.
pub(super) fn metric_key(row: &Row<'_>, first: usize) -> SqlResult<MetricRow> {
    Ok((row.get(first)?, row.get(first + 1)?, row.get(first + 2)?))
}

/// The verdict about a metric that stood out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    pub(super) alert: Option<(Limit, AlertStatus)>,
    pub(super) outcome: Option<Outcome>,
}

/// Reads the metrics that stand out, report by report.
pub(super) struct Marks<'c> {
    outcomes: Many<'c>,
    alerts: Many<'c>,
}

/// The condition of the index `verdict_that_stands_out`, which covers [`Outcome::stands_out`].
const NOTABLE: &str = "outcome IN ('worse', 'better', 'changed', 'maybe-worse', 'maybe-better', 'maybe-changed', \
                       'moved-together')";

impl<'c> Marks<'c> {
    pub(super) fn prepare<'r>(
        db: &'c Connection,
        reports: impl IntoIterator<Item = &'r StoredReport>,
    ) -> SqlResult<Self> {
        let order = if db.is_postgres() { "ORDER BY outcome" } else { "" };
        let outcomes = format!(
            "SELECT benchmark, measure, iteration, outcome FROM verdict
             WHERE report = ?1 AND {NOTABLE} {order}"
        );
        let alerts = "SELECT a.benchmark, a.measure, a.iteration, a.crossed, coalesce(
                          (SELECT c.status FROM alert_change c WHERE c.alert = a.uuid
                           ORDER BY c.time_ns DESC, c.uuid DESC LIMIT 1), a.status)
                      FROM alert a WHERE a.report = ?1";
        let mut outcomes = many(db, &outcomes, REPORTS_AT_ONCE)?;
        let mut alerts = many(db, alerts, REPORTS_AT_ONCE)?;
        for report in reports.into_iter().filter(|report| report.has_marks) {
            outcomes.expect([report.row]);
            alerts.expect([report.row]);
        }
        Ok(Self { outcomes, alerts })
    }

    pub(super) fn of(&mut self, report: &StoredReport) -> SqlResult<FxHashMap<MetricRow, Mark>> {
        let mut marks = FxHashMap::<_, Mark>::default();
        // Most reports have none.
        if !report.has_marks {
            return Ok(marks);
        }
        let mut rows = self.outcomes.query(report.row)?;
        while let Some(row) = &rows.next()? {
            let outcome = row.get(3)?;
            marks.entry(metric_key(row, 0)?).or_default().outcome = Some(outcome);
        }
        let mut rows = self.alerts.query(report.row)?;
        while let Some(row) = &rows.next()? {
            let alert = (row.get(3)?, row.get(4)?);
            marks.entry(metric_key(row, 0)?).or_default().alert = Some(alert);
        }
        Ok(marks)
    }
}

/// Adds names to series. A renamed measure, or one whose direction became known, continues its series.
fn name_series(db: &Connection, raw: Vec<RawSeries>) -> SqlResult<Vec<PastSeries>> {
    let mut names = Names::prepare(db)?;
    names.expect_benchmarks(raw.iter().map(|series| series.key.0));
    let mut named: Vec<PastSeries> = Vec::with_capacity(raw.len());
    for RawSeries { key, points } in raw {
        let measure = names.measure(key.1)?.clone();
        let benchmark = names.benchmark(key.0)?.clone();
        named.push(PastSeries { benchmark, measure, points });
    }
    join(&mut named);
    let key = |series: &PastSeries| -> (BenchmarkName, Slug, Cow<'static, str>) {
        let Measure { slug, units, .. } = series.measure.clone();
        (series.benchmark.clone(), slug, units)
    };
    named.sort_by_cached_key(|series| (key(series), series.points.last().map(|last| last.report)));
    named.dedup_by(|later, earlier| {
        let is_same = key(later) == key(earlier);
        if is_same {
            earlier.points.append(&mut later.points);
            earlier.points.sort_by_key(|point| (point.report, point.iteration));
            // The later one has the newer report.
            earlier.measure = later.measure.clone();
        }
        is_same
    });
    Ok(named)
}

/// Merges series that [continue](Measure::goes_on_as) one another. Different units given explicitly stay separate, and
/// so does then what came before them.
fn join(series: &mut [PastSeries]) {
    let tailed: FxHashMap<_, _> = series
        .iter()
        .filter(|series| series.measure.has_tail())
        .map(|series| (series.measure.name.clone(), series.measure.slug.clone()))
        .collect();
    let mut stated = FxHashMap::<_, Option<Cow<'static, str>>>::default();
    for PastSeries { benchmark, measure, .. } in &mut *series {
        if let Some(slug) = tailed.get(&measure.name).filter(|_| measure.is_named()) {
            measure.slug = slug.clone();
        }
        if measure.has_units() {
            stated
                .entry((benchmark.clone(), measure.slug.clone()))
                .and_modify(|units| *units = units.take().filter(|it| *it == measure.units))
                .or_insert_with(|| Some(measure.units.clone()));
        }
    }
    for PastSeries { benchmark, measure, .. } in series {
        let key = (benchmark.clone(), measure.slug.clone());
        if let Some(Some(units)) = stated.get(&key).filter(|_| !measure.has_units()) {
            measure.units = units.clone();
        }
    }
}
