//! Reports in an embedded database, or in files that merge.
//!
//! A [`Store`] is one SQLite file, or a schema of a PostgreSQL database. Each report is stored in one transaction, so
//! it is stored completely or not at all, and several processes may write at once. Reports are read back exactly as
//! stored.
//!
//! Nothing in a store depends on the order in which reports were added: history is ordered by the time of measurement,
//! and an alert's status is the last change by time. So stores can be merged with [`Store::export`] and
//! [`Store::import`], in any order and any number of times.

mod alerts;
mod batch;
mod check;
mod columns;
mod copy;
mod document;
mod entries;
mod error;
mod exchange;
mod folder;
mod history;
mod insert;
mod log;
mod open;
mod partitions;
#[cfg(test)]
mod plans;
mod profiles;
mod read;
mod rename;
mod retention;
mod rows;
mod series;
mod server_queries;
mod stream;
mod tables;
mod versions;
mod withdrawals;

use std::path::{Path, PathBuf};

use wingbeat_sql::{Connection, Error, Many, Result as SqlResult, Statement};

pub use alerts::{AlertChange, AlertFilter, StoredAlert};
pub use check::Check;
pub use copy::{Copied, CopyError, Progress};
pub use document::{Counts, Document};
pub use entries::{Cursor, Damaged, Documents, Entry, InvalidCursor};
pub use error::{InvalidDocument, StoreError};
pub use exchange::{ExchangeError, Exported, Imported, Skipped};
pub use history::HistoryLimits;
pub use insert::Insertion;
pub use log::{BranchHead, Known, ReportFilter, ReportSummary};
pub use open::default_path;
pub use rename::{Renamable, Renamed};
pub use retention::Retention;
pub use series::{Plot, PlotPoint, PlotQuery, PlotSeries};
pub use server_queries::{IterationCount, Stretch, Use};
pub use tables::VERSION;
pub use withdrawals::Withdrawal;

/// Reports in one SQLite file, or in a schema of a PostgreSQL database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For tables that a server adds to a store.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Does something. Errors state what.
    pub fn doing<T>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> SqlResult<T>,
    ) -> Result<T, StoreError> {
        work().map_err(self.error(what))
    }

    /// Converts a database error to a store error that states the failed operation.
    pub fn error(&self, doing: &'static str) -> impl Fn(Error) -> StoreError {
        move |source| StoreError::of(&self.path, doing, source)
    }
}

/// Prepares a statement. All statements on reports go through here, so that a test can inspect their query plans.
fn prepare<'c>(db: &'c Connection, sql: &str) -> SqlResult<Statement<'c>> {
    #[cfg(test)]
    plans::note(sql);
    db.prepare(sql)
}

/// Like [`prepare`], for a statement that looks up one number after another.
fn many<'c>(db: &'c Connection, sql: &str, at_once: usize) -> SqlResult<Many<'c>> {
    #[cfg(test)]
    plans::note(sql);
    Many::prepare(db, sql, at_once)
}
