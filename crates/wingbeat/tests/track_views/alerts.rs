//! `wingbeat alerts`.

use crate::support::{Place, alert, stderr, stdout};

#[test]
fn listed_dismissed_and_back() {
    let place = Place::with_history();
    let list = |args: &[&str]| stdout(&place.wingbeat(&[&["alerts"], args].concat()).success());
    let text = list(&[]);
    assert!(text.contains("parse/small  latency  1.308 µs  above 1.050 µs  +30.3 %"), "{text}");
    let settle = |verb: &str, args: &[&str], expected: &str| {
        let assert = place.wingbeat(&[&["alerts", verb, "0000beef"], args].concat()).success();
        assert!(stderr(&assert).starts_with(expected), "{}", stderr(&assert));
    };
    settle(
        "dismiss",
        &["-m", "known, #12"],
        "dismissed: 0000beef 2026-11-22 12:04 main: parse/small",
    );
    assert_eq!(list(&[]), "");
    let all = list(&["--all"]);
    assert!(all.contains("dismissed (known, #12)"), "{all}");
    settle("silence", &[], "silenced: 0000beef");
    assert!(list(&["--all"]).contains("silenced"));
    settle("activate", &[], "active: 0000beef");
    assert!(list(&[]).contains("0000beef"));
}

#[test]
fn one_wrong_name_changes_nothing() {
    let place = Place::with_history();
    let assert = place.wingbeat(&["alerts", "dismiss", "beef", "0000"]).code(1);
    assert!(stderr(&assert).contains("no alert begins or ends with 0000"), "{}", stderr(&assert));
    assert!(stdout(&place.wingbeat(&["alerts"]).success()).contains("0000beef"));
    place.wingbeat(&["alerts", "dismiss"]).code(2);
}

#[test]
fn filters_and_json() {
    let place = Place::with_history();
    let check = |args: &[&str], expected: usize| {
        let args = [&["alerts", "--format", "json"], args].concat();
        let text = stdout(&place.wingbeat(&args).success());
        let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(list.as_array().map(Vec::len), Some(expected), "{args:?}");
        list
    };
    check(&["--branch", "feature/fast"], 0);
    let list = check(&["--branch", "main", "--testbed", "ci-runner"], 1);
    assert_eq!(list[0]["uuid"], alert().to_string());
    assert_eq!(list[0]["status"], "active");
    assert_eq!(list[0]["boundary"]["upper_limit"], 1050.0);
}
