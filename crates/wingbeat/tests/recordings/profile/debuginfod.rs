//! Stripped programs with debug information on a debuginfod server: a small one on loopback. Its data is in the output,
//! and the output never waits for it longer than allowed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use wingbeat_http::testing::{Reply, Server};

use crate::{
    profile::support::{Background, Run, command, finished, spinner, turn_in_folder},
    ran::{Ran, wait_for},
};

/// A program with this build id, without symbols, and its debug file.
struct Split {
    program: PathBuf,
    debug_file: Vec<u8>,
    /// Method and path of the request.
    asked: String,
}

impl Split {
    fn new(folder: &Path, name: &str) -> Self {
        let program = spinner(folder, name);
        let debug = folder.join("debug");
        objcopy(&[Path::new("--only-keep-debug"), &program, &debug]);
        objcopy(&[Path::new("--strip-all"), &program]);
        let debug_file = fs::read(&debug).expect("read");
        fs::remove_file(debug).expect("remove");
        let note = folder.join("note");
        let only = ["-O", "binary", "--only-section=.note.gnu.build-id"].map(Path::new);
        objcopy(&[&only[..], &[&program, &note]].concat());
        // After three numbers and a name.
        let build_id: String =
            fs::read(&note).expect("read")[16..].iter().map(|byte| format!("{byte:02x}")).collect();
        fs::remove_file(note).expect("remove");
        let asked = format!("GET /buildid/{build_id}/debuginfo");
        Self { program, debug_file, asked }
    }

    /// A server that replies like this to requests for the program, and has nothing else.
    fn server(&self, reply: Reply) -> Server {
        let own = self.asked.clone();
        Server::start(move |line, _| if line == own { reply.clone() } else { Reply::last(404, "") })
    }

    /// Number of requests for the program.
    fn asked(&self, server: &Server) -> usize {
        server.lines().iter().filter(|line| **line == self.asked).count()
    }
}

fn objcopy(arguments: &[&Path]) {
    assert!(Command::new("objcopy").args(arguments).status().expect("objcopy").success());
}

/// `wingbeat profile` with this server in the environment, and a cache in the folder.
fn by(folder: &Path, server: &Server, flags: &[&str]) -> Command {
    let mut command = command(folder, flags);
    command.args(["-F", "499"]).arg("-o").arg(folder.join("lines.json"));
    for limit in ["TIMEOUT", "MAXTIME", "MAXSIZE"] {
        command.env_remove(format!("DEBUGINFOD_{limit}"));
    }
    command.env("DEBUGINFOD_URLS", &server.url);
    command.env("DEBUGINFOD_CACHE_PATH", folder.join("cache"));
    command
}

/// Runs the program to completion.
fn launch(folder: &Path, mut command: Command, split: &Split) -> Run {
    let output = command.arg("--").arg(&split.program).arg("0.7").output();
    finished(folder, output.expect("run wingbeat")).ended_with(0)
}

fn codes(run: &Run) -> Vec<&str> {
    let warnings = run.summary["warnings"].as_array().expect("warnings");
    warnings.iter().filter_map(|warning| warning["code"].as_str()).collect()
}

#[track_caller]
fn has_names(folder: &Path, run: &Run, expected: bool) {
    let share = run.percent_with(";main;busy_work;");
    assert_eq!(share > 90.0, expected, "{share} %: {:?}\n{}", run.folded, run.stderr);
    let lines = fs::read_to_string(folder.join("lines.json")).expect("read");
    assert_eq!(lines.contains("split.c"), expected);
}

#[test]
fn names_and_lines_come_from_a_server_once() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let folder = folder.path();
    let split = Split::new(folder, "split");
    let server = split.server(Reply::last(200, split.debug_file.clone()));
    // The variable alone does not enable network access.
    let run = launch(folder, by(folder, &server, &[]), &split);
    has_names(folder, &run, false);
    assert!(server.asked().is_empty() && !run.stderr.contains("debug"), "{}", run.stderr);
    assert!(run.summary["debuginfod"].is_null());

    for (outcome, said) in [("downloaded", "1 file downloaded"), ("cached", "0 files downloaded")] {
        let run = launch(folder, by(folder, &server, &["--debuginfod"]), &split);
        has_names(folder, &run, true);
        assert!(run.stderr.contains(said), "{}", run.stderr);
        let files = run.summary["debuginfod"]["files"].as_array().expect("files");
        let program = split.program.to_str();
        let own = files.iter().find(|file| file["path"].as_str() == program).expect("the program");
        assert_eq!(own["outcome"], outcome);
        assert_eq!(split.asked(&server), 1);
    }
}

#[test]
fn what_has_names_here_is_not_asked_for() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let folder = folder.path();
    let mut split = Split::new(folder, "split");
    let server = split.server(Reply::last(404, ""));
    let check = |split: &Split| {
        let run = launch(folder, by(folder, &server, &["--debuginfod"]), split);
        has_names(folder, &run, true);
        assert_eq!(split.asked(&server), 0);
    };
    // A debug file next to it, as distributions install them.
    fs::write(folder.join("split.debug"), &split.debug_file).expect("write");
    let link = format!("--add-gnu-debuglink={}", folder.join("split.debug").display());
    objcopy(&[Path::new(&link), &split.program]);
    check(&split);
    split.program = spinner(folder, "split");
    check(&split);
}

#[test]
fn a_server_in_the_flag_overrides_the_variable() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let folder = folder.path();
    let split = Split::new(folder, "split");
    let (empty, other) = (split.server(Reply::last(404, "")), split.server(Reply::last(404, "")));
    let flag = format!("--debuginfod={}", empty.url);
    let run = launch(folder, by(folder, &other, &[&flag]), &split);
    has_names(folder, &run, false);
    assert_eq!(codes(&run), [""; 0]);
    assert_eq!((split.asked(&empty), other.asked().len()), (1, 0));
}

#[test]
fn the_output_is_written_whatever_the_server_does() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let folder = folder.path();
    let split = Split::new(folder, "split");
    let check = |reply: Reply, expected: &str| {
        let server = split.server(reply);
        let mut command = by(folder, &server, &["--debuginfod"]);
        command.env("DEBUGINFOD_MAXTIME", "1");
        let begin = Instant::now();
        let run = launch(folder, command, &split);
        assert!(begin.elapsed() < Duration::from_secs(50), "{expected}: {:?}", begin.elapsed());
        has_names(folder, &run, false);
        assert_eq!(codes(&run), ["debug-info-missing"], "{expected}");
        assert!(run.stderr.contains(expected), "{expected}: {}", run.stderr);
    };
    check(
        Reply::Silence(Duration::from_secs(60)),
        "the time limit for downloads, 1 s, was exceeded",
    );
    check(Reply::last(200, b"garbage".repeat(1000)), "returned a file of another build");
}

#[test]
fn a_signal_ends_downloads_and_the_output_is_written() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let folder = folder.path();
    let split = Split::new(folder, "split");
    let server = split.server(Reply::Silence(Duration::from_secs(60)));
    let target = Background::start(&split.program, &["30"]);
    let mut command = by(folder, &server, &["--debuginfod", "-p", &target.pid()]);
    let mut session = command.stderr(Stdio::piped()).spawn().expect("start wingbeat");
    let pid = Pid::from_child(&session);
    let interrupt = || kill_process(pid, Signal::INT).expect("kill");
    std::thread::sleep(Duration::from_millis(1_500));
    // The first one ends the recording, and must not end the downloads.
    interrupt();
    wait_for("a question", || split.asked(&server) > 0);
    std::thread::sleep(Duration::from_secs(2));
    assert!(session.try_wait().expect("a child").is_none(), "it waited for nothing");
    let begin = Instant::now();
    interrupt();
    let run = finished(folder, session.wait_with_output().expect("wait")).ended_with(0);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    has_names(folder, &run, false);
    assert_eq!(codes(&run), ["debug-info-missing"]);
    assert!(run.stderr.contains("the downloads were interrupted"), "{}", run.stderr);
    assert!(run.samples() > 100, "{}", run.stderr);
}

#[test]
fn wrong_settings_are_told_before_anything_runs() {
    let folder = crate::profile::support::folder();
    let witness = folder.path().join("witness");
    let mut command = command(folder.path(), &["--debuginfod", "--", "touch"]);
    command.arg(&witness).env_remove("DEBUGINFOD_URLS");
    Ran::of(&mut command).ended_with(2).tells("set DEBUGINFOD_URLS");
    assert!(!witness.exists(), "the command ran before");
}
