//! Earlier reports by series: the values of each measure of each benchmark, oldest first.

use std::{borrow::Cow, collections::HashMap};

use super::prelude::*;
use rustc_hash::FxHashMap;
use wingbeat_sql::Many;
use wingbeat_stats::sample::median;

use super::{
    checksum::{Checksum, damage},
    from_row::{environment, time},
    lookup::Names,
    sums::mark,
    values::{Samples, StoredValue, Values},
    withdrawals::STANDS,
};

/// An earlier report with its row number, and the sums to verify its values.
#[derive(Debug)]
pub(super) struct StoredReport {
    pub(super) report: PastReport,
    pub(super) row: i64,
    pub(super) is_confirmed: bool,
    pub(super) values: Checksum,
    pub(super) marks: Checksum,
}

impl StoredReport {
    pub(super) fn verify(&self, stored: Checksum, found: Checksum) -> SqlResult<()> {
        verify(self.report.uuid, stored, found)
    }
}

fn verify(report: Uuid, stored: Checksum, found: Checksum) -> SqlResult<()> {
    let error = || damage(format!("values of the report {report} differ from what was written"));
    (stored == found).then_some(()).ok_or_else(error)
}

/// Columns of the report `r`: its sums, and whether others confirm it.
pub(super) const SUMS: &str =
    "r.values_checksum AS values_checksum, r.marks_checksum AS marks_checksum,
     EXISTS (SELECT 1 FROM report c WHERE c.confirms = r.uuid) AS is_confirmed";

/// A report from `row`, `uuid`, `branch`, `hash`, `start_time_ns`, [`SUMS`] and its environment.
pub(super) fn past_report(row: &Row<'_>) -> SqlResult<StoredReport> {
    let report = PastReport {
        uuid: row.get::<_, Id>("uuid")?.0,
        branch: row.get::<_, Text<_>>("branch")?.0,
        hash: row.get("hash")?,
        start_time: time(row, "start_time_ns")?,
        environment: environment(row)?,
    };
    Ok(StoredReport {
        report,
        row: row.get("row")?,
        is_confirmed: row.get("is_confirmed")?,
        values: Checksum::stored(row.get("values_checksum")?),
        marks: Checksum::stored(row.get("marks_checksum")?),
    })
}

/// Number of reports fetched at a time from PostgreSQL. Their rows are held in memory.
pub(super) const REPORTS_AT_ONCE: usize = 32;

/// ORDER BY clause for PostgreSQL. SQLite's tables are already in that order, and some plans would sort needlessly.
pub(super) fn in_order(db: &Connection) -> &'static str {
    if db.is_postgres() { "ORDER BY benchmark, measure, iteration" } else { "" }
}

/// The series of reports, which are given newest first.
pub(super) fn past(
    db: &Connection,
    mut reports: Vec<StoredReport>,
    sampled_reports_max: usize,
) -> SqlResult<Past> {
    reports.reverse();
    let first_sampled = reports.len().saturating_sub(sampled_reports_max);
    let mut series = Vec::<RawSeries>::new();
    let mut index = HashMap::new();
    let row = |report: &StoredReport| report.row;
    let mut all_values = Values::prepare(db, reports.iter().map(row))?;
    let mut all_samples = Samples::prepare(db, reports[first_sampled..].iter().map(row))?;
    let mut all_marks = Marks::prepare(db, &reports)?;
    for (at, report) in reports.iter().enumerate() {
        let marks = all_marks.of(report)?;
        let repeats = repeats(db, report, &mut all_values)?;
        let mut values = all_values.of(report.row)?;
        if at >= first_sampled {
            all_samples.add(report.row, &mut values)?;
        }
        let mut sum = Checksum::default();
        let mut next = 0;
        for stored in values {
            sum.add(stored.checksum());
            let StoredValue { benchmark, measure, iteration, value, samples, .. } = stored;
            let mark = marks.get(&(benchmark, measure, iteration)).copied().unwrap_or_default();
            let key = (benchmark, measure);
            let point = PastPoint {
                report: at,
                iteration,
                value,
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
        report.verify(report.values, sum)?;
    }
    let reports = reports.into_iter().map(|stored| stored.report).collect();
    Ok(Past { reports, series: name_series(db, series)? })
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
    all_values: &mut Values<'_>,
) -> SqlResult<FxHashMap<(i64, i64), Vec<f64>>> {
    let mut repeats = FxHashMap::<_, Vec<f64>>::default();
    if !report.is_confirmed {
        return Ok(repeats);
    }
    let sql = format!(
        "SELECT id, values_checksum, uuid FROM report r WHERE confirms = ?1 AND {STANDS}
         ORDER BY start_time_ns, uuid"
    );
    let mut statement = prepare(db, &sql)?;
    let confirming = statement.query_map([Id(report.report.uuid)], |row| {
        Ok((row.get::<_, i64>(0)?, Checksum::stored(row.get(1)?), row.get::<_, Id>(2)?.0))
    })?;
    for confirming in confirming {
        let (row, stored, uuid) = confirming?;
        let mut sum = Checksum::default();
        let mut again = FxHashMap::<_, Vec<f64>>::default();
        for value in all_values.of(row)? {
            sum.add(value.checksum());
            again.entry((value.benchmark, value.measure)).or_default().push(value.value);
        }
        verify(uuid, stored, sum)?;
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

impl<'c> Marks<'c> {
    pub(super) fn prepare<'r>(
        db: &'c Connection,
        reports: impl IntoIterator<Item = &'r StoredReport>,
    ) -> SqlResult<Self> {
        let order = if db.is_postgres() { "ORDER BY outcome" } else { "" };
        let outcomes = format!(
            "SELECT benchmark, measure, iteration, outcome FROM verdict
             WHERE report = ?1 AND outcome IN ('worse', 'better', 'changed', 'maybe-worse',
                 'maybe-better', 'maybe-changed', 'moved-together') {order}"
        );
        let alerts = "SELECT a.benchmark, a.measure, a.iteration, a.crossed, coalesce(
                          (SELECT c.status FROM alert_change c WHERE c.alert = a.uuid
                           ORDER BY c.time_ns DESC, c.uuid DESC LIMIT 1), a.status), a.status AS raised,
                          a.uuid
                      FROM alert a WHERE a.report = ?1";
        let mut outcomes = many(db, &outcomes, REPORTS_AT_ONCE)?;
        let mut alerts = many(db, alerts, REPORTS_AT_ONCE)?;
        for report in reports.into_iter().filter(|report| report.marks != Checksum::default()) {
            outcomes.expect([report.row]);
            alerts.expect([report.row]);
        }
        Ok(Self { outcomes, alerts })
    }

    pub(super) fn of(&mut self, report: &StoredReport) -> SqlResult<FxHashMap<MetricRow, Mark>> {
        let mut marks = FxHashMap::<_, Mark>::default();
        let mut sum = Checksum::default();
        // Most reports have none.
        if report.marks == sum {
            return Ok(marks);
        }
        let mut rows = self.outcomes.query(report.row)?;
        while let Some(row) = &rows.next()? {
            sum.add(mark(row, [0, 1, 2, 3])?);
            let outcome = row.get::<_, Word<_>>(3)?.0;
            marks.entry(metric_key(row, 0)?).or_default().outcome = Some(outcome);
        }
        let mut rows = self.alerts.query(report.row)?;
        while let Some(row) = &rows.next()? {
            sum.add(mark(row, [0, 1, 2, 3, 5, 6])?);
            let alert = (row.get::<_, Word<_>>(3)?.0, row.get::<_, Word<_>>(4)?.0);
            marks.entry(metric_key(row, 0)?).or_default().alert = Some(alert);
        }
        report.verify(report.marks, sum)?;
        Ok(marks)
    }
}

/// Adds names to series. A renamed measure, or one whose direction became known, continues its series.
fn name_series(db: &Connection, raw: Vec<RawSeries>) -> SqlResult<Vec<PastSeries>> {
    let mut names = Names::prepare(db)?;
    names.expect_benchmarks(raw.iter().map(|series| series.key.0));
    let mut named: Vec<PastSeries> = Vec::with_capacity(raw.len());
    for RawSeries { key, points } in raw {
        let (benchmark, measure) = (names.benchmark(key.0)?, names.measure(key.1)?);
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
    let mut said = FxHashMap::<_, Option<Cow<'static, str>>>::default();
    for PastSeries { benchmark, measure, .. } in &mut *series {
        if let Some(slug) = tailed.get(&measure.name).filter(|_| measure.is_named()) {
            measure.slug = slug.clone();
        }
        if measure.has_units() {
            said.entry((benchmark.clone(), measure.slug.clone()))
                .and_modify(|units| *units = units.take().filter(|it| *it == measure.units))
                .or_insert_with(|| Some(measure.units.clone()));
        }
    }
    for PastSeries { benchmark, measure, .. } in series {
        let key = (benchmark.clone(), measure.slug.clone());
        if let Some(Some(units)) = said.get(&key).filter(|_| !measure.has_units()) {
            measure.units = units.clone();
        }
    }
}
