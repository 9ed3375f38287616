//! `docs/fleet/fleet`: two servers with PostgreSQL and S3, of which one is killed.

#[expect(dead_code, reason = "others make it fail")]
#[path = "../../../../server/tests/all/shared/bucket.rs"]
mod bucket;

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message as _;
use rustix::process::{Pid, Signal, kill_process};
use time::OffsetDateTime;
use wingbeat_pg_testing::cluster;
use wingbeat_pprof::testing::window;
use wingbeat_server::profiles::ProfilesPlace;

use self::bucket::Bucket;
use super::support::{Server, WINGBEAT, bearer, request};
use crate::ran::Ran;

struct Fleet<'b> {
    folder: &'b Path,
    bucket: &'b Bucket,
    port: u16,
}

impl Fleet<'_> {
    /// Runs the script, or a command of wingbeat with its environment.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let ProfilesPlace::Bucket { url, options } = self.bucket.place() else {
            panic!("not a bucket")
        };
        command.envs(options.0).env("PROFILES", &url).env("WINGBEAT_SERVE_PROFILES", &url);
        let database = format!("postgres://wingbeat@127.0.0.1:{}/wingbeat", self.port + 3);
        command.env("WINGBEAT_SERVE_DATABASE", database);
        command.env("PGPASSFILE", self.folder.join("pgpass"));
        command.env("WINGBEAT", WINGBEAT).env("PORT", self.port.to_string()).env("AGENT", "no");
        command
    }

    fn run(&self, verb: &str) -> Ran {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet/fleet");
        Ran::of(self.command(script).arg(verb).arg(self.folder))
    }

    /// Pushes a window to one of the servers.
    fn push(&self, server: u16, key: &str, start_ns: i64) -> bool {
        push(&format!("127.0.0.1:{}", self.port + server), key, start_ns)
    }
}

/// Pushes a window to a server; returns whether it was answered.
fn push(address: &str, key: &str, start_ns: i64) -> bool {
    let headers = format!("{}Content-Type: application/json\r\n", bearer(key));
    let labels =
        r#"[{"name":"__name__","value":"process_cpu"},{"name":"service_name","value":"web"}]"#;
    let profile = STANDARD.encode(window("main", 1_000_000, start_ns).encode_to_vec());
    let body = format!(
        r#"{{"series":[{{"labels":{labels},"samples":[{{"ID":"{start_ns}","rawProfile":"{profile}"}}]}}]}}"#
    );
    let answer = request(address, "POST", "/push.v1.PusherService/Push", &headers, &body);
    answer.is_ok_and(|answer| answer.status == 200)
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        self.run("down");
    }
}

#[test]
fn a_killed_server_loses_no_profile() {
    if cluster().is_none() {
        return;
    }
    let (folder, bucket) = (tempfile::tempdir().expect("a folder"), Bucket::start());
    // PostgreSQL may run as another user.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).expect("set");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("free");
    let fleet = Fleet { folder: folder.path(), bucket: &bucket, port: free.port().min(65_000) };
    fleet.run("up").ended_with(0);
    let again = fleet.run("up").ended_with(0);
    assert!(again.stdout.contains("http://127.0.0.1:"), "{}", again.stdout);
    let made = ["serve", "key", "create", "--project", "fleet", "--create-project", "--name", "a"];
    let key = Ran::of(fleet.command(WINGBEAT).args(made).arg("--quiet")).ended_with(0);
    let key = key.stdout.trim().to_owned();
    let now_ns = i64::try_from(OffsetDateTime::now_utc().unix_timestamp_nanos()).expect("a time");
    let mut answered = 0;
    for number in 0..60 {
        if number == 30 {
            let pid = folder.path().join(format!("server-{}.pid", fleet.port + 1));
            let pid = fs::read_to_string(pid).expect("a PID").trim().parse().expect("a PID");
            kill_process(Pid::from_raw(pid).expect("a PID"), Signal::KILL).expect("killed");
        }
        let start_ns = now_ns - (100 - number) * 15_000_000_000;
        // As a client does: another server, if one does not answer.
        let server = 1 + u16::try_from(number % 2).expect("1 or 2");
        let is_answered = fleet.push(server, &key, start_ns) || fleet.push(2, &key, start_ns);
        assert!(is_answered, "{number}");
        answered += 1;
    }
    let address = format!("127.0.0.1:{}", fleet.port + 2);
    let page = "/perf/fleet/profiles/web?last=1h";
    let page = request(&address, "GET", page, &bearer(&key), "").expect("answered");
    assert!(page.body.contains(&format!("<dd>{answered} of 1 set")), "{}", page.body);
    assert!(!page.body.contains("could not be read"), "{}", page.body);
    fleet.run("roll").ended_with(0);
    let status = fleet.run("status").ended_with(0);
    assert_eq!(status.stdout.matches(" answers").count(), 2, "{}", status.stdout);
}

#[test]
fn a_fleet_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet/fleet");
    let up = |name: &str, value: &str| {
        let mut command = Command::new(script);
        command.arg("up").arg(folder.path()).env("WINGBEAT", WINGBEAT).env(name, value);
        Ran::of(&mut command).ended_with(1)
    };
    up("WINGBEAT", "/nowhere/wingbeat").tells_in_one_line().tells("put wingbeat into PATH");
    up("S3S_FS", "/nowhere/s3s-fs").tells_in_one_line().tells("cargo install s3s-fs");
}

#[test]
fn a_bucket_is_checked_at_the_start() {
    let (folder, bucket) = (tempfile::tempdir().expect("a folder"), Bucket::start());
    let data = folder.path().join("data");
    let ProfilesPlace::Bucket { options, .. } = bucket.place() else { panic!("not a bucket") };
    let serve = |place: &str, change: (&str, &str)| {
        let mut command = Command::new(WINGBEAT);
        command.args(["serve", "--listen", "127.0.0.1:0", "--profiles", place, "--data"]);
        command.arg(&data).envs(options.0.clone()).env(change.0, change.1);
        Ran::of(&mut command).ended_with(1)
    };
    serve("ftp://profiles", ("NONE", ""))
        .tells("is no place for profiles: expected a folder, s3://");
    let key = ("AWS_SECRET_ACCESS_KEY", "wrong");
    serve("s3://profiles/here", key).tells("in s3://profiles/here failed");
    let endpoint = ("AWS_ENDPOINT", "http://127.0.0.1:9");
    serve("s3://profiles/here", endpoint).tells("in s3://profiles/here failed");
}

#[test]
fn a_command_moves_profiles() {
    let (folder, bucket) = (tempfile::tempdir().expect("a folder"), Bucket::start());
    let data = folder.path().join("data");
    let ProfilesPlace::Bucket { url, options } = bucket.place() else { panic!("not a bucket") };
    let command = |arguments: &[&str]| {
        let mut command = Command::new(WINGBEAT);
        command.arg("serve").args(arguments).arg("--data").arg(&data).envs(options.0.clone());
        // As providers write it.
        command.env("AWS_ENDPOINT", format!("{}/", options.0[3].1));
        command
    };
    let run = |arguments: &[&str]| Ran::of(&mut command(arguments)).ended_with(0);
    let key = ["key", "create", "--project", "a", "--create-project", "--name", "a", "--quiet"];
    let key = run(&key).stdout.trim().to_owned();
    let serve = |more: &[&str]| {
        let all: Vec<&str> = ["--listen", "127.0.0.1:0"].iter().chain(more).copied().collect();
        Server::of(command(&all))
    };
    let now_ns = i64::try_from(OffsetDateTime::now_utc().unix_timestamp_nanos()).expect("a time");
    let server = serve(&[]);
    for number in 0..5 {
        let start_ns = now_ns - (100 - number) * 15_000_000_000;
        assert!(push(&server.address, &key, start_ns));
    }
    server.end(Signal::KILL);
    let moved = run(&["move-profiles", &url]);
    moved.tells(&format!("5 files, the same in {}/profiles and {url}", data.display()));
    let server = serve(&["--profiles", &url]);
    assert!(push(&server.address, &key, now_ns - 15_000_000_000));
    let page = server.get("/perf/a/profiles/web?last=1h", &key).body;
    assert!(page.contains("<dd>6 of 1 set"), "{page}");
    server.end(Signal::KILL);
    let backup = folder.path().join("backup.db");
    let backup = run(&["backup", backup.to_str().expect("text")]);
    backup.tells(&format!("their files are in {url}"));
    let here = data.join("profiles");
    run(&["move-profiles", here.to_str().expect("text"), "--profiles", &url]);
    let server = serve(&[]);
    let page = server.get("/perf/a/profiles/web?last=1h", &key).body;
    assert!(page.contains("<dd>6 of 1 set"), "{page}");
}
