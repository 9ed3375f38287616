//! The Firefox Profiler's document, read by its documented fields.

use std::fmt::Write as _;
use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::Value;
use wingbeat_profiler::export::Format;
use wingbeat_profiler::model::Profile;

use crate::golden;
use crate::small::{export, small};

pub(crate) fn document(profile: &Profile) -> Value {
    serde_json::from_slice(&export(profile, Format::Firefox { gzip: false })).unwrap()
}

fn column<'a>(table: &'a Value, name: &str) -> &'a Vec<Value> {
    let column = table[name].as_array().unwrap_or_else(|| panic!("no column {name}"));
    assert_eq!(column.len() as u64, table["length"].as_u64().unwrap(), "length of {name}");
    column
}

fn entry<'a>(table: &'a Value, name: &str, row: &Value) -> &'a Value {
    &column(table, name)[row.as_u64().unwrap() as usize]
}

/// Sum of the weights of all samples; checks every index of every table.
pub(crate) fn total(document: &Value) -> i64 {
    let threads = document["threads"].as_array().unwrap();
    threads
        .iter()
        .map(|thread| {
            for stack in column(&thread["samples"], "stack") {
                stack_text(document, thread, stack);
            }
            let weights = column(&thread["samples"], "weight");
            weights.iter().map(|weight| weight.as_i64().unwrap()).sum::<i64>()
        })
        .sum()
}

/// All markers as text, by thread: `thread start..end name (category) where: stack`.
pub(crate) fn markers(document: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for thread in document["threads"].as_array().unwrap() {
        let strings = thread["stringArray"].as_array().unwrap();
        let string = |index: &Value| strings[index.as_u64().unwrap() as usize].as_str().unwrap();
        let markers = &thread["markers"];
        for (row, data) in column(markers, "data").iter().enumerate() {
            let category = column(markers, "category")[row].as_u64().unwrap() as usize;
            texts.push(format!(
                "{} {}..{} {} ({}) {}: {}",
                thread["tid"].as_str().unwrap(),
                column(markers, "startTime")[row],
                column(markers, "endTime")[row],
                string(&column(markers, "name")[row]),
                document["meta"]["categories"][category]["name"].as_str().unwrap(),
                string(&data["where"]),
                stack_text(document, thread, &data["cause"]["stack"]),
            ));
        }
    }
    texts
}

/// A stack as text, outermost function first: `name(depth)file:line@library`.
fn stack_text(document: &Value, thread: &Value, stack: &Value) -> String {
    let strings = thread["stringArray"].as_array().unwrap();
    let string = |index: &Value| strings[index.as_u64().unwrap() as usize].as_str().unwrap();
    let mut frames = Vec::new();
    let mut stack = stack;
    while !stack.is_null() {
        let frame = entry(&thread["stackTable"], "frame", stack);
        let function = entry(&thread["frameTable"], "func", frame);
        let mut text = string(entry(&thread["funcTable"], "name", function)).to_owned();
        let depth = entry(&thread["frameTable"], "inlineDepth", frame).as_u64().unwrap();
        if depth > 0 {
            text += &format!("({depth})");
        }
        let file = entry(&thread["funcTable"], "fileName", function);
        if !file.is_null() {
            let line = entry(&thread["frameTable"], "line", frame);
            text += &format!(" {}:{line}", string(file));
        }
        let resource = entry(&thread["funcTable"], "resource", function);
        if resource.as_i64() != Some(-1) {
            let library = entry(&thread["resourceTable"], "lib", resource);
            let library = &document["libs"][library.as_u64().unwrap() as usize];
            text += &format!(" @{}", library["name"].as_str().unwrap());
        }
        let category = entry(&thread["frameTable"], "category", frame).as_u64().unwrap();
        let category = &document["meta"]["categories"][category as usize]["name"];
        text += &format!(" {}", category.as_str().unwrap());
        frames.push(text);
        stack = entry(&thread["stackTable"], "prefix", stack);
    }
    frames.reverse();
    frames.join("; ")
}

/// All threads and their samples as text.
fn threads(document: &Value) -> String {
    const FIELDS: [&str; 7] = [
        "tid",
        "name",
        "pid",
        "processName",
        "registerTime",
        "unregisterTime",
        "processShutdownTime",
    ];
    let mut text = String::new();
    for thread in document["threads"].as_array().unwrap() {
        let fields = FIELDS.map(|name| format!("{name} {}", thread[name]));
        let _ = writeln!(text, "{}", fields.join(", "));
        let (samples, mut time_ms) = (&thread["samples"], 0.0);
        for (row, stack) in column(samples, "stack").iter().enumerate() {
            let at = |name| &column(samples, name)[row];
            time_ms += at("timeDeltas").as_f64().unwrap();
            let (cpu_us, weight) = (at("threadCPUDelta"), at("weight"));
            let stack = stack_text(document, thread, stack);
            let _ = writeln!(text, "  {time_ms} ms, {cpu_us} µs, weight {weight}: {stack}");
        }
    }
    text
}

#[test]
fn matches_the_golden_files() {
    let mut document = document(&small());
    golden::check("small.firefox.txt", &threads(&document));
    // The tables of one thread show the form of all.
    document["threads"].as_array_mut().unwrap().truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    golden::check("small.firefox.json", &(text + "\n"));
}

#[test]
fn gzip_holds_the_same_document() {
    let packed = export(&small(), Format::Firefox { gzip: true });
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, export(&small(), Format::Firefox { gzip: false }));
}
