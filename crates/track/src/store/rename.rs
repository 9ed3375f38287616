//! Renames a branch, a testbed or a benchmark. Rows refer to it by number, so its history is kept.

use wingbeat_sql::{Connection, params};

use super::{
    SqlResult, Store, StoreError,
    document::digest,
    prepare,
    read::{read, verified},
    rows::{name_row, project_row},
};
use crate::model::ProjectName;

/// What to rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renamable {
    Branch,
    Testbed,
    Benchmark,
}

/// Result of renaming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renamed {
    Done,
    /// Both existed, and were merged. Contains the number of reports with the old name.
    Merged {
        reports: usize,
    },
    /// The old name does not exist.
    Missing,
    /// The new name is taken, and nothing was changed.
    Taken,
}

impl Renamable {
    fn table(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Testbed => "testbed",
            Self::Benchmark => "benchmark",
        }
    }

    /// The condition that the report `r` has the name of row `?1` in its document.
    fn condition(self) -> &'static str {
        match self {
            Self::Branch => "r.branch = ?1 OR r.start_branch = ?1",
            Self::Testbed => "r.testbed = ?1",
            Self::Benchmark => {
                "r.project = (SELECT project FROM benchmark WHERE id = ?1)
                 AND (EXISTS (SELECT 1 FROM metric m WHERE m.report = r.id AND m.benchmark = ?1)
                      OR EXISTS (SELECT 1 FROM failure f WHERE f.report = r.id AND f.benchmark = ?1))"
            }
        }
    }
}

impl Store {
    /// Renames. If the new name is taken, `merges` merges both; values of two benchmarks are never merged into one
    /// series. The caller has validated the new name.
    ///
    /// Documents of reports have names, so their digests are computed again. A report that is damaged is an error.
    pub fn rename(
        &self,
        project: &ProjectName,
        what: Renamable,
        (old, new): (&str, &str),
        merges: bool,
    ) -> Result<Renamed, StoreError> {
        self.doing("renaming", || {
            let transaction = self.connection.writing()?;
            let Some(project) = project_row(&transaction, project)? else {
                return Ok(Renamed::Missing);
            };
            let row = |name| name_row(&transaction, what.table(), project, name);
            let done = match (row(old)?, row(new)?) {
                (None, _) => return Ok(Renamed::Missing),
                (Some(old), Some(new)) if old == new => return Ok(Renamed::Done),
                (_, Some(_)) if !merges || what == Renamable::Benchmark => {
                    return Ok(Renamed::Taken);
                }
                (Some(row), Some(target)) => {
                    let mut reports = reports(&transaction, what, row)?;
                    reports.extend(reports_that_start_on(&transaction, what, (row, target))?);
                    changed(&transaction, &reports, || merge(&transaction, what, row, target))
                        .map(|reports| Renamed::Merged { reports })?
                }
                (Some(row), None) => {
                    let reports = reports(&transaction, what, row)?;
                    changed(&transaction, &reports, || {
                        let sql = format!("UPDATE {} SET name = ?2 WHERE id = ?1", what.table());
                        prepare(&transaction, &sql)?.execute(params![row, new])?;
                        if what == Renamable::Benchmark {
                            rename_profiles(&transaction, project, (old, new))?;
                        }
                        Ok(Renamed::Done)
                    })?
                }
            };
            transaction.commit()?;
            Ok(done)
        })
    }
}

/// The reports with this name, by row.
fn reports(db: &Connection, what: Renamable, row: i64) -> SqlResult<Vec<i64>> {
    let sql = format!("SELECT r.id FROM report r WHERE {}", what.condition());
    prepare(db, &sql)?.query_map([row], |row| row.get(0))?.collect()
}

/// Reports of a branch that starts on the branch that it becomes one with. They lose their start point.
fn reports_that_start_on(
    db: &Connection,
    what: Renamable,
    (row, target): (i64, i64),
) -> SqlResult<Vec<i64>> {
    if what != Renamable::Branch {
        return Ok(Vec::new());
    }
    let sql = "SELECT id FROM report WHERE branch = ?2 AND start_branch = ?2 AND ?1 <> ?2";
    prepare(db, sql)?.query_map([row, target], |row| row.get(0))?.collect()
}

/// Verifies reports, changes their documents, and computes their digests again.
fn changed<T>(
    db: &Connection,
    reports: &[i64],
    change: impl FnOnce() -> SqlResult<T>,
) -> SqlResult<T> {
    for report in reports {
        verified(db, *report)?;
    }
    let done = change()?;
    for report in reports {
        let digest = digest(&read(db, *report)?)?;
        let sql = "UPDATE report SET digest = ?2 WHERE id = ?1";
        prepare(db, sql)?.execute(params![report, digest.as_slice()])?;
    }
    Ok(done)
}

/// Moves the reports of one branch or testbed to another, and returns their number. A branch that started from the
/// other loses its start point: the other's reports are its history.
fn merge(db: &Connection, what: Renamable, row: i64, target: i64) -> SqlResult<usize> {
    let table = what.table();
    let sql = format!("UPDATE report SET {table} = ?2 WHERE {table} = ?1");
    let moved = prepare(db, &sql)?.execute([row, target])?;
    if what == Renamable::Branch {
        let sql = "UPDATE report SET start_branch = ?2 WHERE start_branch = ?1";
        prepare(db, sql)?.execute([row, target])?;
        let sql = "UPDATE report SET start_branch = NULL, start_hash = NULL, start_until_ns = NULL,
                       start_versions_max = NULL
                   WHERE branch = ?1 AND start_branch = ?1";
        prepare(db, sql)?.execute([target])?;
    }
    let sql = format!("DELETE FROM {table} WHERE id = ?1");
    prepare(db, &sql)?.execute([row])?;
    Ok(moved)
}

/// Profiles refer to their benchmark by text.
fn rename_profiles(db: &Connection, project: i64, (old, new): (&str, &str)) -> SqlResult<()> {
    let sql = "UPDATE profile SET benchmark = ?3 WHERE benchmark = ?2
               AND report IN (SELECT uuid FROM report WHERE project = ?1)";
    prepare(db, sql)?.execute(params![project, old, new])?;
    Ok(())
}
