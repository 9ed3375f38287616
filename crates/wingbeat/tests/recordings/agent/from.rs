//! `wingbeat profile --from`: reads saved windows, without privileges and without an agent.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use wingbeat_agent::{Kind, Series, Window, WindowArchive};
use wingbeat_profiler::{
    export::write_sums,
    model::{
        Completeness, Frame, Function, Line, Meta, Mode, Process, Profile, Stack, Sum, Thread,
        Weight,
    },
};

use crate::ran::Ran;

/// 2026-11-27T23:00:00Z.
const BEGIN: Duration = Duration::from_secs(1_795_820_400);

/// A file with one function of this weight.
fn pprof(function: &str, mode: Mode, weight: Weight) -> Vec<u8> {
    let line = Line { function: 0, file: None, line: None };
    let name = String::new();
    let profile = Profile {
        functions: vec![Function { name: function.to_owned(), is_symbol: true }],
        frames: vec![Frame { binary: None, address: 1, lines: vec![line] }],
        stacks: vec![Stack { frames: vec![0], completeness: Completeness::Complete }],
        processes: vec![Process { pid: 0, parent: None, name, start_ns: 0, end_ns: None }],
        threads: vec![Thread {
            process: 0,
            tid: 0,
            name: String::new(),
            start_ns: 0,
            end_ns: None,
            on_cpu_ns: None,
        }],
        sums: vec![Sum { thread: 0, stack: 0, time_ns: 0, weight }],
        ..Profile::new(Meta {
            mode,
            target: String::new(),
            start: UNIX_EPOCH,
            start_ns: 0,
            duration_ns: 1,
            frequency_hz: 20,
            period: 50_000_000,
            fault_bytes: 0,
            system: "Linux".to_owned(),
        })
    };
    let mut bytes = Vec::new();
    write_sums(&profile, &mut bytes).expect("a file");
    bytes
}

fn series(service: &str, kind: Kind, pprof: Vec<u8>) -> Series {
    let labels =
        [("service_name", service), ("process_executable_name", "run"), ("host_name", "box")];
    let labels: BTreeMap<String, String> =
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Series { kind, labels, pprof }
}

/// Three windows of 15 s, 15 minutes apart: `web` and `db` run, and `web` waits in the first.
fn ring(folder: &Path) {
    let mut archive =
        WindowArchive::open(folder, Duration::from_secs(86_400), u64::MAX).expect("an archive");
    for number in 0..3 {
        let cpu =
            |samples: u64| Weight { samples, on_cpu_ns: samples * 50_000_000, ..Weight::default() };
        let mut all = vec![
            series("web", Kind::Cpu, pprof("serve", Mode::OnCpu, cpu(3))),
            series("db", Kind::Cpu, pprof("query", Mode::OnCpu, cpu(1))),
        ];
        if number == 0 {
            let waits = Weight { blocks: 2, off_cpu_ns: 7_000, ..Weight::default() };
            all.push(series("web", Kind::OffCpu, pprof("wait", Mode::OffCpu, waits)));
        }
        let start = UNIX_EPOCH + BEGIN + Duration::from_secs(900 * number);
        let window = Window { start, duration: Duration::from_secs(15), series: all };
        archive.add(&window).expect("kept");
    }
}

fn from(folder: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.current_dir(folder).args(["profile", "--from", "ring"]).args(words);
    Ran::of(&mut command)
}

#[test]
fn windows_of_a_time_add_up() {
    let folder = tempfile::tempdir().expect("a folder");
    ring(&folder.path().join("ring"));
    let check = |words: &[&str], expected: &str| {
        from(folder.path(), &[words, &["-o", "out.folded"]].concat()).ended_with(0);
        let found = fs::read_to_string(folder.path().join("out.folded")).expect("a file");
        assert_eq!(found, expected, "{words:?}");
    };
    check(&[], "db (run);query 3\nweb (run);serve 9\n");
    check(&["--since", "2026-11-27T23:10"], "db (run);query 2\nweb (run);serve 6\n");
    let both = ["--since", "2026-11-28T00:10:00+01:00", "--until", "2026-11-27T23:20:00Z"];
    check(&both, "db (run);query 1\nweb (run);serve 3\n");
    check(&["--service", "w*"], "web (run);serve 9\n");
    check(&["--service", "web", "--service", "db"], "db (run);query 3\nweb (run);serve 9\n");
    check(&["--label", "host_name=b?x", "--label", "service_name=db"], "db (run);query 3\n");
    check(&["--mode", "off-cpu"], "web (run);wait 7000\n");
    let text = from(folder.path(), &["-o", "out.svg", "-o", "out.json"]).ended_with(0);
    text.tells_all(&[
        "600 ms of on-cpu at 20 Hz",
        "3 windows, with profiles of 45s in 30m 15s",
        "there is off-cpu of that time, too: --mode off-cpu",
        "75.0 %  450 ms  web (run)",
    ]);
    let svg = fs::read_to_string(folder.path().join("out.svg")).expect("a picture");
    assert!(svg.contains("serve") && svg.contains("2026-11-27 23:00:00"), "{svg}");
}

#[test]
fn damage_costs_no_more_than_what_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let windows = folder.path().join("ring");
    ring(&windows);
    let of = |name: &str| windows.join(name);
    fs::write(of("20261127T230000Z-15s/process_cpu-web-0.pb.gz"), b"\x1f\x8bhalf").expect("write");
    fs::remove_file(of("20261127T230000Z-15s/process_cpu-db-1.pb.gz")).expect("remove");
    fs::write(of("20261127T231500Z-15s/labels.json"), b"{\"form").expect("write");
    fs::create_dir(of(".partial-20261127T234500Z-15s")).expect("a folder");
    let ran = from(folder.path(), &["-o", "out.folded"]).ended_with(0);
    ran.tells_all(&["cannot be decompressed", "cannot open it", "labels.json is damaged"]);
    let found = fs::read_to_string(folder.path().join("out.folded")).expect("a file");
    assert_eq!(found, "db (run);query 1\nweb (run);serve 3\n");
}

#[test]
fn what_there_is_is_told_where_nothing_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    ring(&folder.path().join("ring"));
    let check = |words: &[&str], code: i32, expected: &str| {
        from(folder.path(), words).ended_with(code).tells(expected);
        assert!(!folder.path().join("wingbeat.svg").exists(), "{words:?}");
    };
    let range = "its windows are from 2026-11-27 23:00:00 UTC to 2026-11-27 23:30:15 UTC";
    check(&["--until", "2026-11-01"], 1, range);
    check(&["--service", "mail"], 1, "the services of that time are web, db");
    check(
        &["--mode", "pages"],
        1,
        "no pages profiles were kept of that time, only on-cpu and off-cpu: choose another --mode",
    );
    check(&["--mode", "wall"], 2, "--mode wall is for recordings");
    check(&["--since", "2026-11-02", "--until", "2026-11-01"], 2, "is not before --until");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.args(["profile", "--from"]).arg(&empty);
    Ran::of(&mut command).ended_with(1).tells("has no windows");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.args(["profile", "--all", "-d", "1s", "--since", "1h"]);
    Ran::of(&mut command).ended_with(2).tells("--since chooses from what was kept: add --from DIR");
    assert!(SystemTime::now() > UNIX_EPOCH + BEGIN, "the windows are in the past");
}
