//! Start and stop of a server, and its messages.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

use rustix::process::Signal;

use crate::{
    ran::Ran,
    serve::support::{Server, Team, WINGBEAT, request},
};

fn serve(data: &Path, arguments: &[&str]) -> Ran {
    Ran::of(Command::new(WINGBEAT).arg("serve").args(arguments).arg("--data").arg(data))
}

#[test]
fn a_public_address_needs_a_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let public = ["--listen", "0.0.0.0:0", "--public-url", "http://127.0.0.1:1"];
    serve(&data, &public).ended_with(1).tells_in_one_line().tells("serve user add EMAIL");
    let add = ["user", "add", "ada@example.org", "--role", "admin"];
    let added = serve(&data, &[&add[..], &public[2..]].concat()).ended_with(0);
    assert!(added.stdout.starts_with("http://127.0.0.1:1/auth/invite/"), "{added}");
    let mut command = Command::new(WINGBEAT);
    command.arg("serve").args(public).arg("--data").arg(&data);
    let server = Server::of(command);
    let (_, port) = server.address.rsplit_once(':').expect("a port");
    let address = format!("127.0.0.1:{port}");
    let link = added.stdout.trim().trim_start_matches("http://127.0.0.1:1").to_owned();
    assert_eq!(request(&address, "GET", &link, "", "").expect("answered").status, 200);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn other_users_of_the_machine_cannot_read_the_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    // As `mkdir` and a shell make folders and files.
    let in_open_folder = |script: &str| {
        let mut command = Command::new("sh");
        let script = format!("umask 022; mkdir -p \"$0\"; {script}");
        command.arg("-c").arg(script).arg(&data).arg(WINGBEAT);
        command
    };
    let add = "exec \"$1\" serve user add bob@example.org --role admin --data \"$0\" --public-url http://127.0.0.1:1";
    Ran::of(&mut in_open_folder(add)).ended_with(0);
    let server = Server::of(in_open_folder("exec \"$1\" serve --listen 127.0.0.1:0 --data \"$0\""));
    let team = Team::new(&data);
    assert_eq!(team.write(&server.address, "ci").expect("answered").status, 201);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let files: Vec<_> = fs::read_dir(&data).expect("a folder").flatten().collect();
    assert!(files.iter().any(|file| file.file_name().as_encoded_bytes().ends_with(b"-wal")));
    for file in files {
        assert_eq!(mode(&file.path()), 0o600, "{}", file.path().display());
    }
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("set");
    serve(&data, &["user", "list"]).ended_with(1).tells_in_one_line().tells("run `chmod 700 ");
    serve(&data, &["--listen", "127.0.0.1:0"]).ended_with(1).tells("run `chmod 700 ");
}

#[test]
fn a_folder_has_one_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let second = serve(folder.path(), &["--listen", "127.0.0.1:0"]);
    second.ended_with(1).tells_in_one_line().tells("another server uses the data folder");
    let taken = tempfile::tempdir().expect("a folder");
    let second = serve(taken.path(), &["--listen", &server.address]);
    second.ended_with(1).tells_in_one_line().tells("cannot listen on").tells("--listen");
    // A killed server leaves nothing that prevents another start.
    server.end(Signal::KILL);
    assert_eq!(Server::start(folder.path()).end(Signal::INT).0, Some(0));
}

#[test]
fn settings_come_from_variables_and_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("serve.toml");
    fs::write(&file, "listen = \"127.0.0.1:0\"\npublic_url = \"https://a.example\"\n")
        .expect("written");
    let mut command = Command::new(WINGBEAT);
    command.args(["serve", "--config"]).arg(&file);
    command.env("WINGBEAT_SERVE_DATA", folder.path().join("data"));
    command.env("WINGBEAT_SERVE_PUBLIC_URL", "https://b.example");
    let server = Server::of(command);
    let console = server.get("/v0/server/config/console", "").json();
    assert_eq!(console["url"], "https://b.example");
    assert!(folder.path().join("data/server.db").exists());
    let (code, _) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    fs::write(&file, "lissen = 1\n").expect("written");
    let wrong = serve(folder.path(), &["--config", file.to_str().expect("a plain path")]);
    wrong.ended_with(1).tells("lissen");
    // With a database, the folder is for profiles.
    let nowhere = ["--database", "postgres://127.0.0.1:1/nowhere"];
    serve(folder.path(), &nowhere).ended_with(1).tells("127.0.0.1:1/nowhere");
}

#[test]
fn commands_do_not_make_a_folder_by_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    for command in [&["user", "list"][..], &["key", "list", "--user", "a"]] {
        serve(&data, command).ended_with(1).tells_in_one_line().tells("name the server's folder");
    }
    let to = folder.path().join("backup");
    let backup = serve(&data, &["backup", to.to_str().expect("a plain path")]);
    backup.ended_with(1).tells_in_one_line().tells("server.db");
    assert!(!data.exists() && !to.exists());
}

#[test]
fn keys_and_users_are_managed_beside_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    let server = Server::start(folder.path());
    let command = |arguments: &[&str]| serve(folder.path(), arguments).ended_with(0);
    let status = |path: &str, key: &str| server.get(path, key).status;
    let made =
        command(&["key", "create", "--user", "ada@example.org", "--name", "x", "--ttl", "1h"]);
    let key = made.stdout.trim().to_owned();
    assert_eq!(status("/v0/users/ada", &key), 200);
    let token = command(&["key", "create", "--user", "ada", "--name", "y", "--token"]);
    assert_eq!(token.stdout.trim().split('.').count(), 3);
    assert_eq!(status("/v0/users/ada", token.stdout.trim()), 200);
    let missing = ["key", "create", "--project", "new", "--name", "ci"];
    serve(folder.path(), &missing).ended_with(1).tells("--create-project");
    let of_project = command(&[&missing[..], &["--create-project"]].concat());
    assert!(of_project.stdout.starts_with("bencher_run_"), "{of_project}");
    assert_eq!(status("/v0/projects/new/keys", of_project.stdout.trim()), 403);
    let list = command(&["key", "list", "--user", "ada"]);
    let line = list.stdout.lines().find(|line| line.starts_with("x ")).expect("the key");
    let uuid = line.split_whitespace().nth(1).expect("a UUID");
    command(&["key", "revoke", "--user", "ada", uuid]);
    assert_eq!(status("/v0/users/ada", &key), 401);
    serve(folder.path(), &["user", "lock", "ada"]).ended_with(1).tells("only admin");
    command(&["user", "add", "bob@example.org", "--role", "admin"]);
    command(&["user", "lock", "ada"]);
    assert_eq!(status("/v0/users/ada", &team.key), 401);
    command(&["user", "unlock", "ada"]);
    command(&["user", "role", "ada", "reader"]);
    assert_eq!(status("/v0/users/ada", &team.key), 200);
    assert_eq!(status("/v0/users", &team.key), 403);
    assert!(command(&["user", "list"]).stdout.contains("invited"));
}

#[test]
fn the_log_has_no_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    let cookie = team.cookie();
    let server = Server::start(folder.path());
    let made = team.write(&server.address, "ci").expect("answered").json();
    let text = |name: &str| made[name].as_str().expect("text").to_owned();
    server.get("/v0/projects/own/keys?secret=in-the-query", &text("key"));
    server.get("/v0/projects/own/keys", &text("token"));
    server.get("/v0/projects/own/keys", "bencher_user_mistyped");
    server.get("/auth/invite/the-link", "");
    let form = "Sec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let fields = "email=ada@example.org&password=the-password";
    let wrong = request(&server.address, "POST", "/auth/login", form, fields).expect("answered");
    assert_eq!(wrong.status, 401);
    let headers = format!("Cookie: {cookie}\r\n");
    let members =
        request(&server.address, "GET", "/console/users", &headers, "").expect("answered");
    assert_eq!(members.status, 200);
    let (_, log) = server.end(Signal::TERM);
    assert_eq!(log.matches("\"route\":\"/v0/projects/{project}/keys\"").count(), 4, "{log}");
    assert!(log.contains("\"route\":\"/auth/invite/{token}\""), "{log}");
    let (_, secret) = cookie.split_once('=').expect("a pair");
    let secrets = [
        &team.key,
        &text("key"),
        &text("token"),
        secret,
        "in-the-query",
        "the-link",
        "the-password",
        "mistyped",
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    for line in log.lines() {
        let json: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        assert!(json["message"].is_string() && json["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn without_users_a_link_makes_the_first_admin() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\" > \"$2\"", WINGBEAT]);
    let server = Server::of({
        command.arg(folder.path().join("data")).arg(&out);
        command
    });
    let told = fs::read_to_string(&out).expect("text");
    let link =
        told.lines().find_map(|line| line.strip_prefix(&format!("http://{}", server.address)));
    let link = link.expect("a link").to_owned();
    let (_, secret) = link.rsplit_once('/').expect("a token");
    let form = "Sec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let fields = "name=Ada&email=ada@example.org&new=long+enough&again=long+enough";
    let made = request(&server.address, "POST", &link, form, fields).expect("answered");
    assert_eq!(made.status, 303, "{made:?}");
    assert!(made.head.contains("set-cookie: wingbeat="), "{made:?}");
    let (_, log) = server.end(Signal::TERM);
    assert!(!log.contains(secret), "{log}");
    let again = Server::start(&folder.path().join("data"));
    assert_eq!(again.get(&link, "").status, 404);
}

// Backup of a running server, and a server on the backup.

fn back_up(data: &Path, to: &Path) -> Ran {
    Ran::of(Command::new(WINGBEAT).args(["serve", "backup"]).arg(to).arg("--data").arg(data))
}

/// Responses of a server, without parts that differ between any two.
fn answers(server: &Server, team: &Team, cookie: &str) -> Vec<(u16, String)> {
    let by_key = ["/v0/projects/own/keys?per_page=255", "/v0/users", "/v0/users/ada/keys"];
    let by_cookie = ["/", "/console/account", "/console/users", "/console/users/ada/keys"];
    let cookie = format!("Cookie: {cookie}\r\n");
    let signed_in =
        |path: &str| request(&server.address, "GET", path, &cookie, "").expect("answered");
    let by_key = by_key.iter().map(|path| server.get(path, &team.key));
    let answers = by_key.chain(by_cookie.iter().map(|path| signed_in(path)));
    answers.map(|answer| (answer.status, answer.body)).collect()
}

#[test]
fn a_restored_server_answers_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let team = Team::new(&data);
    let cookie = team.cookie();
    let server = Server::start(&data);
    for n in 0..20 {
        assert_eq!(team.write(&server.address, &n.to_string()).expect("answered").status, 201);
    }
    // Results come into the same file as on a laptop.
    let mut run = Command::new(WINGBEAT);
    run.args(["run", "--branch", "main", "-q", "--store"]).arg(data.join("server.db"));
    let line = format!("{WINGBEAT} mock --count 100");
    Ran::of(run.arg(line).current_dir(folder.path())).ended_with(0);
    let log = |store: &Path| {
        let mut log = Command::new(WINGBEAT);
        log.args(["log", "--format", "json", "--store"]).arg(store);
        Ran::of(&mut log).ended_with(0).json()["reports"].clone()
    };
    let to = folder.path().join("backup.db");
    back_up(&data, &to).ended_with(0).tells("as DIR/server.db, with --data DIR");
    let before = answers(&server, &team, &cookie);
    assert!(before.iter().all(|(status, _)| *status == 200), "{before:?}");
    let reports = log(&to);
    assert_eq!(reports.as_array().map(Vec::len), Some(1));
    assert_eq!(reports, log(&data.join("server.db")));
    back_up(&data, &to).ended_with(1).tells_in_one_line().tells("is there already");
    let nowhere = Path::new("/proc/nowhere/backup");
    back_up(&data, nowhere).ended_with(1).tells_in_one_line().tells("cannot write the backup");
    let restored = folder.path().join("restored");
    fs::DirBuilder::new().mode(0o700).create(&restored).expect("made");
    fs::copy(&to, restored.join("server.db")).expect("copied");
    let restored = Server::start(&restored);
    assert_eq!(answers(&restored, &team, &cookie), before);
    // It continues from there, independent of the first one.
    assert_eq!(team.write(&restored.address, "more").expect("answered").status, 201);
    assert_eq!(answers(&server, &team, &cookie), before);
}
