//! `wingbeat alerts`.

use super::support::{Place, alert};

#[test]
fn listed_dismissed_and_back() {
    let place = Place::with_history();
    let list = |args: &[&str]| place.wingbeat(&[&["alerts"], args].concat()).ended_with(0).stdout;
    let text = list(&[]);
    assert!(text.contains("parse/small  latency  1.308 µs  above 1.050 µs  +30.3 %"), "{text}");
    let settle = |verb: &str, args: &[&str], expected: &str| {
        let ran = place.wingbeat(&[&["alerts", verb, "0000beef"], args].concat()).ended_with(0);
        assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
    };
    settle(
        "dismiss",
        &["-m", "known, #12"],
        "dismissed: 0000beef 2026-11-22 12:04 main: parse/small",
    );
    assert_eq!(list(&[]), "");
    let all = list(&["--all"]);
    assert!(all.contains("dismissed (known, #12)"), "{all}");
    settle("dismiss", &[], "dismissed: 0000beef");
    assert!(list(&["--all"]).contains("dismissed (known, #12)"), "the reason stays");
    settle("dismiss", &["-m", "mended"], "dismissed: 0000beef");
    assert!(list(&["--all"]).contains("dismissed (mended)"));
    settle("silence", &[], "silenced: 0000beef");
    assert!(list(&["--all"]).contains("silenced"));
    settle("activate", &[], "active: 0000beef");
    assert!(list(&[]).contains("0000beef"));
}

#[test]
fn one_wrong_name_changes_nothing() {
    let place = Place::with_history();
    let ran = place.wingbeat(&["alerts", "dismiss", "beef", "0000"]).ended_with(1);
    ran.tells("no alert begins or ends with 0000");
    place.wingbeat(&["alerts"]).ended_with(0).prints("0000beef");
    place.wingbeat(&["alerts", "dismiss"]).ended_with(2);
}

#[test]
fn filters_and_json() {
    let place = Place::with_history();
    let check = |args: &[&str], expected: usize| {
        let args = [&["alerts", "--format", "json"], args].concat();
        let list = place.wingbeat(&args).ended_with(0).json();
        assert_eq!(list["schema_version"], 1);
        assert_eq!(list["alerts"].as_array().map(Vec::len), Some(expected), "{args:?}");
        list["alerts"].clone()
    };
    check(&["--branch", "feature/fast"], 0);
    let list = check(&["--branch", "main", "--testbed", "ci-runner"], 1);
    assert_eq!(list[0]["uuid"], alert().to_string());
    assert_eq!(list[0]["status"], "active");
    assert_eq!(list[0]["boundary"]["upper_limit"], 1050.0);
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
