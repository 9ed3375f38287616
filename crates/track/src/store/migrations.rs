//! Versions of the schema. Each version has the SQL that migrates from the previous one; a store records its version in
//! `user_version`, and that it is a store in `application_id`. Version 2 adds checksums; earlier damage is checksummed
//! along with the rest, because it cannot be detected.

use super::prelude::*;
use wingbeat_sql::{
    ToSql, Value, params_from_iter,
    versions::{self, Application, Identity, Migration},
};

use super::{
    checksum::{
        ALERT, ALERT_CHANGE, BENCHMARK, BRANCH, Checksum, ENVIRONMENT, FAILURE, MEASURE, METRIC,
        PROJECT, REPORT, SAMPLES, TESTBED, Table, VERDICT, damage,
    },
    sums::{Scope, Sums, Total},
};

/// Migrations to each version from the previous one. Released ones are never edited. PostgreSQL begins with version 4.
const MIGRATIONS: &[Migration] = &[
    Migration::of(include_str!("schema/1.sql"), None),
    Migration { sqlite: include_str!("schema/2.sql"), postgres: None, then: add_checksums },
    Migration::of(include_str!("schema/3.sql"), None),
    Migration::of(include_str!("schema/4.sql"), Some(include_str!("schema/postgres/4.sql"))),
    Migration::of(include_str!("schema/5.sql"), Some(include_str!("schema/postgres/5.sql"))),
];

/// The schema version that this wingbeat writes.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// `application_id` of a store: "wngb".
pub(super) const APPLICATION: Application = Application { sqlite_id: 0x776e_6762, name: "store" };

/// Migrates a store to the current version, or creates one in an empty database. Several processes may do so at once.
/// Returns what the database was found to be under the lock. Only older stores and empty databases are changed.
pub(super) fn migrate(db: &Connection) -> SqlResult<Identity> {
    versions::migrate(db, APPLICATION, MIGRATIONS)
}

fn add_checksums(db: &Connection) -> SqlResult<()> {
    for table in [PROJECT, BRANCH, TESTBED, BENCHMARK, MEASURE, ENVIRONMENT] {
        seal(db, table, "", &[])?;
    }
    let mut total = Total::default();
    let reports = numbers(db, "SELECT id FROM report", &[])?;
    for report in reports {
        let samples = "SELECT samples FROM metric WHERE report = ?1 AND samples IS NOT NULL";
        for row in numbers(db, samples, &[&report])? {
            seal(db, SAMPLES, "WHERE id = ?1", &[&row])?;
        }
        for table in [METRIC, FAILURE, VERDICT, ALERT] {
            seal(db, table, "WHERE report = ?1", &[&report])?;
        }
        // A damaged row must not prevent opening the store: later reads report the damage.
        let sums = Sums::read(db, report, Scope::All, &mut |part| match part {
            Err((_, error)) if !is_damage(&error) => Err(error),
            _ => Ok(()),
        })?;
        let sql = "UPDATE report SET metrics = ?2, failures = ?3, alerts = ?4,
                       content_checksum = ?5, values_checksum = ?6, marks_checksum = ?7
                   WHERE id = ?1";
        db.prepare(sql)?.execute([
            report,
            sums.metrics,
            sums.failures,
            sums.alerts,
            sums.content.whole(),
            sums.values.whole(),
            sums.marks.whole(),
        ])?;
        for row in seal(db, REPORT, "WHERE id = ?1", &[&report])? {
            total.reports.add(row);
        }
    }
    for row in seal(db, ALERT_CHANGE, "", &[])? {
        total.alert_changes.add(row);
    }
    // The columns of later versions do not exist yet.
    total.write_version_2(db)
}

/// Adds checksums to rows, and returns them.
fn seal(
    db: &Connection,
    table: Table,
    condition: &str,
    values: &[&dyn ToSql],
) -> SqlResult<Vec<Checksum>> {
    let sql = format!("{} {condition}", table.select());
    let keys = |row: &Row<'_>| -> SqlResult<Vec<Value>> {
        (0..table.keys).map(|key| row.get(key)).collect()
    };
    // Reads all before writing any.
    let rows = db
        .prepare(&sql)?
        .query_map(values, |row| Ok((keys(row)?, table.checksum(row, 0)?)))?
        .collect::<SqlResult<Vec<_>>>()?;
    let names = table.columns().take(table.keys).zip(2..);
    let names: Vec<_> = names.map(|(name, number)| format!("{name} = ?{number}")).collect();
    let sql = format!("UPDATE {} SET checksum = ?1 WHERE {}", table.name, names.join(" AND "));
    let mut update = db.prepare(&sql)?;
    let mut checksums = Vec::with_capacity(rows.len());
    for (keys, checksum) in rows {
        let short = Value::from(checksum.short());
        if update.execute(params_from_iter([short].into_iter().chain(keys)))? != 1 {
            return Err(damage(format!("a row of the table {} has no place", table.name)));
        }
        checksums.push(checksum);
    }
    Ok(checksums)
}

fn numbers(db: &Connection, sql: &str, values: &[&dyn ToSql]) -> SqlResult<Vec<i64>> {
    db.prepare(sql)?.query_map(values, |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version as a later wingbeat may have it.
    const NOTES: &str = "ALTER TABLE report ADD COLUMN note TEXT;
                         UPDATE report SET note = 'from version 1';";

    fn with(sql: &'static str) -> Migration {
        Migration::of(sql, Some(sql))
    }

    fn migrate_by(db: &Connection, migrations: &[Migration]) -> SqlResult<Identity> {
        versions::migrate(db, APPLICATION, migrations)
    }

    fn identify(db: &Connection) -> Identity {
        versions::identify(db, APPLICATION).expect("looked")
    }

    fn in_memory() -> Connection {
        rusqlite::Connection::open_in_memory().expect("a database").into()
    }

    fn version_1() -> Connection {
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store/fixtures/version-1.db");
        let db = in_memory();
        let bytes = std::fs::read(fixture).expect("the fixture");
        let copy = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(copy.path(), bytes).expect("written");
        let attach = format!("ATTACH '{}' AS fixture", copy.path().display());
        db.execute_batch(&attach).expect("attached");
        migrate_by(&db, &MIGRATIONS[..1]).expect("version 1");
        for table in ["project", "branch", "testbed", "environment", "report"] {
            let copy = format!("INSERT INTO main.{table} SELECT * FROM fixture.{table}");
            db.execute_batch(&copy).expect("copied");
        }
        db.execute_batch("DETACH fixture").expect("detached");
        db
    }

    #[test]
    fn a_later_version_is_made_of_version_1() {
        let db = version_1();
        let reports = "SELECT count(*) FROM report";
        let before: i64 = db.query_row(reports, [], |row| row.get(0)).expect("a count");
        assert!(before > 0, "the fixture has reports");
        let found = migrate_by(&db, &[MIGRATIONS[0], with(NOTES)]).expect("migrated");
        assert_eq!(found, Identity::Version(1));
        assert_eq!(identify(&db), Identity::Version(2));
        let with_note = "SELECT count(*) FROM report WHERE note = 'from version 1'";
        assert_eq!(
            db.query_row(with_note, [], |row| row.get::<_, i64>(0)).expect("a count"),
            before
        );
        // Repeating it changes nothing.
        let found = migrate_by(&db, &[MIGRATIONS[0], with(NOTES)]).expect("nothing to do");
        assert_eq!(found, Identity::Version(2));
    }

    #[test]
    fn a_migration_that_fails_leaves_the_version_before() {
        let db = version_1();
        let broken = "ALTER TABLE report ADD COLUMN note TEXT; SELECT * FROM nowhere;";
        migrate_by(&db, &[MIGRATIONS[0], with(broken)]).expect_err("broken");
        assert_eq!(identify(&db), Identity::Version(1));
        let column = "SELECT note FROM report";
        assert!(db.prepare(column).is_err(), "the column went with the rest");
    }

    #[test]
    fn newer_and_foreign_databases_are_left_alone() {
        let check = |make: &str, expected: Identity| {
            let db = in_memory();
            db.execute_batch(make).expect("made");
            assert_eq!(migrate(&db).expect("looked"), expected, "{make}");
            let after =
                if expected == Identity::Empty { Identity::Version(VERSION) } else { expected };
            assert_eq!(identify(&db), after, "{make}");
        };
        check("", Identity::Empty);
        check(
            "PRAGMA application_id = 2003724130; PRAGMA user_version = 99",
            Identity::Version(99),
        );
        check("PRAGMA application_id = 5", Identity::Foreign);
        check("PRAGMA user_version = 1", Identity::Foreign);
        check("CREATE TABLE a (b)", Identity::Foreign);
    }
}
