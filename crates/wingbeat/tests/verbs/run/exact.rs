//! `--profile` with counting tools: their profiles are stored with the report, and an alert names the line.

use std::{fs, path::Path};

use wingbeat_bpf_bench::live::check_rights;
use wingbeat_track::{model::ProfileKind, store::Store};

use crate::{
    ran::{Ran, turn},
    repository::{Repository, WINGBEAT, instructions},
};

/// One more instruction is an alert, given one earlier report.
const FLAGS: &str = "--project p --err --threshold-measure instructions --threshold-test percentage \
                     --threshold-upper-boundary 0 --profile";

fn run(repository: &Repository, flags: &[&str], line: &str) -> Ran {
    Ran::of(repository.wingbeat(&["run"]).args(FLAGS.split(' ')).args(flags).arg(line))
}

/// Source of the loop, as in the object's debug information.
const SOURCE: &str = "examples/fun-xdp/fun-xdp-common/src/lib.rs";

const LOOP: &str = "while current < octet {";

/// The object of `fun-xdp` with one of its versions under the name `fun_xdp_vX`: a program that changed.
fn object(version: &str) -> Vec<u8> {
    let (name, other) = (format!("fun_xdp_{version}"), "fun_xdp_vX");
    let mut object = fun_xdp::OBJECT.to_vec();
    let mut at = 0;
    while let Some(found) = object[at..].windows(name.len()).position(|it| it == name.as_bytes()) {
        at += found;
        object[at..at + name.len()].copy_from_slice(other.as_bytes());
    }
    object
}

/// Measures a version of the program, by a script that must pass the variable on.
fn measure(repository: &Repository, version: &str, flags: &[&str]) -> Ran {
    fs::write(repository.temporary().join("xdp.o"), object(version)).expect("written");
    let line = format!(
        "{WINGBEAT} bench ../temporary/xdp.o vX --samples 1 --allow-stats --format bmf 2> /dev/null"
    );
    run(repository, flags, &line)
}

#[test]
fn an_alert_names_the_loop_and_its_count() {
    let Some(_turn) = turn(check_rights()) else { return };
    let repository = Repository::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SOURCE);
    let source = fs::read_to_string(source).expect("the source");
    let number = 1 + source.lines().position(|line| line.trim() == LOOP).expect("the loop");
    repository.write(SOURCE, source);
    repository.commit_all();
    let before = measure(&repository, "v2", &[]).ended_with(0);
    assert!(!before.stderr.contains("profiling"), "it counts, so it need not run again: {before}");
    repository.commit();
    let after = measure(&repository, "v3", &[]).ended_with(1);

    let cause = "fun_xdp_vX instructions: fun_xdp_vX (src/lib.rs:";
    let counts = format!("line {number}: 0 before, 85 now");
    let quote = format!("line {number}: {LOOP}");
    let check = |told: &str| {
        let one_line = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let amount = format!("{cause}{number}) adds 105 of 105 instructions; {counts}");
        assert!(one_line.contains(&amount) && told.contains(&quote), "{told}");
    };
    check(&after.stdout);
    let last = repository.reports().last().expect("a report").uuid.to_string();
    check(&Ran::of(&mut repository.wingbeat(&["log", &last])).stdout);
    let json = Ran::of(&mut repository.wingbeat(&["log", &last, "--format", "json"])).json();
    let quoted = &json["explained"][0]["excerpts"][0]["after"];
    assert_eq!((&quoted["line"], &quoted["text"]), (&number.into(), &LOOP.into()), "{json}");

    let store = Store::open_existing(repository.store_path()).expect("a store");
    for report in repository.reports() {
        let profiles = store.profiles(report.uuid).expect("a list");
        let [profile] = &profiles[..] else { panic!("one profile: {profiles:?}") };
        assert_eq!(profile.kind, ProfileKind::Instructions);
        assert_eq!(profile.benchmark.as_ref().map(|name| name.as_str()), Some("fun_xdp_vX"));
    }
    // A comment on a pull request has both, too.
    let markdown = measure(&repository, "v3", &["--dry-run", "--format", "markdown"]).stdout;
    assert!(!markdown.contains("Cause"), "nothing was stored that could be explained: {markdown}");
    let markdown = measure(&repository, "v3", &["--format", "markdown"]).stdout;
    let quote = format!("line {number}: <code>{}</code>", LOOP.replace('<', "&lt;"));
    assert!(markdown.contains(&quote), "{markdown}");
}

/// Output of a Gungraun benchmark, with this many instructions in line 2 of `src/lib.rs`.
fn gungraun(count: u64) -> String {
    let total = count + 7;
    format!(
        "folder=target/gungraun/package/benches/group/sort.short; mkdir -p $folder
printf 'positions: line\nevents: Ir\nob=bench\nfl=/build/src/lib.rs\nfn=package::sort\n1 7\n2 {count}\n' \
    > $folder/callgrind.sort.short.out
cp $folder/callgrind.sort.short.out $folder/callgrind.sort.short.out.old
printf 'benches::group::sort short:3\n  Instructions: {total}|N/A (*********)\n'"
    )
}

#[test]
fn an_alert_of_gungraun_names_the_line() {
    let repository = Repository::new();
    let measure = |text: &str, count: u64, code: i32| {
        repository.write("src/lib.rs", text);
        repository.commit_all();
        run(&repository, &[], &gungraun(count)).ended_with(code)
    };
    measure("fn sort() {\n    quick();\n}\n", 93, 0);
    let slow = measure("fn sort() {\n    bubble();\n}\n", 193, 1);
    let one_line = slow.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "sort short:3 instructions: package::sort (src/lib.rs:2) adds 100 of 100 instructions; line 2: 93 before, 193 now",
        "line 2 before: quick(); line 2 now: bubble();",
    ] {
        assert!(one_line.contains(expected), "{expected}: {slow}");
    }
    // Ignores files of an earlier run.
    let old = "printf 'benches::group::sort short:3\n  Instructions: 9|N/A (*********)\n'";
    // Nor does one count that is something else.
    let other = format!("echo x > $WINGBEAT_PROFILES/a.pb.gz; {}", instructions(1));
    for (line, expected) in [
        (old, "no instructions profile: the command left none"),
        (&other, "no instructions profile of a: the new profile"),
    ] {
        let flags = ["--project", "p", "--profile=instructions", line];
        repository.run(&flags).ended_with(0).prints(expected);
    }
}
