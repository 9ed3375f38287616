//! The same statements on both engines, and failures that only PostgreSQL has.

mod faults;
mod secured;
mod values;
mod versions;

use wingbeat_sql::{Connection, PostgresUrl};

/// Runs a test with a connection to each engine. PostgreSQL is skipped if not installed.
fn on_both(test: impl Fn(&Connection)) {
    test(&sqlite());
    if let Some(db) = postgres() {
        test(&db);
    }
}

fn sqlite() -> Connection {
    rusqlite::Connection::open_in_memory().expect("a database").into()
}

/// A connection to an empty database with its schema.
fn postgres() -> Option<Connection> {
    let url = wingbeat_pg_testing::database()?;
    let db = Connection::postgres(&PostgresUrl::parse(&url).expect("a URL")).expect("connected");
    db.execute_batch("CREATE SCHEMA wingbeat").expect("made");
    Some(db)
}
