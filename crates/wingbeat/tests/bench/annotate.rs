//! `wingbeat annotate`.

use wingbeat_bpf_testing::object::typed::SOURCE;

use crate::support::{LOOP_LINE, NEVER_LINE, PASS, PROGRAM, TURNS, executed, turn_with_object};

#[test]
fn lines_and_blocks_add_up() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    let found = folder.run(&["annotate", "looping.o", "--json"]).ended_with(0).json();
    assert_eq!(found["instructions"], executed(TURNS));
    assert_eq!(found["inputs"], serde_json::json!([["default", PASS]]));
    let function = &found["functions"][0];
    assert_eq!((&function["name"], &function["calls"]), (&PROGRAM.into(), &1.into()));
    let lines = function["lines"].as_array().expect("lines");
    let sum: u64 = lines.iter().filter_map(|line| line["instructions"].as_u64()).sum();
    assert_eq!(sum, executed(TURNS));
    let executions = |number: u32| {
        let line = lines.iter().find(|line| line["line"] == number);
        line.map(|line| line["executions"].as_u64().expect("a number"))
    };
    assert_eq!(executions(LOOP_LINE), Some(u64::from(TURNS)));
    assert_eq!(executions(NEVER_LINE), Some(0));
    let blocks = function["blocks"].as_array().expect("blocks");
    let of_block = |block: &serde_json::Value| {
        let bound = |end: &str| block["insns"][end].as_u64().expect("an index");
        (bound("end") - bound("start")) * block["executions"].as_u64().expect("a number")
    };
    assert_eq!(blocks.iter().map(of_block).sum::<u64>(), executed(TURNS));
    assert_eq!(blocks.iter().filter(|block| block["executions"] == 0).count(), 1);

    let text = folder.run(&["annotate", "looping.o", PROGRAM, "--bytecode"]).ended_with(0).stdout;
    let never = text.lines().find(|line| line.contains("verdict = XDP_ABORTED;"));
    assert!(never.is_some_and(|line| line.contains("never")), "{text}");
    assert!(text.contains("r6 += -1"), "{text}");
}

#[test]
fn the_files_that_it_writes() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    let files = ["-o", "x.lcov", "-o", "x.svg", "-o", "x.folded"];
    let found = folder.run(&[&["annotate", "looping.o"], &files[..]].concat()).ended_with(0);
    assert!(found.stdout.is_empty(), "{}", found.stdout);

    let coverage = folder.text("x.lcov");
    let has = |line: String| assert!(coverage.lines().any(|it| it == line), "{line}: {coverage}");
    has(format!("SF:{SOURCE}"));
    has(format!("FNDA:1,{PROGRAM}"));
    has(format!("DA:{LOOP_LINE},{TURNS}"));
    has(format!("DA:{NEVER_LINE},0"));
    assert!(coverage.ends_with("end_of_record\n"), "{coverage}");

    let stacks = folder.text("x.folded");
    let counts = stacks.lines().map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert_eq!(counts.sum::<Option<u64>>(), Some(executed(TURNS)), "{stacks}");
    assert!(stacks.lines().all(|line| line.starts_with(PROGRAM)), "{stacks}");

    let picture = folder.text("x.svg");
    assert!(picture.contains("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
    assert!(picture.contains(PROGRAM), "{picture}");
    // The same next to a format that cannot be guessed.
    folder.run(&["annotate", "looping.o", "-o", "x.doc"]).ended_with(2);
}
