//! Migrations: a database is migrated once, and databases of other programs are left alone.

use std::thread;

use wingbeat_sql::{
    Connection, PostgresUrl,
    versions::{Application, Identity, identify, migrate},
};

use crate::{on_both, postgres};

const APPLICATION: Application = Application { sqlite_id: 77, development_id: 76, name: "test" };

const MIGRATIONS: [&str; 2] =
    ["CREATE TABLE a (id INTEGER PRIMARY KEY)", "CREATE TABLE b (id INTEGER PRIMARY KEY)"];

const THIRD: &str = "INSERT INTO a VALUES (1)";

#[test]
fn an_empty_database_becomes_the_newest() {
    on_both(|db| {
        assert_eq!(migrate(db, APPLICATION, &MIGRATIONS).expect("migrated"), Identity::Empty);
        assert_eq!(identify(db, APPLICATION).expect("looked"), Identity::Version(2));
        let three = [MIGRATIONS[0], MIGRATIONS[1], THIRD];
        assert_eq!(migrate(db, APPLICATION, &three).expect("migrated"), Identity::Version(2));
        assert_eq!(migrate(db, APPLICATION, &three).expect("nothing to do"), Identity::Version(3));
        assert!(db.prepare("SELECT 1 FROM a, b").is_ok());
        assert_eq!(migrate(db, APPLICATION, &MIGRATIONS).expect("newer"), Identity::Version(3));
        let other = Application { sqlite_id: 78, name: "other", ..APPLICATION };
        assert_eq!(migrate(db, other, &MIGRATIONS).expect("left alone"), Identity::Foreign);
    });
}

#[test]
fn a_database_of_others_is_left_alone() {
    on_both(|db| {
        db.execute_batch("CREATE TABLE songs (title TEXT)").expect("made");
        assert_eq!(migrate(db, APPLICATION, &MIGRATIONS).expect("looked"), Identity::Foreign);
        assert!(db.prepare("SELECT 1 FROM a").is_err());
    });
}

#[test]
fn a_database_of_development_is_version_0_and_left_alone() {
    on_both(|db| {
        let made = match db.is_postgres() {
            true => "CREATE TABLE wingbeat_version (application TEXT, version BIGINT)",
            false => "PRAGMA application_id = 76; PRAGMA user_version = 5",
        };
        db.execute_batch(made).expect("made");
        assert_eq!(migrate(db, APPLICATION, &MIGRATIONS).expect("looked"), Identity::Version(0));
        assert!(db.prepare("SELECT 1 FROM a").is_err());
    });
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    on_both(|db| {
        migrate(db, APPLICATION, &MIGRATIONS).expect("migrated");
        let broken = "INSERT INTO a VALUES (2); SELECT * FROM nowhere";
        let three = [MIGRATIONS[0], MIGRATIONS[1], broken];
        migrate(db, APPLICATION, &three).expect_err("broken");
        assert_eq!(identify(db, APPLICATION).expect("looked"), Identity::Version(2));
        let count = db.query_row("SELECT count(*) FROM a", [], |row| row.get::<_, i64>(0));
        assert_eq!(count.expect("a count"), 0);
    });
}

/// Eight servers start at once, and the third migration adds its row once.
#[test]
fn several_that_start_at_once_migrate_once() {
    let Some(first) = postgres() else { return };
    let database: String =
        first.query_row("SELECT current_database()", [], |row| row.get(0)).expect("a name");
    let url = wingbeat_pg_testing::cluster().expect("a server").url(&database);
    let url = PostgresUrl::parse(&url).expect("a URL");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let db = Connection::postgres(&url).expect("connected");
                let three = [MIGRATIONS[0], MIGRATIONS[1], THIRD];
                migrate(&db, APPLICATION, &three).expect("migrated by one of them");
            });
        }
    });
    let count = first.query_row("SELECT count(*) FROM a", [], |row| row.get::<_, i64>(0));
    assert_eq!(count.expect("a count"), 1);
}
