//! `wingbeat top --once`.

use std::{thread, time::Duration};

use crate::live::{
    network::Network,
    support::{
        Dropper, check_attached, check_statistics, program_in, result, run, started, statistics,
        turn, wingbeat,
    },
};

#[test]
fn it_finds_programs_with_their_owners_and_counts_them() {
    let Some(_turn) = turn() else { return };
    let before = statistics();
    let network = Network::enter();
    let dropper = Dropper::attached("drop_every_packet");
    let child = started(wingbeat(&["top", "--once", "-d", "2s", "--format", "json"]));
    let pid = child.id();
    // In the middle of its time.
    thread::sleep(Duration::from_secs(1));
    network.send(700);
    let found = result(child).ended_with(0);
    check_statistics(&before, pid);
    let report = found.json();
    assert_eq!(report["schema_version"], 2);
    assert!(report["empty_run_ns"].as_f64().is_some_and(|ns| ns > 1.0), "{report}");
    let program = program_in(&report, dropper.id);
    assert_eq!(program["name"], "drop_every_packet");
    assert_eq!(program["runs"], 700, "{program}");
    assert_eq!(program["owners"][0]["pid"], std::process::id());
    check_attached(&program);
    assert!(program["cpu_share"].as_f64().is_some_and(|share| share > 0.0 && share < 0.5));
}

#[test]
fn filters_orders_and_forms() {
    let Some(_turn) = turn() else { return };
    let droppers = ["sieve_b", "sieve_a", "other"].map(Dropper::load);
    let top = |more: &[&str]| {
        run(wingbeat(&[&["top", "--once", "-d", "100ms"], more].concat())).ended_with(0)
    };
    let names = |more: &[&str]| -> Vec<String> {
        let report = top(&[&["--format", "json", "--filter", "SIEVE"], more].concat()).json();
        let programs = report["programs"].as_array().expect("programs").iter();
        programs.map(|program| program["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&["--sort", "name"]), ["sieve_a", "sieve_b"]);
    assert_eq!(names(&["--sort", "id"]), ["sieve_b", "sieve_a"]);
    let human = top(&[]).stdout;
    assert!(
        droppers.iter().all(|dropper| human.contains(&format!("{}  xdp", dropper.id))),
        "{human}"
    );
    let nobody = top(&["--filter", "nobody has this"]).stdout;
    assert!(nobody.starts_with("no program has \"nobody has this\" in its name,"), "{nobody}");
    let csv = top(&["--format", "csv", "--filter", "other"]).stdout;
    let rows: Vec<_> = csv.lines().collect();
    assert!(rows.len() == 2 && rows[0].starts_with("id,type,name,"), "{csv}");
    assert!(rows[1].contains(",xdp,other,") && rows[1].contains(&std::process::id().to_string()));
}

#[test]
fn wrong_usage() {
    let Some(_turn) = turn() else { return };
    let check = |arguments: &[&str], code, expected: &str| {
        assert_eq!(run(wingbeat(arguments)).ended_with(code).tells(expected).stdout, "");
    };
    check(&["top"], 1, "stdout is not a terminal; `wingbeat top --once` prints one table and ends");
    check(&["top", "--format", "json"], 2, "--once");
    check(
        &["top", "--once", "--sort", "colour"],
        2,
        "the columns are id, type, name, owners, runs, time, cpu",
    );
    check(&["top", "-d", "1ms"], 2, "at least 50 ms");
    check(&["top", "--once", "--format", "xml"], 2, "possible values: human, json, bmf, csv");
}

#[test]
fn somebody_who_has_read_enough_is_no_error() {
    let Some(_turn) = turn() else { return };
    let mut child = started(wingbeat(&["top", "--once", "-d", "300ms"]));
    drop(child.stdout.take());
    let found = result(child).ended_with(0);
    assert!(!found.stderr.contains("error"), "{}", found.stderr);
}
