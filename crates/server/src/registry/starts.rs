//! Start points of branches, set before their next report. The report takes it over; afterwards the results have it.

use wingbeat_sql::{OptionalExtension as _, params};

use super::{Registry, RegistryError};

/// Start point of a branch's next report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// The origin branch, by its name in the results.
    pub branch: Option<String>,
    pub hash: Option<String>,
    pub max_versions: Option<u32>,
    pub is_reset: bool,
}

impl Registry {
    /// Sets the start point of the next report of a branch, given by row.
    pub fn set_start(&self, branch: i64, start: &Start) -> Result<(), RegistryError> {
        let sql = "INSERT INTO branch_start (branch, start, hash, max_versions, is_reset)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (branch) DO UPDATE SET start = excluded.start, hash = excluded.hash,
                       max_versions = excluded.max_versions, is_reset = excluded.is_reset";
        let values = params![branch, start.branch, start.hash, start.max_versions, start.is_reset];
        self.connection
            .execute(sql, values)
            .map(drop)
            .map_err(self.error("keeping the start point of a branch"))
    }

    /// The start point set for a branch's next report.
    pub fn start(&self, branch: i64) -> Result<Option<Start>, RegistryError> {
        let sql = "SELECT start, hash, max_versions, is_reset FROM branch_start WHERE branch = ?1";
        let read = || {
            self.connection
                .prepare(sql)?
                .query_row([branch], |row| {
                    Ok(Start {
                        branch: row.get(0)?,
                        hash: row.get(1)?,
                        max_versions: row.get(2)?,
                        is_reset: row.get(3)?,
                    })
                })
                .optional()
        };
        read().map_err(self.error("reading the start point of a branch"))
    }

    /// Removes it after the report has arrived.
    pub fn clear_start(&self, branch: i64) -> Result<(), RegistryError> {
        self.connection
            .execute("DELETE FROM branch_start WHERE branch = ?1", [branch])
            .map(drop)
            .map_err(self.error("forgetting the start point of a branch"))
    }
}
