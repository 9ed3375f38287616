//! Verification on opening a store: the rows of all reports, the names they refer to, and the indexes that lead to
//! them. Lists read a few rows along an index, so a row lost from it would be missing silently. Takes about 5 µs per
//! report. The contents of a report are verified when it is read.

use std::collections::HashSet;

use super::prelude::*;
use wingbeat_sql::sqlite::integrity_faults;

use super::{
    checksum::{
        ALERT_CHANGE, BRANCH, ENVIRONMENT, MEASURE, PROFILE, PROJECT, REPORT, TESTBED, Table,
        WITHDRAWAL, damage,
    },
    sums::{Count, Total},
};

impl Store {
    /// Verifies what every query of the store depends on.
    pub(super) fn take_census(&self) -> Result<(), StoreError> {
        take(&self.connection).map_err(self.error("counting what is in it"))
    }
}

fn take(db: &Connection) -> SqlResult<()> {
    let view = db.view()?;
    verified(&view, MEASURE)?;
    let (projects, branches) = (verified(&view, PROJECT)?, verified(&view, BRANCH)?);
    let (testbeds, environments) = (verified(&view, TESTBED)?, verified(&view, ENVIRONMENT)?);
    let mut reports = Count::default();
    // Not through `prepare`, here and below: these statements are meant to read whole tables.
    view.scan(&REPORT.select(), |row| {
        reports.add(REPORT.verify(row, 0)?);
        let of = |column| row.get::<_, i64>(column);
        let start = row.get::<_, Option<i64>>(7)?;
        let is_known = projects.contains(&of(2)?)
            && branches.contains(&of(3)?)
            && testbeds.contains(&of(4)?)
            && start.is_none_or(|start| branches.contains(&start))
            && environments.contains(&of(14)?);
        let error = || damage("a name that a report refers to is missing");
        is_known.then_some(()).ok_or_else(error)
    })?;
    let total = Total::read(&view)?;
    compare("reports", reports, total.reports)?;
    compare("changes of alerts", count(&view, ALERT_CHANGE)?, total.alert_changes)?;
    compare("withdrawals", count(&view, WITHDRAWAL)?, total.withdrawals)?;
    compare("profiles", count(&view, PROFILE)?, total.profiles)?;
    for table in [
        "report",
        "alert_change",
        "withdrawal",
        "profile",
        "project",
        "branch",
        "testbed",
        "measure",
    ] {
        check_indexes(&view, table)?;
    }
    Ok(())
}

/// Verifies and counts all rows of a table.
fn count(db: &Connection, table: Table) -> SqlResult<Count> {
    let mut count = Count::default();
    db.scan(&table.select(), |row| {
        count.add(table.verify(row, 0)?);
        Ok(())
    })?;
    Ok(count)
}

/// Compares the rows found with the count and checksum recorded on writing.
pub(super) fn compare(what: &str, found: Count, told: Count) -> SqlResult<()> {
    if found == told {
        return Ok(());
    }
    Err(damage(match found.rows == told.rows {
        true => format!("the {what} are not those that were stored"),
        false => format!("it has {} {what}, and {} were stored", found.rows, told.rows),
    }))
}

pub(super) fn check_indexes(db: &Connection, table: &str) -> SqlResult<()> {
    let faults = integrity_faults(db, Some(table))?;
    faults.into_iter().next().map_or(Ok(()), |fault| Err(damage(fault)))
}

/// Verifies all rows of a table of names, and returns their row numbers.
pub(super) fn verified(db: &Connection, table: Table) -> SqlResult<HashSet<i64>> {
    let mut ids = HashSet::new();
    db.scan(&table.select(), |row| {
        table.verify(row, 0)?;
        ids.insert(row.get(0)?);
        Ok(())
    })?;
    Ok(ids)
}
