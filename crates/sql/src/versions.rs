//! Identifies a database and migrates it. SQLite stores the version in `application_id` and `user_version`, PostgreSQL
//! in a table of the schema.

use crate::{connection::Connection, dialect, error::Result};

/// The application that owns the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Application {
    pub sqlite_id: i64,
    /// The `application_id` of databases written before version 1. They count as version 0, which is never migrated.
    pub development_id: i64,
    pub name: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    Empty,
    Version(i64),
    /// A database of another program.
    Foreign,
}

/// Identifies a database without changing it. Takes several queries, so the connection must be in a transaction for a
/// consistent view.
pub fn identify(db: &Connection, application: Application) -> Result<Identity> {
    if let Some(session) = db.session() {
        let schema = session.url().schema();
        // A schema's name needs no quotes (`PostgresUrl`). `wingbeat_version` is the table before version 1.
        let look = format!(
            "SELECT count(*), count(*) FILTER (WHERE c.relname = 'wingbeat_schema'),
                    count(*) FILTER (WHERE c.relname = 'wingbeat_version')
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{schema}'"
        );
        let found: (i64, i64, i64) =
            db.query_row(&look, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        match found {
            (0, ..) => return Ok(Identity::Empty),
            (_, 0, 0) => return Ok(Identity::Foreign),
            (_, 0, _) => return Ok(Identity::Version(0)),
            _ => {}
        }
        let recorded: (String, i64) =
            db.query_row("SELECT application, version FROM wingbeat_schema", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        return Ok(match recorded {
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
        (found, 1.., _) if found == application.development_id => Identity::Version(0),
        (0, 0, 0) => Identity::Empty,
        _ => Identity::Foreign,
    })
}

/// Migrates a database to the newest version, or creates the tables in an empty one. Several processes may do so at
/// once. Returns what the database was found to be under the lock. Only versions from 1 and empty databases are
/// changed.
///
/// Each migration has the statements that lead from the previous version to the next, or create the tables of version
/// 1, in SQLite's dialect. Released ones are never edited.
pub fn migrate(db: &Connection, application: Application, migrations: &[&str]) -> Result<Identity> {
    let newest = migrations.len() as i64;
    let transaction = db.writing()?;
    let identity = identify(&transaction, application)?;
    let version = match identity {
        Identity::Empty => 0,
        Identity::Version(version) if (1..newest).contains(&version) => version,
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
            "CREATE TABLE wingbeat_schema (application TEXT NOT NULL, version BIGINT NOT NULL);
             INSERT INTO wingbeat_schema VALUES ('{}', 0);",
            application.name
        ))?;
    }
    for migration in migrations.get(version as usize..).unwrap_or_default() {
        match schema {
            Some(_) => transaction.execute_batch(&dialect::postgres_tables(migration))?,
            None => transaction.execute_batch(migration)?,
        }
    }
    match transaction.sqlite() {
        Some(sqlite) => {
            sqlite.pragma_update(None, "application_id", application.sqlite_id)?;
            sqlite.pragma_update(None, "user_version", newest)?;
        }
        None => drop(transaction.execute("UPDATE wingbeat_schema SET version = ?1", [newest])?),
    }
    transaction.commit()?;
    Ok(identity)
}

/// Version of the tables that a program adds to the database of another, from the table `versions`. 0 without any.
pub fn extension(db: &Connection, versions: &str) -> Result<i64> {
    let is_there = match db.is_postgres() {
        true => format!("SELECT to_regclass('{versions}') IS NOT NULL"),
        false => {
            format!(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '{versions}'"
            )
        }
    };
    match db.query_row(&is_there, [], |row| row.get::<_, bool>(0))? {
        true => db.query_row(&format!("SELECT version FROM {versions}"), [], |row| row.get(0)),
        false => Ok(0),
    }
}

/// Creates or migrates such tables, as [`migrate`] does. Returns their version, which a newer program may have left.
pub fn extend(db: &Connection, versions: &str, migrations: &[&str]) -> Result<i64> {
    let newest = migrations.len() as i64;
    let transaction = db.writing()?;
    let found = extension(&transaction, versions)?;
    if found >= newest {
        return Ok(found);
    }
    for migration in migrations.get(found as usize..).unwrap_or_default() {
        match transaction.is_postgres() {
            true => transaction.execute_batch(&dialect::postgres_tables(migration))?,
            false => transaction.execute_batch(migration)?,
        }
    }
    transaction.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {versions} (version BIGINT NOT NULL); DELETE FROM {versions};
         INSERT INTO {versions} VALUES ({newest})"
    ))?;
    transaction.commit()?;
    Ok(newest)
}
