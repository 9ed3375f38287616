//! Reads and moves a store through the binary: `log`, `alerts`, `plot`, `export`, `import`.

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::{
    model::{
        Alert, AlertStatus, BenchmarkName, Boundary, Change, Environment, Limit, Measure, Metric,
        Outcome, ReasonKind, Report, Results, StartPoint, Verdict,
    },
    store::Store,
};

use crate::{ran::Ran, repository::WINGBEAT};

// A store with a history, and the binary on it.

/// Reports on `main`.
pub(crate) const REPORTS: u64 = 24;

/// A folder with a store.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    /// Without a store.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// With a history: two benchmarks on `main`, one of which regresses, with an alert; a kernel update in between; and
    /// a branch from it.
    pub(crate) fn with_history() -> Self {
        let place = Self::empty();
        let store = Store::open(place.store()).expect("a store");
        for number in 0..REPORTS {
            store.insert(&report(number)).expect("stored");
        }
        store.insert(&feature()).expect("stored");
        place
    }

    /// Adds three reports on `main`, with an alert each: of `parse/small`, `print` and `parse/small`, whose UUIDs end
    /// in 2, 1 and 3.
    pub(crate) fn add_alerts(&self) {
        let store = Store::open(self.store()).expect("a store");
        for (at, benchmark, number) in
            [(1, "parse/small", 2), (2, "print", 1), (3, "parse/small", 3)]
        {
            let mut report = report(REPORTS + at);
            worse(&mut report);
            let benchmark: BenchmarkName = benchmark.parse().expect("a name");
            report.verdicts[0].benchmark = benchmark.clone();
            report.alerts[0].benchmark = benchmark;
            report.alerts[0].uuid = Uuid::from_u128(0xa1e7 << 112 | number);
            store.insert(&report).expect("stored");
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("results.db")
    }

    pub(crate) fn wingbeat(&self, args: &[&str]) -> Ran {
        Ran::of(self.command().args(args).arg("--store").arg(self.store()))
    }

    /// The binary in that folder, without settings from the environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(WINGBEAT);
        command.current_dir(self.folder.path());
        command.env_remove("WINGBEAT_STORE").env_remove("WINGBEAT_PROJECT");
        command
    }
}

fn report(number: u64) -> Report {
    let start = OffsetDateTime::from_unix_timestamp(1_795_298_672).expect("a time");
    let start_time = start + Duration::hours(number.cast_signed());
    // Deterministic, but not constant.
    let noise = 1.0 + (number * 7 % 5) as f64 / 500.0;
    let slow = if number < 14 { 1000.0 } else { 1300.0 };
    let mut results = Results::default();
    for (name, value) in [("parse/small", slow * noise), ("print", 2000.0 * noise)] {
        let metric = Metric::new(value).within(value * 0.98, value * 1.02);
        let name = name.parse().expect("a name");
        results.add(name, Measure::latency(), metric).expect("added");
    }
    let (project, branch) = ("parser".parse(), "main".parse().expect("a name"));
    let testbed = "ci-runner".parse().expect("a name");
    let mut report = Report {
        hash: Some(format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        end_time: start_time + Duration::seconds(3),
        environment: Environment {
            kernel: Some(if number < 8 { "Linux 6.12" } else { "Linux 6.18" }.to_owned()),
            ..Environment::default()
        },
        iterations: vec![results],
        ..Report::new(uuid(number), project.expect("a name"), branch, testbed, start_time)
    };
    if number == 14 {
        worse(&mut report);
    }
    report
}

/// UUIDs with a common prefix, ending in their number.
pub(crate) fn uuid(number: u64) -> Uuid {
    Uuid::from_u64_pair(0x01a2_0043_e53a_7391, 0x9000_0000_0000_0000 | number << 4 | 0xf)
}

pub(crate) fn alert() -> Uuid {
    Uuid::from_u128(0xa1e7_0000_0000_0000_0000_0000_0000_beef)
}

fn worse(report: &mut Report) {
    let benchmark = "parse/small".parse().expect("a name");
    let boundary =
        Boundary { baseline: Some(1004.0), lower_limit: None, upper_limit: Some(1050.0) };
    report.verdicts.push(Verdict {
        iteration: 0,
        benchmark,
        measure: Measure::latency().slug,
        outcome: Outcome::Worse,
        test: None,
        boundary: Some(boundary),
        limit: Some(Limit::Upper),
        change: Some(Change { relative: 0.3, lower: Some(0.28), upper: Some(0.32) }),
        p: Some(1e-6),
        smallest_visible: Some(0.02),
        points: 14,
        reason: ReasonKind::BeyondLimit { side: Limit::Upper, limit: 1050.0, value: 1308.0 }.into(),
    });
    report.alerts.push(Alert {
        uuid: alert(),
        iteration: 0,
        benchmark: "parse/small".parse().expect("a name"),
        measure: Measure::latency().slug,
        limit: Limit::Upper,
        status: AlertStatus::Active,
        reason: None,
    });
}

fn feature() -> Report {
    let start = StartPoint {
        branch: "main".parse().expect("a name"),
        hash: None,
        until: None,
        max_versions: 255,
    };
    let branch = "feature/fast".parse().expect("a name");
    Report { branch, start_point: Some(start), ..report(REPORTS) }
}

// `wingbeat log`.

#[test]
fn lists_of_reports() {
    let place = Place::with_history();
    let text = place.wingbeat(&["log", "-n", "100"]).ended_with(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len() as u64, 1 + REPORTS + 1, "{text}");
    assert!(lines[0].starts_with("time, UTC         report    branch"), "{}", lines[0]);
    assert!(lines[1].contains("feature/fast (from main)"), "{}", lines[1]);
    assert!(lines[1].starts_with("2026-11-22 22:04  0000018f"), "{}", lines[1]);
    let [changed] = lines.iter().filter(|line| line.contains("kernel")).collect::<Vec<_>>()[..]
    else {
        panic!("one change: {text}")
    };
    assert!(changed.ends_with("kernel Linux 6.12 → Linux 6.18"), "{changed}");
    assert!(changed.starts_with("2026-11-22 06:04"), "{changed}");
    assert!(!text.contains("parser"), "one project needs no column");
    // Also a change just before the list.
    let newest = (REPORTS + 1 - 8).to_string();
    let ran = place.wingbeat(&["log", "-n", &newest]).ended_with(0);
    let last = ran.stdout.lines().last().expect("a line");
    assert!(last.contains("kernel Linux 6.12"), "{ran}");
    assert!(ran.stderr.starts_with("older reports are not shown; -n 85"), "{ran}");

    let check = |args: &[&str], expected: usize| {
        let text = place.wingbeat(&[&["log", "-n", "100"], args].concat()).ended_with(0).stdout;
        assert_eq!(text.lines().count(), 1 + expected, "{args:?}");
    };
    check(&["--branch", "main"], 24);
    check(&["--testbed", "ci-runner", "--project", "parser"], 25);
    check(&["--since", "2026-11-22T20:04:32"], 3);
    let fails = |args: &[&str], expected: &[&str]| {
        place.wingbeat(&[&["log"], args].concat()).ended_with(1).tells_all(expected);
    };
    let mian = ["there is no branch mian in the store", "it has feature/fast, main"];
    fails(&["--branch", "mian"], &mian);
    fails(&["--project", "x"], &["there is no project x"]);
    let digits = "25 reports begin or end with 01a2; add digits";
    fails(&["01a2"], &[digits, &uuid(24).to_string(), "and 17 more"]);

    let list = place.wingbeat(&["log", "--format", "json", "-n", "2"]).ended_with(0).json();
    assert_eq!(list["schema_version"], 1);
    let list = &list["reports"];
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    assert_eq!(list[0]["start_point"]["branch"], "main");
    assert_eq!(list[1]["metrics"], 2);
    assert_eq!(list[1]["start_time"], "2026-11-22T21:04:32Z");
    let mut command = place.command();
    command.args(["log", "-n", "1"]).env("WINGBEAT_STORE", place.store());
    Ran::of(&mut command).ended_with(0);
}

#[test]
fn one_report_whole() {
    let place = Place::with_history();
    let text = place.wingbeat(&["log", "000000ef"]).ended_with(0).stdout;
    for part in [
        &uuid(14).to_string(),
        "Linux 6.18",
        "parse/small  latency  1.308 µs  ± 0.026  1.004 µs  +30.0 %  worse\n",
        "worse  parse/small latency: above the upper limit of 1.050 µs",
        "parse/small  latency  above  0000beef",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let report =
        place.wingbeat(&["log", &uuid(3).to_string(), "--format", "json"]).ended_with(0).json();
    assert_eq!(report["uuid"], uuid(3).to_string());
    assert_eq!(report["iterations"][0]["benchmarks"][0]["name"], "parse/small");
}

#[test]
fn without_a_store_there_is_a_sentence() {
    let place = Place::empty();
    for verb in [&["log"][..], &["alerts"], &["plot"], &["export", "out"]] {
        let ran = place.wingbeat(verb).ended_with(1);
        ran.tells("there is no store at").tells("`wingbeat run` creates one");
    }
    assert!(!place.store().exists(), "looking makes no store");
}

// `wingbeat alerts`.

#[test]
fn alerts_are_listed_dismissed_and_back() {
    let place = Place::with_history();
    let list = |args: &[&str]| place.wingbeat(&[&["alerts"], args].concat()).ended_with(0).stdout;
    let text = list(&[]);
    assert!(text.contains("parse/small  latency  1.308 µs  above 1.050 µs  +30.3 %"), "{text}");
    let json = |args: &[&str], expected: usize| {
        let args = [&["alerts", "--format", "json"], args].concat();
        let list = place.wingbeat(&args).ended_with(0).json();
        assert_eq!(list["schema_version"], 1);
        assert_eq!(list["alerts"].as_array().map(Vec::len), Some(expected), "{args:?}");
        list["alerts"].clone()
    };
    json(&["--branch", "feature/fast"], 0);
    let found = json(&["--branch", "main", "--testbed", "ci-runner"], 1);
    assert_eq!(
        (&found[0]["uuid"], &found[0]["status"]),
        (&alert().to_string().into(), &"active".into())
    );
    assert_eq!(found[0]["boundary"]["upper_limit"], 1050.0);
    // One wrong name changes nothing.
    let ran = place.wingbeat(&["alerts", "dismiss", "beef", "0000"]).ended_with(1);
    ran.tells("no alert begins or ends with 0000");
    let settle = |words: &[&str], expected: &str, is_listed: bool, text: &str| {
        let [verb, flags @ ..] = words else { panic!("a verb") };
        let words = [&["alerts", verb, "0000beef"], flags].concat();
        let ran = place.wingbeat(&words).ended_with(0);
        assert!(ran.stderr.starts_with(expected), "{ran}");
        assert_eq!(list(&[]).contains("0000beef"), is_listed, "{words:?}");
        assert!(list(&["--all"]).contains(text), "{text:?} after {words:?}");
    };
    let dismissed = "dismissed: 0000beef 2026-11-22 12:04 main: parse/small";
    settle(&["dismiss", "-m", "known, #12"], dismissed, false, "dismissed (known, #12)");
    // The reason stays.
    settle(&["dismiss"], dismissed, false, "dismissed (known, #12)");
    settle(&["dismiss", "-m", "mended"], dismissed, false, "dismissed (mended)");
    settle(&["silence"], "silenced: 0000beef", false, "silenced");
    settle(&["activate"], "active: 0000beef", true, "0000beef");
}

#[test]
fn a_series_is_silenced_and_comes_back_as_a_whole() {
    let place = Place::with_history();
    place.add_alerts();
    let settle = |verb: &str, alert: &str, expected: &str| {
        place.wingbeat(&["alerts", verb, alert]).ended_with(0);
        let list = place.wingbeat(&["alerts", "--all", "--format", "json"]).ended_with(0).json();
        let told: Vec<&str> = list["alerts"]
            .as_array()
            .expect("alerts")
            .iter()
            .filter_map(|it| it["status"].as_str())
            .collect();
        assert_eq!(told.join(" "), expected, "{verb} {alert}");
    };
    // Newest first: three of parse/small, of which the oldest is 0000beef, between them one of print.
    settle("dismiss", "00000002", "active active dismissed active");
    settle("silence", "00000003", "silenced active dismissed silenced");
    settle("activate", "0000beef", "active active dismissed active");
    settle("dismiss", "00000001", "active dismissed dismissed active");
    settle("silence", "00000002", "silenced dismissed silenced silenced");
    settle("activate", "00000001", "silenced active silenced silenced");
}

// `wingbeat plot`.

#[test]
fn plots_as_files_in_the_terminal_and_as_json() {
    let place = Place::with_history();
    let all = |text: &str, parts: &[&str]| {
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in\n{text}");
    };
    let ran = place.wingbeat(&["plot", "-o", "perf.svg", "-o", "perf.html"]).ended_with(0);
    ran.tells("perf.svg (4 series of 25 reports");
    let picture = fs::read_to_string(place.folder.path().join("perf.svg")).expect("a picture");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    all(&picture, &["parse/small · Latency", "class=\"alert\"", "kernel Linux 6.12 → Linux 6.18"]);
    let page = fs::read_to_string(place.folder.path().join("perf.html")).expect("a page");
    assert_eq!(page.matches("<figure><svg").count(), 2, "a chart for each benchmark");
    place.wingbeat(&["plot", "-o", "no/such/folder/perf.svg"]).ended_with(1);

    let text = place.wingbeat(&["plot", "--branch", "main"]).ended_with(0).stdout;
    all(&text, &["parse/small · main\n", "level +30.0 % 10 values ago, 1 alert", "24 reports, "]);
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");

    let plot = place.wingbeat(&["plot", "--branch", "main", "--json"]).ended_with(0).json();
    assert_eq!(plot["schema_version"], 1);
    assert_eq!(plot["reports"].as_array().map(Vec::len), Some(24));
    let series = &plot["series"][0];
    let names = (&series["benchmark"], &series["measure"]["slug"]);
    assert_eq!(names, (&"parse/small".into(), &"latency".into()));
    let change = series["changes"][0]["index"].as_u64().expect("a change");
    assert!(series["points"][usize::try_from(change).expect("an index")]["value"].is_f64());
}

#[test]
fn plot_filters() {
    let place = Place::with_history();
    let check = |args: &[&str], code, expected: &str| {
        let args = [&["plot", "-o", "a.svg"], args].concat();
        place.wingbeat(&args).ended_with(code).tells(expected);
    };
    let unknown = "no benchmark of parser matches \"x*\"; it has parse/small, print";
    check(&["--benchmark", "x*"], 1, unknown);
    check(&["--measure", "throughput"], 1, "there is no measure throughput");
    let is_past = OffsetDateTime::now_utc().unix_timestamp() > 1_795_298_672 + 86_400 * 2;
    if is_past {
        check(&["--window", "1m"], 1, "nothing to draw");
    }
    check(&["--since", "2100-01-01"], 1, "nothing to draw");
    assert!(!place.folder.path().join("a.svg").exists());
    check(&["--benchmark", "pa*"], 0, "(2 series of 25 reports");
    check(&["--benchmark", "print", "--branch", "main", "-n", "5"], 0, "(1 series of 5 reports");
    check(&["--measure", "latency", "--since", "2026-11-22T20:04"], 0, "(4 series of 3 reports");
}

// `wingbeat export` and `import`.

fn exchange(place: &Place, args: &[&str], code: i32, expected: &str) {
    place.wingbeat(args).ended_with(code).tells(expected);
}

/// All reports, as `log` shows them.
fn log(place: &Place) -> String {
    place.wingbeat(&["log", "-n", "100"]).ended_with(0).stdout
}

#[test]
fn a_folder_there_and_back() {
    let (place, other) = (Place::with_history(), Place::empty());
    place.wingbeat(&["alerts", "dismiss", "beef"]).ended_with(0);
    let folder = place.folder.path().join("out");
    let folder = folder.to_str().expect("a text");
    exchange(&place, &["export", folder], 0, "wrote 25 reports and 1 change of an alert to");
    exchange(&place, &["export", folder], 0, "wrote 0 reports to");
    exchange(&place, &["export", folder], 0, "; 26 were already there");
    exchange(&other, &["import", folder], 0, "imported 25 reports and 1 change of an alert into");
    exchange(&other, &["import", folder], 0, "; 26 were already there");
    assert_eq!(log(&place), log(&other));
    fs::write(place.folder.path().join("out/broken.json"), "{").expect("written");
    exchange(&other, &["import", folder], 1, "broken.json was skipped: ");
    exchange(&other, &["import", folder], 1, "already there, 1 file skipped");
    exchange(&other, &["import", "nowhere"], 1, "cannot read nowhere");
    let both = ["import", folder, "--host", "http://localhost:6610"];
    exchange(&other, &both, 2, "wingbeat export --host http://localhost:6610");
}

#[test]
fn one_file_there_and_back() {
    let place = Place::with_history();
    let name = |name: &str| place.folder.path().join(name).to_str().expect("a text").to_owned();
    for file in [name("a.jsonl"), name("a.jsonl.gz")] {
        exchange(&place, &["export", &file], 0, "wrote 25 reports to");
        exchange(&place, &["export", &file], 1, "it is there");
        let other = Place::empty();
        exchange(&other, &["import", &file], 0, "imported 25 reports into");
        exchange(&other, &["import", &file], 0, "imported 0 reports into");
        assert_eq!(log(&place), log(&other));
    }
    let [plain, packed] = ["a.jsonl", "a.jsonl.gz"].map(|it| fs::read(name(it)).expect("a file"));
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < plain.len() / 3);
    let mut piped = place.command();
    let piped = piped.args(["export", "--gzip", "-", "--store"]).arg(place.store()).output();
    let piped = piped.expect("it runs");
    assert!(piped.stdout == packed);
    assert!(String::from_utf8_lossy(&piped.stderr).contains("to stdout"), "{:?}", piped.stderr);
    exchange(&place, &["export", "--gzip", "folder"], 2, "--gzip compresses one file");
    let check = |content: &[u8]| {
        let other = Place::empty();
        fs::write(name("cut"), content).expect("written");
        exchange(&other, &["import", &name("cut")], 1, "cut off");
        other.wingbeat(&["log"]).ended_with(0).tells("no reports in");
    };
    check(&plain[..plain.len() / 2]);
    check(&packed[..packed.len() / 2]);
}

#[test]
fn damage_is_told() {
    let place = Place::with_history();
    let check = |args: &[&str], code: i32, out: &str, err: &str| {
        place.wingbeat(args).ended_with(code).prints(out).tells(err);
    };
    check(&["log", "--check"], 0, "", "is whole: 25 reports with 50 metrics, 0 changes");
    // The lower bound of a value, anywhere in the file.
    let value = 2000.0_f64 * (1.0 + 3.0 / 500.0) * 0.98;
    let mut bytes = fs::read(place.store()).expect("the store");
    let at = bytes.windows(8).position(|eight| eight == value.to_be_bytes()).expect("the value");
    bytes[at + 6] ^= 4;
    fs::write(place.store(), &bytes).expect("written");
    let differs = " differs from what was stored";
    check(&["log", "--check"], 1, differs, "24 of the 25 reports");
    check(&["log", "--check", "--format", "json"], 1, differs, "is damaged");
    check(&["export", "saved"], 1, "", "wrote 24 reports to saved");
    check(&["export", "saved"], 1, "", differs);
}

#[test]
fn a_store_is_copied_to_another() {
    let place = Place::with_history();
    let copy = |from: &str, to: &str| Ran::of(place.command().args(["store", "copy", from, to]));
    let to = place.folder.path().join("copy.db");
    let to = to.to_str().expect("a text");
    copy("results.db", to).ended_with(0).tells("all 25 documents of results.db are in ");
    copy("results.db", to).ended_with(0).tells("25 of them were there before");
    copy("nowhere.db", to).ended_with(1).tells("there is no store at nowhere.db");
    let unreachable = "postgres://me:secret@127.0.0.1:1/results";
    let refused = copy("results.db", unreachable).ended_with(1);
    refused.tells("the connection to postgres://me@127.0.0.1:1/results failed while opening it");
}
