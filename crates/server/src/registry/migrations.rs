//! Schema migrations of the registry.

use wingbeat_sql::{
    Connection,
    versions::{self, Application, Identity, Migration},
};

use super::{OPENING, RegistryError};

/// One migration per version. Never edit released ones.
const MIGRATIONS: &[Migration] = &[
    Migration::of(include_str!("schema.sql"), None),
    // On PostgreSQL, creates all tables of this version at once.
    Migration::of(include_str!("schema/2.sql"), Some(include_str!("schema/postgres.sql"))),
    Migration::of(include_str!("schema/3.sql"), Some(include_str!("schema/3.postgres.sql"))),
];

/// Identifies a database as a registry: "wngs" in a file.
const APPLICATION: Application = Application { sqlite_id: 0x776e_6773, name: "wingbeat server" };

const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Migrates a registry or an empty database to the current version. Leaves any other database alone.
pub(super) fn migrate(db: &Connection, place: &str) -> Result<(), RegistryError> {
    // Read connections are opened while others write.
    if identify(db, place)? == Identity::Version(KNOWN) {
        return Ok(());
    }
    let failed = |source| RegistryError::of(place, OPENING, source);
    let found = versions::migrate(db, APPLICATION, MIGRATIONS).map_err(failed)?;
    let place = place.to_owned();
    match found {
        Identity::Version(found) if found > KNOWN => {
            Err(RegistryError::Newer { place, found, known: KNOWN })
        }
        Identity::Version(_) | Identity::Empty => Ok(()),
        Identity::Foreign => Err(RegistryError::Foreign { place }),
    }
}

/// Requires a registry of the current version.
pub(super) fn check(db: &Connection, place: &str) -> Result<(), RegistryError> {
    let found = identify(db, place)?;
    let (place, known) = (place.to_owned(), KNOWN);
    match found {
        Identity::Version(KNOWN) => Ok(()),
        Identity::Version(found) if found > KNOWN => {
            Err(RegistryError::Newer { place, found, known })
        }
        Identity::Version(found) => Err(RegistryError::Older { place, found, known }),
        Identity::Empty => Err(RegistryError::Empty { place }),
        Identity::Foreign => Err(RegistryError::Foreign { place }),
    }
}

fn identify(db: &Connection, place: &str) -> Result<Identity, RegistryError> {
    let look = || versions::identify(&*db.view()?, APPLICATION);
    look().map_err(|source| RegistryError::of(place, OPENING, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registries_are_migrated() {
        let check = |sql: &str, expected: Option<&str>| {
            let db = rusqlite::Connection::open_in_memory().expect("a database");
            db.execute_batch(sql).expect("made");
            let error = migrate(&db.into(), "server.db").err().map(|it| it.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{sql}: {error:?}");
            assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        check("", None);
        check("PRAGMA application_id = 2003724147; PRAGMA user_version = 99", Some("newer"));
        check("PRAGMA application_id = 5", Some("no database of a wingbeat server"));
        check("CREATE TABLE a (b)", Some("no database of a wingbeat server"));
    }
}
