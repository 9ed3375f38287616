//! Tests of the fixture that other crates rely on.

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{Cluster, Settings, Stop, cluster, database};

#[test]
fn each_test_has_an_empty_database_of_one_server() {
    let (Some(one), Some(two)) = (database(), database()) else { return };
    assert_ne!(one, two);
    let name = one.rsplit_once('/').unwrap().1;
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(cluster().unwrap().sql(name, tables).unwrap(), "0");
}

#[test]
fn a_replica_follows_and_a_stopped_server_comes_back() {
    if cluster().is_none() {
        return;
    }
    let primary = Cluster::start(&Settings::default()).unwrap();
    let replica = primary.replica().unwrap();
    primary.sql("postgres", "CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7)").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while replica.sql("postgres", "SELECT n FROM t").ok().as_deref() != Some("7") {
        assert!(Instant::now() < deadline, "the replica does not follow");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(replica.sql("postgres", "INSERT INTO t VALUES (8)").is_err());
    primary.stop(Stop::Fast).unwrap();
    assert!(primary.sql("postgres", "SELECT 1").is_err());
    primary.start_again().unwrap();
    assert_eq!(primary.sql("postgres", "SELECT n FROM t").unwrap(), "7");
}

/// Runs as a separate process of the test below, which kills it.
#[test]
#[ignore = "waits to be killed"]
fn stays_up() {
    let cluster = cluster().unwrap();
    println!("\nserver {}", cluster.process().unwrap());
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn nothing_stays_of_a_test_that_was_killed() {
    if cluster().is_none() {
        return;
    }
    let mut test = Command::new(env::current_exe().unwrap())
        .args(["--exact", "tests::stays_up", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(test.stdout.take().unwrap()).lines().map_while(Result::ok);
    let process = lines
        .filter_map(|line| line.strip_prefix("server ").map(str::to_owned))
        .next()
        .expect("the server's process");
    assert!(Path::new("/proc").join(&process).exists());
    test.kill().unwrap();
    test.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while Path::new("/proc").join(&process).exists() {
        assert!(Instant::now() < deadline, "the server outlives its test");
        thread::sleep(Duration::from_millis(20));
    }
}
