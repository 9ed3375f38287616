//! Identifies a database and migrates it. SQLite stores the version in `application_id` and `user_version`, PostgreSQL
//! in a table of the schema.

use crate::{connection::Connection, error::Result};

/// The application that owns the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Application {
    pub sqlite_id: i64,
    pub name: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    Empty,
    Version(i64),
    /// A database of another program.
    Foreign,
}

/// Migrates from the previous version. Released migrations are never edited.
#[derive(Clone, Copy)]
pub struct Migration {
    pub sqlite: &'static str,
    /// `None` for versions that never existed on PostgreSQL: its first migration creates all tables.
    pub postgres: Option<&'static str>,
    /// Runs after the SQL, for what SQL cannot do.
    pub then: fn(&Connection) -> Result<()>,
}

impl Migration {
    pub const fn of(sqlite: &'static str, postgres: Option<&'static str>) -> Self {
        Self { sqlite, postgres, then: |_| Ok(()) }
    }
}

/// Identifies a database without changing it. Takes several queries, so the connection must be in a transaction for a
/// consistent view.
pub fn identify(db: &Connection, application: Application) -> Result<Identity> {
    if let Some(session) = db.session() {
        let schema = session.url().schema();
        // A schema's name needs no quotes (`PostgresUrl`).
        let look = format!(
            "SELECT count(*), coalesce(max(CASE WHEN c.relname = 'wingbeat_version' THEN 1 END), 0)
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{schema}'"
        );
        let (entries, is_ours): (i64, bool) =
            db.query_row(&look, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? != 0)))?;
        if !is_ours {
            return Ok(if entries == 0 { Identity::Empty } else { Identity::Foreign });
        }
        let told: (String, i64) =
            db.query_row("SELECT application, version FROM wingbeat_version", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        return Ok(match told {
            (name, version) if name == application.name => Identity::Version(version),
            _ => Identity::Foreign,
        });
    }
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    let found = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let entries = number("SELECT count(*) FROM sqlite_schema")?;
    Ok(match (found, version, entries) {
        (found, 1.., _) if found == application.sqlite_id => Identity::Version(version),
        (0, 0, 0) => Identity::Empty,
        _ => Identity::Foreign,
    })
}

/// Migrates a database to the newest version, or creates the tables in an empty one. Several processes may do so at
/// once. Returns what the database was found to be under the lock. Only older versions and empty databases are changed.
pub fn migrate(
    db: &Connection,
    application: Application,
    migrations: &[Migration],
) -> Result<Identity> {
    let newest = migrations.len() as i64;
    let transaction = db.writing()?;
    let identity = identify(&transaction, application)?;
    let version = match identity {
        Identity::Empty => 0,
        Identity::Version(version) if version < newest => version,
        Identity::Version(_) | Identity::Foreign => return Ok(identity),
    };
    let schema = transaction.session().map(|session| session.url().schema());
    if let Some(schema) = schema.filter(|_| version == 0) {
        // The schema's owner may lack the privilege to create schemas.
        let is_there = format!("SELECT to_regnamespace('{schema}') IS NOT NULL");
        let is_there: bool = transaction.query_row(&is_there, [], |row| row.get(0))?;
        if !is_there {
            transaction.execute_batch(&format!("CREATE SCHEMA {schema}"))?;
        }
        transaction.execute_batch(&format!(
            "CREATE TABLE wingbeat_version (application TEXT NOT NULL, version BIGINT NOT NULL);
             INSERT INTO wingbeat_version VALUES ('{}', 0);",
            application.name
        ))?;
    }
    for migration in migrations.get(version as usize..).unwrap_or_default() {
        let sql = if schema.is_some() { migration.postgres } else { Some(migration.sqlite) };
        if let Some(sql) = sql {
            transaction.execute_batch(sql)?;
            (migration.then)(&transaction)?;
        }
    }
    match transaction.sqlite() {
        Some(sqlite) => {
            sqlite.pragma_update(None, "application_id", application.sqlite_id)?;
            sqlite.pragma_update(None, "user_version", newest)?;
        }
        None => drop(transaction.execute("UPDATE wingbeat_version SET version = ?1", [newest])?),
    }
    transaction.commit()?;
    Ok(identity)
}
