//! Versions of the registry: each is the SQL that makes it of the one before.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::RegistryError;

/// What makes each version of the one before it. What was released is never edited.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql"), include_str!("schema/2.sql")];

/// `application_id` of a registry: "wngs".
const APPLICATION: i64 = 0x776e_6773;

/// Brings a registry to the present version, or an empty database to a registry. Anything else is left alone.
pub(super) fn migrate(db: &mut Connection, path: &Path) -> Result<(), RegistryError> {
    let failed = |source| RegistryError::of(path, "opening it", source);
    let known = MIGRATIONS.len() as i64;
    let is_known = |db: &Connection| -> rusqlite::Result<bool> {
        let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok((number("application_id")?, number("user_version")?) == (APPLICATION, known))
    };
    // Connections that read are opened while others write.
    if is_known(db).map_err(failed)? {
        return Ok(());
    }
    let transaction = Transaction::new(db, TransactionBehavior::Immediate).map_err(failed)?;
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id").map_err(failed)?;
    let version = number("PRAGMA user_version").map_err(failed)?;
    let entries = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    let path = path.to_owned();
    let done = match (application, version, entries) {
        (APPLICATION, 1.., _) if version > known => {
            return Err(RegistryError::Newer { path, found: version, known });
        }
        (APPLICATION, 1.., _) => version,
        (0, 0, 0) => 0,
        _ => return Err(RegistryError::Foreign { path }),
    };
    let apply = || {
        for migration in MIGRATIONS.iter().skip(done as usize) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", known)?;
        transaction.commit()
    };
    if done == known { Ok(()) } else { apply().map_err(failed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registries_are_migrated() {
        let check = |sql: &str, expected: Option<&str>| {
            let mut db = Connection::open_in_memory().expect("a database");
            db.execute_batch(sql).expect("made");
            let error = migrate(&mut db, Path::new("server.db")).err().map(|it| it.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{sql}: {error:?}");
            assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        check("", None);
        check("PRAGMA application_id = 2003724147; PRAGMA user_version = 99", Some("newer"));
        check("PRAGMA application_id = 5", Some("no database of a wingbeat server"));
        check("CREATE TABLE a (b)", Some("no database of a wingbeat server"));
    }
}
