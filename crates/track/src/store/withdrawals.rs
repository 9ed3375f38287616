//! Withdrawn reports: results of a broken machine, or of a wrong branch. The report stays in the store, so that stores
//! still merge, but is hidden from all lists, histories and plots.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{Connection, Row, Time, params};

use super::{
    InvalidDocument, SqlResult, Store, StoreError,
    columns::time_ns,
    document::Kind,
    prepare,
    tables::{WITHDRAWAL, is_known},
};

/// The withdrawal of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawal {
    pub uuid: Uuid,
    pub report: Uuid,
    #[serde(with = "time::serde::rfc3339")]
    pub time: OffsetDateTime,
    /// The comment of the person who withdrew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The condition that the report `r` was not withdrawn.
pub(super) const STANDS: &str = "NOT EXISTS (SELECT 1 FROM withdrawal w WHERE w.report = r.uuid)";

impl Store {
    /// Withdraws a report now. `None` if there is no such report, or it was already withdrawn.
    pub fn withdraw(
        &self,
        report: Uuid,
        reason: Option<String>,
    ) -> Result<Option<Withdrawal>, StoreError> {
        self.doing("withdrawing a report", || {
            let transaction = self.connection.writing()?;
            let sql = format!("SELECT 1 FROM report r WHERE r.uuid = ?1 AND {STANDS}");
            if !prepare(&transaction, &sql)?.exists([report])? {
                return Ok(None);
            }
            let (uuid, time) = (Uuid::now_v7(), OffsetDateTime::now_utc());
            let withdrawal = Withdrawal { uuid, report, time, reason };
            insert_withdrawal(&transaction, &withdrawal)?;
            transaction.commit()?;
            Ok(Some(withdrawal))
        })
    }
}

pub(super) fn validate_withdrawal(withdrawal: &Withdrawal) -> Result<(), InvalidDocument> {
    let reason = || format!("its time {} is not between the years 1677 and 2262", withdrawal.time);
    let invalid = || InvalidDocument { uuid: withdrawal.uuid, reason: reason() };
    time_ns(withdrawal.time).map(drop).ok_or_else(invalid)
}

/// Stores a withdrawal, and returns whether it is new.
pub(super) fn insert_withdrawal(db: &Connection, withdrawal: &Withdrawal) -> SqlResult<bool> {
    if is_known(db, Kind::Withdrawal, withdrawal.uuid)? {
        return Ok(false);
    }
    let Withdrawal { uuid, report, time, reason } = withdrawal;
    let values = params![uuid, report, Time(*time), reason];
    WITHDRAWAL.insert(db, values)?;
    Ok(true)
}

/// A withdrawal from columns named as in the table.
pub(super) fn withdrawal(row: &Row<'_>) -> SqlResult<Withdrawal> {
    Ok(Withdrawal {
        uuid: row.get("uuid")?,
        report: row.get("report")?,
        time: row.time("time_ns")?,
        reason: row.get("reason")?,
    })
}
