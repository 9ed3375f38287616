//! Server failures, each identified by its fault.

use std::time::{Duration, Instant};

use wingbeat_pg_testing::{Cluster, Settings, Stop};
use wingbeat_sql::{Connection, Fault, PostgresUrl};

use crate::postgres;

fn connect(url: &str) -> Result<Connection, wingbeat_sql::Error> {
    Connection::postgres(&PostgresUrl::parse(url).expect("a URL"))
}

#[test]
fn what_cannot_be_connected_to() {
    let Some(cluster) = wingbeat_pg_testing::cluster() else { return };
    let check = |url: &str, fault: Fault, expected: &str| {
        let error = connect(url).expect_err("no connection");
        assert_eq!(error.fault(), fault, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(&cluster.url("nowhere"), Fault::NoDatabase, "database \"nowhere\" does not exist");
    let nobody = cluster.url("postgres").replace("postgres@", "nobody@");
    check(&nobody, Fault::Denied, "role \"nobody\" does not exist");
    check("postgres://127.0.0.1:1/db", Fault::Lost, "refused");
    // A Unix socket has no TLS.
    let tls = format!("{}?sslmode=require", cluster.url("postgres"));
    check(
        &tls,
        Fault::Untrusted,
        "does not support TLS; turn on `ssl` there, or choose another sslmode",
    );
}

#[test]
fn a_connection_that_died_is_replaced() {
    let Some(db) = postgres() else { return };
    let number = |db: &Connection| db.query_row("SELECT 7", [], |row| row.get::<_, i64>(0));
    let killer = Connection::postgres(&PostgresUrl::parse(&url_of(&db)).expect("a URL"));
    let killer = killer.expect("connected");
    let kill = || {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        killer.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("killed")
    };
    number(&db).expect("alive");
    assert_eq!(kill(), 1);
    // Reads and new transactions continue on a new connection.
    assert_eq!(number(&db).expect("again"), 7);
    kill();
    let transaction = db.writing().expect("begun with a new connection");
    kill();
    // An open transaction is not restarted.
    let error = number(&transaction).expect_err("the transaction is gone");
    assert_eq!(error.fault(), Fault::Lost, "{error}");
    // Nor does a new connection report a commit.
    let error = transaction.commit().expect_err("the transaction is gone");
    assert_eq!(error.fault(), Fault::Lost, "{error}");
    assert_eq!(number(&db).expect("again"), 7);
    assert!(db.is_autocommit());
}

#[test]
fn a_transaction_that_failed_is_not_committed() {
    let Some(db) = postgres() else { return };
    let transaction = db.writing().expect("begun");
    transaction.execute_batch("CREATE TABLE a (b BIGINT)").expect("made");
    transaction.execute_batch("SELECT * FROM nowhere").expect_err("no table");
    transaction.commit().expect_err("it has failed");
    db.execute_batch("CREATE TABLE a (b BIGINT)").expect("it was not there");
    db.writing().expect("begun").commit().expect("written");
}

fn url_of(db: &Connection) -> String {
    let name = db.query_row("SELECT current_database()", [], |row| row.get::<_, String>(0));
    wingbeat_pg_testing::cluster().expect("a server").url(&name.expect("a name"))
}

#[test]
fn one_writes_at_a_time_and_the_next_one_waits() {
    let Some(db) = postgres() else { return };
    let other = connect(&url_of(&db)).expect("connected");
    let first = db.writing().expect("begun");
    other.execute_batch("SET lock_timeout TO '50ms'").expect("set");
    let begin = Instant::now();
    let error = other.writing().expect_err("another one writes");
    assert_eq!(error.fault(), Fault::Busy, "{error}");
    assert!(begin.elapsed() >= Duration::from_millis(50));
    // Readers do not wait, and another schema has its own lock.
    other.view().expect("a view");
    let other_schema = connect(&format!("{}?schema=other", url_of(&db))).expect("connected");
    other_schema.writing().expect("another lock");
    first.commit().expect("written");
    other.writing().expect("begun").commit().expect("written");
}

#[test]
fn a_replica_is_read_and_not_written() {
    if wingbeat_pg_testing::cluster().is_none() {
        return;
    }
    let primary = Cluster::start(&Settings::default()).expect("a server");
    let url = primary.fresh().expect("a database");
    connect(&url)
        .expect("connected")
        .execute_batch("CREATE TABLE a (b BIGINT)")
        .expect_err("no schema");
    let replica = primary.replica().expect("a replica");
    let db = connect(&replica.url("postgres")).expect("connected");
    assert_eq!(
        db.view()
            .expect("a view")
            .query_row("SELECT 7", [], |row| row.get::<_, i64>(0))
            .expect("read"),
        7
    );
    let error = db.writing().expect_err("a replica");
    assert_eq!(error.fault(), Fault::ReadOnly, "{error}");
    replica.stop(Stop::Immediate).expect("stopped");
    let error = db.query_row("SELECT 7", [], |row| row.get::<_, i64>(0)).expect_err("gone");
    assert_eq!(error.fault(), Fault::Lost, "{error}");
}
