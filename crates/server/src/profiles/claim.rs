//! Which of several servers merges and deletes: one at a time, until it stops renewing its claim. Each of its changes
//! is made only while it still holds the claim, so nothing is done twice, whatever the clocks show.

use uuid::Uuid;
use wingbeat_sql::{Connection, Result, params};

/// How long a claim lasts without being renewed: longer than a merge takes.
const LASTS_NS: i64 = 60 * 1_000_000_000;

/// Takes or renews the claim; returns whether this server has it.
pub(super) fn take(db: &Connection, owner: Uuid, now_ns: i64) -> Result<bool> {
    // Servers of a database share its clock.
    let now_ns = match db.is_postgres() {
        true => {
            let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint";
            db.query_row(sql, [], |row| row.get(0))?
        }
        false => now_ns,
    };
    let sql = "INSERT INTO claim (job, owner, until_ns) VALUES ('profiles', ?1, ?2) ON CONFLICT (job) \
               DO UPDATE SET owner = excluded.owner, until_ns = excluded.until_ns \
               WHERE claim.owner = excluded.owner OR claim.until_ns < ?3";
    Ok(db.execute(sql, params![owner.as_bytes().as_slice(), now_ns + LASTS_NS, now_ns])? == 1)
}
