//! A server on PostgreSQL: with a replica, without its database, and with concurrent commands.

use std::{process::Command, thread};

use rustix::process::Signal;
use uuid::Uuid;
use wingbeat_pg_testing::{Cluster, Settings, Stop, cluster, database};
use wingbeat_server::settings::DataLocation;
use wingbeat_sql::PostgresUrl;

use crate::{
    ran::{Ran, wait_for},
    serve::support::{Server, Team, WINGBEAT, request},
};

fn place(url: &str) -> DataLocation {
    DataLocation::Postgres { primary: PostgresUrl::parse(url).expect("a URL"), replica: None }
}

/// An administration command.
fn serve(url: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(WINGBEAT);
    Ran::of(command.arg("serve").args(arguments).env("WINGBEAT_SERVE_DATABASE", url))
}

/// The URL with a password, which the test server does not require.
fn with_password(url: &str) -> String {
    url.replacen("postgres@", "postgres:the-password@", 1)
}

#[test]
fn commands_work_beside_a_server() {
    let Some(url) = database() else { return };
    let nothing = serve(&url, &["user", "list"]).ended_with(1);
    nothing.tells_in_one_line().tells("there is no database of a server");
    let url = with_password(&url);
    let server = Server::start_on(&url);
    let added = serve(&url, &["user", "add", "ada@example.org", "--role", "admin"]).ended_with(0);
    let link = added.stdout.trim().strip_prefix(&format!("http://{}", server.address));
    assert_eq!(server.get(link.expect("the server's link"), "").status, 200);
    let made = ["key", "create", "--project", "own", "--create-project", "--name", "ci"];
    let key = serve(&url, &made).ended_with(0).stdout.trim().to_owned();
    assert_eq!(server.get("/v0/projects/own", &key).status, 200);
    let backup = serve(&url, &["backup", "/nowhere"]).ended_with(1);
    backup.tells_in_one_line().tells("pg_dump");
    let metrics = serve(&url, &["key", "create", "--user", "ada", "--name", "m"]).ended_with(0);
    let metrics = server.get("/metrics", metrics.stdout.trim());
    assert!(metrics.body.contains("wingbeat_database_bytes"), "{metrics:?}");
    let (code, log) = server.end(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("\"data\":\"postgres://postgres@"), "{log}");
    assert!(!log.contains("the-password"), "{log}");
}

#[test]
fn two_servers_that_start_at_once_make_one_database() {
    let Some(url) = database() else { return };
    thread::scope(|scope| {
        let start = || Server::start_on(&url);
        let servers: Vec<_> = (0..6).map(|_| scope.spawn(start)).collect();
        for server in servers {
            let server = server.join().expect("it starts");
            assert_eq!(server.get("/healthz", "").status, 200);
        }
    });
    let name = url.rsplit_once('/').expect("a path").1;
    let versions = "SELECT count(*) FROM wingbeat.server_schema";
    assert_eq!(cluster().expect("there").sql(name, versions).expect("read"), "1");
}

#[test]
fn a_database_that_is_gone_is_waited_for() {
    if cluster().is_none() {
        return;
    }
    let cluster = Cluster::start(&Settings::default()).expect("started");
    let url = cluster.fresh().expect("made");
    let team = Team::new(place(&url));
    let server = Server::start_on(&url);
    let post = || team.run(&server.address, Uuid::now_v7(), 1).expect("answered");
    let health = || server.get("/healthz", "");
    assert_eq!((post().status, health().status), (201, 200));
    cluster.stop(Stop::Immediate).expect("stopped");
    for answer in [post(), health(), post()] {
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
        // Clients do not learn the location of the database.
        assert!(answer.body.contains("cannot reach its database"), "{answer:?}");
        assert!(!answer.body.contains("postgres"), "{answer:?}");
    }
    let late = serve(&url, &["--listen", "127.0.0.1:0"]).ended_with(1);
    late.tells_in_one_line().tells("can be reached");
    cluster.start_again().expect("started");
    wait_for("reads", || health().status == 200);
    wait_for("writes", || post().status == 201);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn pages_read_a_replica_that_has_what_was_written() {
    if cluster().is_none() {
        return;
    }
    let primary = Cluster::start(&Settings::default()).expect("started");
    let url = primary.fresh().expect("made");
    let team = Team::new(place(&url));
    let cookie = team.cookie();
    let replica = primary.replica().expect("a replica");
    let name = url.rsplit_once('/').expect("a path").1;
    let other = database().expect("there");
    drop(Server::start_on(&other));
    let refused = |replica: &str| {
        serve(&url, &["--read-database", replica]).ended_with(1).tells("is not a replica of");
    };
    refused(&other);
    // Rejects another database of the replica, and another schema.
    refused(&replica.url("postgres"));
    refused(&format!("{}?schema=other", replica.url(name)));
    let mut command = Command::new(WINGBEAT);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("WINGBEAT_SERVE_DATABASE", &url);
    command.env("WINGBEAT_SERVE_READ_DATABASE", replica.url(name));
    let server = Server::of(command);
    let page = |cookie: &str| {
        let headers = format!("Cookie: {cookie}\r\n");
        request(&server.address, "GET", "/perf/own/keys", &headers, "").expect("answered")
    };
    let shows = |cookie: &str| page(cookie).body.contains("a-new-key");
    wait_for("the server", || page(&cookie).status == 200);
    // The replica has replayed all of that before it pauses.
    let written = primary.sql("postgres", "SELECT pg_current_wal_lsn()").expect("a position");
    let has_come = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    wait_for("the replica", || replica.sql("postgres", &has_come).is_ok_and(|it| it == "t"));
    replica.sql("postgres", "SELECT pg_wal_replay_pause()").expect("paused");
    let paused = "SELECT pg_get_wal_replay_pause_state()";
    wait_for("the pause", || replica.sql("postgres", paused).is_ok_and(|state| state == "paused"));
    assert_eq!(team.write(&server.address, "a-new-key").expect("answered").status, 201);
    let headers = format!(
        "Cookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    );
    let fields = "name=own&visibility=internal";
    let saved = request(&server.address, "POST", "/perf/own/settings", &headers, fields);
    let saved = saved.expect("answered");
    assert_eq!(saved.status, 303, "{saved:?}");
    let told = saved.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let told = told.and_then(|it| it.split(';').next()).expect("a cookie");
    // The writer sees it; others see it once the replica has replayed it.
    assert!(shows(&format!("{cookie}; {told}")));
    assert!(!shows(&cookie));
    replica.sql("postgres", "SELECT pg_wal_replay_resume()").expect("resumed");
    wait_for("the replica", || shows(&cookie));
    // Without a replica the primary serves.
    replica.stop(Stop::Immediate).expect("stopped");
    assert_eq!(page(&cookie).status, 200);
    let (_, log) = server.end(Signal::TERM);
    // Once; and perhaps once before it had the tables.
    assert!((1..=2).contains(&log.matches("the replica cannot be read").count()), "{log}");
}
