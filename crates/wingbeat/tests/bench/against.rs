//! `wingbeat bench --against`.

use serde_json::Value;

use crate::support::{Folder, TURNS, executed, looping, turn};

/// Compares `new.o` with `old.o`, and gives the JSON of it.
fn compared(folder: &Folder, code: i32) -> Value {
    let arguments = ["bench", "new.o", "--against", "old.o", "--time", "8s", "--allow-stats"];
    let more = ["--err", "--threshold", "20", "--format", "json"];
    folder.run(&[&arguments[..], &more].concat()).ended_with(code).json()
}

fn measure<'a>(report: &'a Value, name: &str) -> &'a Value {
    let measures = report["cases"][0]["measures"].as_array();
    let found = measures.and_then(|all| all.iter().find(|it| it["measure"] == name));
    found.unwrap_or_else(|| panic!("no {name} in {report}"))
}

#[test]
fn an_object_is_no_worse_than_itself() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    folder.file("old.o", looping(TURNS));
    folder.file("new.o", looping(TURNS));
    let report = compared(&folder, 0);
    let measures = report["cases"][0]["measures"].as_array().expect("measures");
    assert!(measures.iter().all(|it| it["is_beyond_threshold"] == false), "{report}");
    println!("{report}");
}

#[test]
fn three_times_the_loop_is_worse() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    folder.file("old.o", looping(TURNS));
    folder.file("new.o", looping(3 * TURNS));
    let report = compared(&folder, 1);
    println!("{report} {}", executed(TURNS));
    measure(&report, "x");
}
