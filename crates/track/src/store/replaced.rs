//! Alerts of a branch that was restarted: they are about a history that is no longer used.

use super::prelude::*;

use super::{
    alerts::{change_status, last_change},
    withdrawals::STANDS,
};

/// The reason of their dismissal, as lists show it.
const REASON: &str = "the branch has begun anew since";

impl Store {
    /// Dismisses the active alerts of all heads of a branch but the newest. Returns their number.
    ///
    /// Not silenced, which would silence their series on the new head, too.
    pub fn settle_replaced_heads(
        &mut self,
        project: &ProjectName,
        branch: &BranchName,
    ) -> Result<usize, StoreError> {
        let settle = || {
            let transaction = writing(&self.connection)?;
            let Some(branch) = branch_row(&transaction, project, branch)? else { return Ok(0) };
            let mut settled = 0;
            for (alert, raised) in of_replaced_heads(&transaction, branch)? {
                let last = last_change(&transaction, alert)?;
                if last.map_or(raised, |last| last.status) == AlertStatus::Active {
                    let reason = Some(REASON.to_owned());
                    change_status(&transaction, alert, AlertStatus::Dismissed, reason)?;
                    settled += 1;
                }
            }
            transaction.commit()?;
            Ok(settled)
        };
        settle().map_err(self.error("settling alerts"))
    }
}

/// Alerts of a branch whose status is still the original one, except those of its newest head.
fn of_replaced_heads(db: &Connection, branch: i64) -> SqlResult<Vec<(Uuid, AlertStatus)>> {
    let newest = format!("SELECT max(epoch) FROM report r WHERE r.branch = ?1 AND {STANDS}");
    let newest: Option<u32> = prepare(db, &newest)?.query_row([branch], |row| row.get(0))?;
    let Some(newest) = newest.filter(|newest| *newest > 0) else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT a.uuid, a.status FROM report r CROSS JOIN alert a ON a.report = r.id
         WHERE r.branch = ?1 AND r.epoch < ?2 AND {STANDS}"
    );
    let alert = |row: &Row<'_>| Ok((row.get::<_, Id>(0)?.0, row.get::<_, Word<_>>(1)?.0));
    prepare(db, &sql)?.query_map([branch, newest.into()], alert)?.collect()
}
