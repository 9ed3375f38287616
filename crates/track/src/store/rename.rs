//! Renames a branch, a testbed or a benchmark. Rows refer to it by number, so its history is kept.

use super::prelude::*;
use wingbeat_sql::{Value, ValueRef, params_from_iter};

use super::{
    checksum::{BENCHMARK, BRANCH, Checksum, PROFILE, REPORT, TESTBED, Table},
    sums::Total,
};

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
    fn table(self) -> Table {
        match self {
            Self::Branch => BRANCH,
            Self::Testbed => TESTBED,
            Self::Benchmark => BENCHMARK,
        }
    }
}

impl Store {
    /// Renames. If the new name is taken, `merges` merges both; values of two benchmarks are never merged into one
    /// series. The caller has validated the new name.
    pub fn rename(
        &mut self,
        project: &ProjectName,
        what: Renamable,
        (old, new): (&str, &str),
        merges: bool,
    ) -> Result<Renamed, StoreError> {
        let rename = || {
            let transaction = writing(&self.connection)?;
            let table = what.table();
            let row = |name| match project_row(&transaction, project)? {
                Some(project) => name_row(&transaction, table.name, project, name),
                None => Ok(None),
            };
            let done = match (row(old)?, row(new)?) {
                (None, _) => return Ok(Renamed::Missing),
                (Some(old), Some(new)) if old == new => return Ok(Renamed::Done),
                (_, Some(_)) if !merges || what == Renamable::Benchmark => {
                    return Ok(Renamed::Taken);
                }
                (Some(row), Some(target)) => {
                    let reports = merge(&transaction, table, row, target)?;
                    Renamed::Merged { reports }
                }
                (Some(row), None) => {
                    name(&transaction, table, row, new)?;
                    if what == Renamable::Benchmark {
                        rename_profiles(&transaction, row, (old, new))?;
                    }
                    Renamed::Done
                }
            };
            transaction.commit()?;
            Ok(done)
        };
        rename().map_err(self.error("renaming"))
    }
}

/// Writes the new name into its row.
fn name(db: &Connection, table: Table, row: i64, new: &str) -> SqlResult<()> {
    let sql = format!("SELECT project FROM {} WHERE id = ?1", table.name);
    let project: i64 = prepare(db, &sql)?.query_row([row], |row| row.get(0))?;
    let checksum = Checksum::of(params![row, project, new])?.short();
    let sql = format!("UPDATE {} SET name = ?2, checksum = ?3 WHERE id = ?1", table.name);
    prepare(db, &sql)?.execute(params![row, new, checksum])?;
    Ok(())
}

/// Moves the reports of one branch or testbed to another. A branch that started from the other loses its start point:
/// the other's reports are its history.
fn merge(db: &Connection, table: Table, row: i64, target: i64) -> SqlResult<usize> {
    let is_branch = table == BRANCH;
    let column = |name| REPORT.columns().position(|known| known == name);
    let own = column(table.name);
    let starts = ["start_branch", "start_hash", "start_until_ns", "start_versions_max"].map(column);
    let condition =
        if is_branch { "branch IN (?1, ?2) OR start_branch = ?1" } else { "testbed IN (?1, ?2)" };
    let sql = format!("{} WHERE {condition}", REPORT.select());
    let reports = prepare(db, &sql)?
        .query_map([row, target], |row| {
            let checksum = REPORT.verify(row, 0)?;
            let values = (0..REPORT.columns().count()).map(|at| row.get(at));
            Ok((values.collect::<SqlResult<Vec<Value>>>()?, checksum))
        })?
        .collect::<SqlResult<Vec<_>>>()?;
    let names = REPORT.columns().zip(2..);
    let set: Vec<_> = names.map(|(name, number)| format!("{name} = ?{number}")).collect();
    let sql = format!("UPDATE report SET checksum = ?1, {} WHERE id = ?2", set.join(", "));
    let mut update = prepare(db, &sql)?;
    let mut total = Total::read(db)?;
    let (old, new) = (Value::Integer(row), Value::Integer(target));
    let mut moved = 0;
    for (mut values, before) in reports {
        let untouched = values.clone();
        for at in [own, starts[0].filter(|_| is_branch)].into_iter().flatten() {
            if values[at] == old {
                values[at] = new.clone();
                moved += usize::from(Some(at) == own);
            }
        }
        if is_branch
            && starts[0].is_some_and(|start| own.is_some_and(|own| values[start] == values[own]))
        {
            starts.into_iter().flatten().for_each(|at| values[at] = Value::Null);
        }
        if values == untouched {
            continue;
        }
        let read: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
        let checksum = Checksum::of_read(&read);
        let short = Value::from(checksum.short());
        update.execute(params_from_iter([short].into_iter().chain(values)))?;
        total.reports.sum.replace(before, checksum);
    }
    total.write(db)?;
    let sql = format!("DELETE FROM {} WHERE id = ?1", table.name);
    prepare(db, &sql)?.execute([row])?;
    Ok(moved)
}

/// Profiles refer to their benchmark by text.
fn rename_profiles(db: &Connection, benchmark: i64, (old, new): (&str, &str)) -> SqlResult<()> {
    let sql = format!(
        "SELECT {} FROM profile pr JOIN report r ON r.uuid = pr.report
         JOIN benchmark b ON b.project = r.project WHERE b.id = ?1 AND pr.benchmark = ?2",
        PROFILE.list("pr")
    );
    let at = PROFILE.columns().position(|name| name == "benchmark").unwrap_or_default();
    let profiles = prepare(db, &sql)?
        .query_map(params![benchmark, old], |row| {
            let before = PROFILE.verify(row, 0)?;
            let mut values = (0..PROFILE.columns().count())
                .map(|at| row.get_ref(at))
                .collect::<SqlResult<Vec<_>>>()?;
            values[at] = ValueRef::Text(new.as_bytes());
            let uuid: Vec<u8> = row.get(0)?;
            Ok((uuid, before, Checksum::of_read(&values)))
        })?
        .collect::<SqlResult<Vec<_>>>()?;
    let sql = "UPDATE profile SET benchmark = ?2, checksum = ?3 WHERE uuid = ?1";
    let mut total = Total::read(db)?;
    for (uuid, before, checksum) in profiles {
        prepare(db, sql)?.execute(params![uuid, new, checksum.short()])?;
        total.profiles.sum.replace(before, checksum);
    }
    total.write(db)
}
