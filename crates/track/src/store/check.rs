//! Verifies a whole store: each report by its digest, each profile by the hash of its content, and the file by SQLite.

use serde::Serialize;
use wingbeat_sql::{Connection, sqlite::integrity_faults};

use super::{
    Damaged, Document, SqlResult, Store, StoreError,
    document::Kind,
    entries::{self, document},
    error::is_damage,
    exchange::report_of,
};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Check {
    pub reports: usize,
    /// Number of undamaged reports, which can be exported.
    pub whole_reports: usize,
    pub metrics: usize,
    pub alert_changes: usize,
    pub withdrawals: usize,
    pub profiles: usize,
    pub damaged: Vec<Damaged>,
}

impl Store {
    /// Reads everything, and compares each report with its digest and each profile with its hash. Has SQLite check the
    /// file, its indexes and its references. Damage is not an error.
    ///
    /// Finds any change of a report by other means than wingbeat. Does not find a deleted report, nor a change of an
    /// alert's later status, of a withdrawal, or of the description of a profile.
    pub fn check(&self) -> Result<Check, StoreError> {
        check(&self.connection).map_err(self.error("checking it"))
    }
}

fn check(db: &Connection) -> SqlResult<Check> {
    let view = db.view()?;
    let mut found = Check::default();
    let (entries, damaged) = entries::all(&view)?;
    found.damaged = damaged;
    for entry in entries {
        *match entry.at.kind {
            Kind::Report => &mut found.reports,
            Kind::AlertChange => &mut found.alert_changes,
            Kind::Withdrawal => &mut found.withdrawals,
            Kind::Profile => &mut found.profiles,
        } += 1;
        match document(&view, entry) {
            Ok(Document::Report(report)) => {
                found.whole_reports += 1;
                found.metrics += report.metrics().count();
            }
            Ok(_) => {}
            Err(error) if is_damage(&error) => {
                found.damaged.push(Damaged::of(report_of(&view, entry), &error));
            }
            Err(error) => return Err(error),
        }
    }
    // Last, since it only locates damage within the file.
    match integrity_faults(&view, None) {
        Ok(faults) => found.damaged.extend(faults.iter().map(Damaged::by_engine)),
        Err(error) if is_damage(&error) => found.damaged.push(Damaged::of(None, &error)),
        Err(error) => return Err(error),
    }
    Ok(found)
}
