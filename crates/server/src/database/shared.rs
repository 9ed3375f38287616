//! Coordination of several servers on one database: write lock, log position, and public URL.

use std::path::PathBuf;

use wingbeat_sql::{Connection, PostgresUrl};

use super::{Database, StoreError};
use crate::storage::Position;

/// Identity of a connection's database, and whether it is a replica.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) data: DataIdentity,
    pub(crate) is_replica: bool,
}

/// Common to a primary and its replicas, and unique to them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DataIdentity {
    cluster: i64,
    database: String,
    schema: String,
}

/// Name of the write lock. Transactions use others.
const WRITE_LOCK: &str = "wingbeat write lock";

impl Database {
    /// Acquires the write lock among the database's servers. A file has one server, whose writes are serialized.
    pub(crate) fn lock_writes(&self) -> Result<(), StoreError> {
        self.db().lock(WRITE_LOCK).map_err(self.error("waiting for another server that writes"))
    }

    /// Releases the write lock.
    pub(crate) fn unlock_writes(&self) -> Result<(), StoreError> {
        self.db().unlock().map_err(self.error("letting other servers write"))
    }

    /// Log position of a primary, including asynchronous commits.
    pub(crate) fn position(&self) -> Result<Position, StoreError> {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        let ask = || self.db().query_row(sql, [], |row| row.get::<_, i64>(0));
        let place = ask().map_err(self.error("asking for the position of the log"))?;
        Ok(Position(place.unsigned_abs()))
    }

    /// Whether a replica has replayed its primary's log up to a position. Always false if it is not a replica.
    pub(crate) fn has_replayed(&self, position: Position) -> Result<bool, StoreError> {
        let sql = "SELECT pg_is_in_recovery()
                       AND (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint >= ?1";
        let place = i64::try_from(position.0).unwrap_or(i64::MAX);
        let ask = || self.db().query_row(sql, [place], |row| row.get::<_, Option<bool>>(0));
        let is_there = ask().map_err(self.error("asking how far the replica has come"))?;
        Ok(is_there.unwrap_or_default())
    }

    /// Identity of the URL's database. Its tables need not exist.
    pub(crate) fn identity_at(url: &PostgresUrl) -> Result<Identity, StoreError> {
        let sql = "SELECT system_identifier, current_database()::text, pg_is_in_recovery() FROM pg_control_system()";
        let schema = url.schema().to_owned();
        let ask = || {
            Connection::postgres(url)?.query_row(sql, [], |row| {
                let data = DataIdentity { cluster: row.get(0)?, database: row.get(1)?, schema };
                Ok(Identity { data, is_replica: row.get(2)? })
            })
        };
        let path = PathBuf::from(url.to_string());
        ask().map_err(|source| StoreError::of(&path, "asking for its identifier", source))
    }

    pub(crate) fn database_bytes(&self) -> Result<u64, StoreError> {
        let sql = "SELECT pg_database_size(current_database())";
        let ask = || self.db().query_row(sql, [], |row| row.get::<_, i64>(0));
        Ok(ask().map_err(self.error("asking for its size"))?.unsigned_abs())
    }

    /// Stores the public URL of the server that started last.
    pub(crate) fn set_public_url(&self, url: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO setting (name, value) VALUES ('public_url', ?1)
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.execute("storing its public URL", sql, [url])
    }

    /// Public URL of the server that started last.
    pub(crate) fn public_url(&self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT value FROM setting WHERE name = 'public_url'";
        self.row("reading its public URL", sql, [], |row| row.get(0))
    }
}
