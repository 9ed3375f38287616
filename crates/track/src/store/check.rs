//! Verifies a whole store, and lists its contents without relying on indexes.

use super::prelude::*;
use serde::Serialize;
use wingbeat_sql::sqlite::integrity_faults;

use crate::model::ProfileInfo;

use super::{
    AlertChange, Withdrawal, alerts,
    census::compare,
    checksum::{
        ALERT_CHANGE, BENCHMARK, BRANCH, ENVIRONMENT, MEASURE, PROFILE, PROJECT, REPORT, TESTBED,
        Table, WITHDRAWAL,
    },
    error::detail,
    profiles,
    sums::{Count, DamagedPlace, Scope, Sums, Total, verify_report},
    values, withdrawals,
};

const PLACES_MAX: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Check {
    pub reports: usize,
    /// Number of undamaged reports, which can be exported.
    pub whole_reports: usize,
    pub metrics: u64,
    pub alert_changes: usize,
    pub withdrawals: usize,
    pub profiles: usize,
    pub damaged: Vec<Damaged>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Damaged {
    /// Its report, if it belongs to one.
    pub report: Option<Uuid>,
    pub benchmark: Option<String>,
    pub measure: Option<String>,
    pub what: String,
}

impl Damaged {
    /// An error that occurred while reading a report.
    pub(super) fn report(uuid: Uuid, error: &Error) -> Self {
        Self { report: Some(uuid), what: detail(error), ..Self::default() }
    }
}

impl Store {
    /// Reads everything and compares it with its checksums. Damage is not an error.
    pub fn check(&self) -> Result<Check, StoreError> {
        check(&self.connection).map_err(self.error("checking it"))
    }
}

fn check(db: &Connection) -> SqlResult<Check> {
    let view = db.view()?;
    let mut found = Check::default();
    for table in [PROJECT, BRANCH, TESTBED, BENCHMARK, MEASURE, ENVIRONMENT] {
        let each = |row: &Row<'_>| table.verify(row, 0).map(drop);
        rows(&view, &table.select(), &mut found.damaged, each)?;
    }
    let Listing { reports, changes, withdrawals, profiles, damaged } = list_all(&view)?;
    found.damaged.extend(damaged);
    found.reports = reports.len();
    found.alert_changes = changes.len();
    found.withdrawals = withdrawals.len();
    found.profiles = profiles.len();
    for about in profiles {
        note(profiles::whole(&view, about).map(drop), &mut found.damaged)?;
    }
    for report in reports {
        if let Some(metrics) = metrics_if_whole(&view, &report, &mut found.damaged)? {
            found.whole_reports += 1;
            found.metrics += metrics;
            match values::verify(&view, report.row) {
                Err(error) if is_damage(&error) => {
                    found.damaged.push(Damaged::report(report.uuid, &error));
                }
                verified => verified?,
            }
        }
    }
    // Last, since it only locates damage within the file.
    let faults = integrity_faults(&view, None);
    for fault in faults.as_deref().unwrap_or_default() {
        let what = format!("SQLite says: {fault}");
        found.damaged.push(Damaged { what, ..Damaged::default() });
    }
    note(faults.map(drop), &mut found.damaged)?;
    Ok(found)
}

/// The metrics of an undamaged report. Damage is recorded.
fn metrics_if_whole(
    db: &Connection,
    report: &Listed,
    damaged: &mut Vec<Damaged>,
) -> SqlResult<Option<u64>> {
    let sql = format!("{} WHERE id = ?1", REPORT.select());
    let verified = db.prepare(&sql)?.query_row([report.row], |row| {
        verify_report(db, row, Scope::All, &mut |_| Ok(()))?;
        row.get::<_, i64>(21)
    });
    let error = match verified {
        Ok(metrics) => return Ok(Some(metrics.unsigned_abs())),
        Err(error) if is_damage(&error) => error,
        Err(error) => return Err(error),
    };
    let before = damaged.len();
    let mut more = 0;
    let read = Sums::read(db, report.row, Scope::All, &mut |part| {
        let Err((place, error)) = part else { return Ok(()) };
        if !is_damage(&error) {
            return Err(error);
        }
        match damaged.len() - before < PLACES_MAX {
            true => damaged.push(named(db, report.uuid, place, &error)),
            false => more += 1,
        }
        Ok(())
    });
    match read {
        Err(error) if !is_damage(&error) => return Err(error),
        // The rest of it is unreadable.
        Err(error) => damaged.push(Damaged::report(report.uuid, &error)),
        // All rows that exist are undamaged, so some are missing.
        Ok(_) if damaged.len() == before => damaged.push(Damaged::report(report.uuid, &error)),
        Ok(_) => {}
    }
    if more > 0 {
        let what = format!("{more} more rows differ from what was written");
        damaged.push(Damaged { what, ..Damaged::report(report.uuid, &error) });
    }
    Ok(None)
}

/// Describes a place as far as the names are readable.
fn named(db: &Connection, report: Uuid, place: DamagedPlace, error: &Error) -> Damaged {
    let text = |table: Table, column: &str, row: Option<i64>| {
        let sql = format!("SELECT {column} FROM {} WHERE id = ?1", table.name);
        let mut statement = db.prepare(&sql).ok()?;
        statement.query_row([row?], |row| row.get::<_, String>(0)).ok()
    };
    let what = match detail(error) {
        what if what.contains(place.table.name) => what,
        what => format!("a row of the table {}: {what}", place.table.name),
    };
    Damaged {
        report: Some(report),
        benchmark: text(BENCHMARK, "name", place.benchmark),
        measure: text(MEASURE, "slug", place.measure),
        what,
    }
}

#[derive(Debug)]
pub(super) struct Listed {
    pub(super) row: i64,
    pub(super) uuid: Uuid,
    pub(super) time: OffsetDateTime,
}

#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) reports: Vec<Listed>,
    pub(super) changes: Vec<AlertChange>,
    pub(super) withdrawals: Vec<Withdrawal>,
    pub(super) profiles: Vec<ProfileInfo>,
    /// Entries that are in neither list, or missing.
    pub(super) damaged: Vec<Damaged>,
}

/// Lists reports, changes of alerts, withdrawals and profiles ordered by time. Reads whole tables, since an index may
/// have lost a row, and compares them with the counts and sums of what was stored.
pub(super) fn list_all(db: &Connection) -> SqlResult<Listing> {
    let mut listing = Listing::default();
    let mut reports = Count::default();
    let damaged = &mut listing.damaged;
    rows(db, &REPORT.select(), damaged, |row| {
        let uuid = row.get::<_, Id>(1)?.0;
        // Its row is checked again when the report is read, which then reports the damage.
        if let Ok(checksum) = REPORT.verify(row, 0) {
            reports.add(checksum);
        }
        let time = row.get::<_, Time>(11)?.0;
        listing.reports.push(Listed { row: row.get(0)?, uuid, time });
        Ok(())
    })?;
    let mut changes = Count::default();
    rows(db, &ALERT_CHANGE.select(), damaged, |row| {
        changes.add(ALERT_CHANGE.verify(row, 0)?);
        listing.changes.push(alerts::change(row)?);
        Ok(())
    })?;
    let mut withdrawals = Count::default();
    rows(db, &WITHDRAWAL.select(), damaged, |row| {
        withdrawals.add(WITHDRAWAL.verify(row, 0)?);
        listing.withdrawals.push(withdrawals::withdrawal(row)?);
        Ok(())
    })?;
    let mut profiles = Count::default();
    rows(db, &PROFILE.select(), damaged, |row| {
        let (about, checksum) = profiles::verified(row)?;
        profiles.add(checksum);
        listing.profiles.push(about);
        Ok(())
    })?;
    let compared = Total::read(db).and_then(|total| {
        compare("whole reports", reports, total.reports)?;
        compare("whole changes of alerts", changes, total.alert_changes)?;
        compare("whole withdrawals", withdrawals, total.withdrawals)?;
        compare("whole profiles", profiles, total.profiles)
    });
    note(compared, damaged)?;
    listing.reports.sort_by_key(|report| (report.time, report.uuid));
    listing.changes.sort_by_key(|change| (change.time, change.uuid));
    listing.withdrawals.sort_by_key(|one| (one.time, one.uuid));
    listing.profiles.sort_by_key(|one| (one.time, one.uuid));
    Ok(listing)
}

/// Records damage, which is not an error.
fn note(done: SqlResult<()>, damaged: &mut Vec<Damaged>) -> SqlResult<()> {
    match done {
        Err(error) if is_damage(&error) => {
            damaged.push(Damaged { what: detail(&error), ..Damaged::default() });
        }
        done => done?,
    }
    Ok(())
}

/// Iterates over rows. Records damage, also if SQLite cannot continue.
fn rows(
    db: &Connection,
    sql: &str,
    damaged: &mut Vec<Damaged>,
    mut each: impl FnMut(&Row<'_>) -> SqlResult<()>,
) -> SqlResult<()> {
    let gone = db.scan(sql, |row| note(each(row), damaged));
    note(gone, damaged)
}
