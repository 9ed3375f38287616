//! `wingbeat plot`.

use std::fs;

use time::OffsetDateTime;

use super::support::Place;

#[test]
fn files_by_their_suffix() {
    let place = Place::with_history();
    let ran = place.wingbeat(&["plot", "-o", "perf.svg", "-o", "perf.html"]).ended_with(0);
    ran.tells("perf.svg (4 series of 25 reports");
    let picture = fs::read_to_string(place.folder.path().join("perf.svg")).expect("a picture");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    for part in [
        "parse/small · Latency",
        ">main<",
        "+30",
        "class=\"alert\"",
        "kernel Linux 6.12 → Linux 6.18",
    ] {
        assert!(picture.contains(part), "{part}");
    }
    let page = fs::read_to_string(place.folder.path().join("perf.html")).expect("a page");
    assert_eq!(page.matches("<figure><svg").count(), 2, "a chart for each benchmark");
    place.wingbeat(&["plot", "-o", "perf.png"]).ended_with(2);
    place.wingbeat(&["plot", "-o", "no/such/folder/perf.svg"]).ended_with(1);
}

#[test]
fn in_the_terminal() {
    let place = Place::with_history();
    let text = place.wingbeat(&["plot", "--branch", "main"]).ended_with(0).stdout;
    for part in [
        "Latency, with alerts\n",
        "parse/small · main\n",
        "level +30.0 % 10 values ago, 1 alert",
        "24 reports, ",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn json() {
    let place = Place::with_history();
    let plot = place.wingbeat(&["plot", "--branch", "main", "--json"]).ended_with(0).json();
    assert_eq!(plot["schema_version"], 1);
    assert_eq!(plot["reports"].as_array().map(Vec::len), Some(24));
    let series = &plot["series"][0];
    assert_eq!(
        (&series["benchmark"], &series["measure"]["slug"]),
        (&"parse/small".into(), &"latency".into())
    );
    let change = series["changes"][0]["index"].as_u64().expect("a change");
    assert!(series["points"][usize::try_from(change).expect("an index")]["value"].is_f64());
}

#[test]
fn filters() {
    let place = Place::with_history();
    let check = |args: &[&str], expected: &str| {
        let args = [&["plot", "-o", "a.svg"], args].concat();
        place.wingbeat(&args).ended_with(0).tells(expected);
    };
    check(&["--branch", "main"], "(2 series of 24 reports");
    check(&["--benchmark", "pa*"], "(2 series of 25 reports");
    check(&["--benchmark", "print", "--branch", "main", "-n", "5"], "(1 series of 5 reports");
    check(&["--measure", "latency", "--since", "2026-11-22T20:04"], "(4 series of 3 reports");
    let fails = |args: &[&str], code, expected: &str| {
        place
            .wingbeat(&[&["plot", "-o", "no.svg"], args].concat())
            .ended_with(code)
            .tells(expected);
    };
    fails(
        &["--benchmark", "x*"],
        1,
        "no benchmark of parser matches \"x*\"; it has parse/small, print",
    );
    fails(&["--measure", "throughput"], 1, "there is no measure throughput");
    fails(&["--window", "soon"], 2, "such as 30d or 12h");
    let is_past = OffsetDateTime::now_utc().unix_timestamp() > 1_795_298_672 + 86_400 * 2;
    if is_past {
        fails(&["--window", "1m"], 1, "nothing to draw");
    }
    fails(&["--since", "2100-01-01"], 1, "nothing to draw");
    assert!(!place.folder.path().join("no.svg").exists());
}
