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
mod census;
mod check;
mod checksum;
mod columns;
mod copy;
mod documents;
mod error;
mod exchange;
mod files;
mod from_row;
mod history;
mod insert;
mod log;
mod lookup;
mod measures;
mod migrations;
mod open;
mod partitions;
mod past;
mod place;
#[cfg(test)]
mod plans;
mod profiles;
mod read;
mod rename;
mod replaced;
mod retention;
mod rows;
mod series;
mod serving;
mod stream;
mod sums;
mod values;
mod versions;
mod withdrawals;

/// Common imports of the store: the connection, column types, and the model.
mod prelude {
    pub(super) use time::OffsetDateTime;
    pub(super) use uuid::Uuid;
    pub(super) use wingbeat_sql::{Connection, Error, OptionalExtension as _, Row, params};

    pub(super) use super::{
        SqlResult, Store, StoreError,
        columns::{Id, Numbers, Text, Time, Word, limit_ns, time_ns},
        error::is_damage,
        many, prepare,
        rows::{branch_row, name_row, project_row},
        writing,
    };
    pub(super) use crate::model::{
        Alert, AlertStatus, BenchmarkName, BenchmarkResults, Boundary, BranchName, Change,
        Environment, FailedBenchmark, Limit, Measure, Metric, Outcome, Past, PastPoint, PastReport,
        PastSeries, ProjectName, Report, Results, Slug, StartPoint, TestbedName, Verdict,
    };
}

use std::path::{Path, PathBuf};

use wingbeat_sql::{Connection, Error, Many, Result as SqlResult, Statement, Transaction};

pub use alerts::{AlertChange, AlertFilter, StoredAlert};
pub use check::{Check, Damaged};
pub use copy::{Copied, CopyError, Progress};
pub use documents::{Cursor, Document, Documents, Entry, InvalidCursor};
pub use error::{InvalidReport, StoreError};
pub use exchange::{ExchangeError, Exported, Imported, Skipped};
pub use history::HistoryLimits;
pub use insert::Insertion;
pub use log::{BranchHead, Known, ReportFilter, ReportSummary};
pub use migrations::VERSION;
pub use place::default_path;
pub use rename::{Renamable, Renamed};
pub use retention::Retention;
pub use series::{Plot, PlotPoint, PlotQuery, PlotSeries};
pub use serving::{IterationCount, Stretch, Use};
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

    /// Converts a database error to a store error that states the failed operation.
    fn error(&self, doing: &'static str) -> impl Fn(Error) -> StoreError {
        move |source| StoreError::of(&self.path, doing, source)
    }
}

/// A write transaction. Only one runs at a time.
fn writing(db: &Connection) -> SqlResult<Transaction<'_>> {
    db.writing()
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
