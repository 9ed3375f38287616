//! One-line summaries of series, derived from the results.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{Connection, Error, Inserter, Result as SqlResult, Row, Time, params};
use wingbeat_track::{
    model::{BenchmarkName, BranchName, Measure, Slug, TestbedName},
    store::Stretch,
};

use super::{Database, StoreError};

/// One-line summary of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesRow {
    pub branch: BranchName,
    pub testbed: TestbedName,
    pub benchmark: BenchmarkName,
    pub measure: Measure,
    pub newest: Newest,
    /// Relative to the median of values at least 30 days older; `None` without any.
    pub change_30d: Option<f64>,
    /// Thinned values, oldest first.
    pub spark: Vec<f32>,
    pub last_change_point: Option<LastChange>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Newest {
    pub value: f64,
    pub report: Uuid,
    pub time: OffsetDateTime,
}

/// The last lasting change of the level.
#[derive(Debug, Clone, PartialEq)]
pub struct LastChange {
    /// Relative to the level before; `None` if that was 0.
    pub relative: Option<f64>,
    pub report: Uuid,
    pub hash: Option<String>,
    pub time: OffsetDateTime,
    /// Whether it is within the last 30 days of the series.
    pub is_recent: bool,
}

impl Database {
    /// The reports from which the rows were derived, by branch and testbed.
    pub fn series_states(&self, project: i64) -> Result<Vec<Stretch>, StoreError> {
        let sql = "SELECT branch, testbed, state FROM series_state WHERE project = ?1";
        self.rows("listing series", sql, [project], |row| {
            Ok(Stretch {
                branch: row.get("branch")?,
                testbed: row.get("testbed")?,
                state: row.get("state")?,
            })
        })
    }

    /// Rows of some branches of a project; of all branches if none is given.
    pub fn series(
        &self,
        project: i64,
        branches: &[BranchName],
    ) -> Result<Vec<SeriesRow>, StoreError> {
        let doing = "listing series";
        if branches.is_empty() {
            let all = "SELECT * FROM series WHERE project = ?1";
            return self.rows(doing, all, [project], series);
        }
        let of_branch = "SELECT * FROM series WHERE project = ?1 AND branch = ?2";
        let mut found = Vec::new();
        for branch in branches {
            let values = params![project, branch.as_str()];
            found.extend(self.rows(doing, of_branch, values, series)?);
        }
        Ok(found)
    }

    /// Measures with series in the project.
    pub fn series_measures(&self, project: i64) -> Result<Vec<Slug>, StoreError> {
        let sql = "SELECT DISTINCT slug FROM series WHERE project = ?1";
        self.rows("listing measures", sql, [project], |row| row.get("slug"))
    }

    /// Replaces the rows of a branch and testbed. An empty list deletes them.
    pub fn set_series(
        &self,
        project: i64,
        stretch: &Stretch,
        rows: &[SeriesRow],
    ) -> Result<(), StoreError> {
        self.write("keeping series", |db| {
            let place = params![project, stretch.branch.as_str(), stretch.testbed.as_str()];
            for table in ["series", "series_state"] {
                let sql = format!(
                    "DELETE FROM {table} WHERE project = ?1 AND branch = ?2 AND testbed = ?3"
                );
                db.execute(&sql, place)?;
            }
            insert(db, project, rows)?;
            if !rows.is_empty() {
                let sql = "INSERT INTO series_state (project, branch, testbed, state)
                           VALUES (?1, ?2, ?3, ?4)";
                let (branch, testbed) = (stretch.branch.as_str(), stretch.testbed.as_str());
                db.execute(sql, params![project, branch, testbed, stretch.state])?;
            }
            Ok(())
        })
    }
}

fn insert(db: &Connection, project: i64, rows: &[SeriesRow]) -> SqlResult<()> {
    let mut inserter = Inserter::prepare(
        db,
        "series",
        "project, branch, testbed, benchmark, slug, units, measure, value, report, time_ns, change_30d, spark,
         changed_report, changed_relative, changed_hash, changed_ns, changed_is_recent",
    )?;
    for row in rows {
        let measure = serde_json::to_string(&row.measure).map_err(Error::value)?;
        let spark: Vec<u8> = row.spark.iter().flat_map(|value| value.to_le_bytes()).collect();
        let change = row.last_change_point.as_ref();
        inserter.insert(params![
            project,
            row.branch.as_str(),
            row.testbed.as_str(),
            row.benchmark.as_str(),
            row.measure.slug.as_str(),
            &*row.measure.units,
            measure,
            row.newest.value,
            row.newest.report,
            Time(row.newest.time),
            row.change_30d,
            spark,
            change.map(|change| change.report),
            change.and_then(|change| change.relative),
            change.and_then(|change| change.hash.as_ref()),
            change.map(|change| Time(change.time)),
            change.map(|change| change.is_recent),
        ])?;
    }
    inserter.finish()
}

fn series(row: &Row<'_>) -> SqlResult<SeriesRow> {
    let broken = |error: serde_json::Error| Error::content(error);
    let spark: Vec<u8> = row.get("spark")?;
    let floats =
        spark.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    let last_change_point = match row.get::<_, Option<Uuid>>("changed_report")? {
        None => None,
        Some(report) => Some(LastChange {
            relative: row.get("changed_relative")?,
            report,
            hash: row.get("changed_hash")?,
            time: row.time("changed_ns")?,
            is_recent: row.get("changed_is_recent")?,
        }),
    };
    Ok(SeriesRow {
        branch: row.get("branch")?,
        testbed: row.get("testbed")?,
        benchmark: row.get("benchmark")?,
        measure: serde_json::from_str(&row.get::<_, String>("measure")?).map_err(broken)?,
        newest: Newest {
            value: row.get("value")?,
            report: row.get("report")?,
            time: row.time("time_ns")?,
        },
        change_30d: row.get("change_30d")?,
        spark: floats.collect(),
        last_change_point,
    })
}
