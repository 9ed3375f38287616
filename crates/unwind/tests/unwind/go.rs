//! Go's function table in real programs, with and without symbols: compares names and lines at all functions with
//! `go tool`, and rules with call frame information of the same code.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use wingbeat_unwind::{Cfa, GoTable, Image, Rule};

/// Links a program with C's linker.
const EXTERNAL: &str = "-linkmode=external";

/// Builds the program; `None` without Go. `mode` is that of `go build`.
fn build(folder: &Path, mode: &str, linker: &str) -> Option<PathBuf> {
    let program = folder.join(if linker.contains("-s") { "bare" } else { "plain" });
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unwind/go/program.go");
    let mut go = Command::new("go");
    // Without C, so that all code is Go's, unless C's linker is used.
    let has_c = if linker.contains(EXTERNAL) { "1" } else { "0" };
    go.env("CGO_ENABLED", has_c).env("GOFLAGS", "").arg("build");
    go.arg(format!("-buildmode={mode}")).arg(format!("-ldflags={linker}")).arg("-o").arg(&program);
    let Ok(output) = go.arg(source).output() else {
        eprintln!("skipped: there is no go (package golang-go)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Output of `go tool` for some input.
fn tool(name: &str, program: &Path, input: String) -> String {
    let mut command = Command::new("go");
    command.args(["tool", name]).arg(program);
    let mut tool =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("go is there");
    let mut stdin = tool.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = tool.wait_with_output().expect("output");
    writer.join().expect("no panic").expect("input");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A place like `go tool addr2line` prints it, in two lines. Symbols of assembly functions include their calling
/// convention and those of generic functions their types, unlike the table, and have dots for `·`.
fn printed(function: &str, source: &str) -> String {
    let function = function.trim_end_matches(".abi0").trim_end_matches(".abiinternal");
    let types = function.find('[').zip(function.rfind(']'));
    let function = match types {
        Some((start, end)) => format!("{}[...{}", &function[..start], &function[end..]),
        None => function.to_owned(),
    };
    let function = function.replace('·', ".");
    // After the end of a function, and at linker marks.
    let source = if source.starts_with(":-") { "?:0" } else { source };
    format!("{function} {source}")
}

/// Several addresses of each Go function, with its name, from the symbols of a program.
fn addresses(program: &Path) -> Vec<(u64, String)> {
    let symbols = tool("nm", program, String::new());
    let mut starts: Vec<(u64, &str)> = symbols
        .lines()
        .filter_map(|line| line.trim_start().split_once([' ']))
        .filter_map(|(address, rest)| {
            let name = rest.strip_prefix("T ").or(rest.strip_prefix("t "))?;
            Some((u64::from_str_radix(address, 16).ok()?, name))
        })
        .collect();
    starts.sort_unstable();
    starts.dedup_by_key(|(start, _)| *start);
    // Linker marks, not functions.
    let is_mark = |name: &str| {
        ["runtime.text", "runtime.etext"].contains(&name) || name.starts_with("go:text")
    };
    let mut all: Vec<(u64, String)> = starts
        .windows(2)
        .filter(|pair| !is_mark(pair[0].1))
        .flat_map(|pair| {
            let last = pair[1].0 - 1;
            [0, 1, 7, 30, 100, 500].map(|more| ((pair[0].0 + more).min(last), pair[0].1.to_owned()))
        })
        .collect();
    all.dedup();
    all
}

fn places(bytes: &[u8], addresses: &[u64]) -> Vec<String> {
    let table = GoTable::find(bytes).expect("a table");
    let place = |&address: &u64| match table.location(address) {
        Some(place) => {
            let source = place.source.map(|(file, line)| format!("{file}:{line}"));
            printed(&place.function, &source.unwrap_or_else(|| "?:0".into()))
        }
        None => printed("?", "?:0"),
    };
    addresses.iter().map(place).collect()
}

/// Results for addresses in the stripped build of the program, found with and without section headers.
fn stripped(folder: &Path, mode: &str, linker: &str, addresses: &[u64]) -> Vec<String> {
    let program = build(folder, mode, &format!("-s -w {linker}")).expect("as before");
    let mut bytes = fs::read(program).expect("file");
    if linker == EXTERNAL {
        return places(&bytes, addresses);
    }
    let found = places(&bytes, addresses);
    bytes[0x28..0x30].fill(0);
    bytes[0x3a..0x40].fill(0);
    assert_eq!(places(&bytes, addresses), found);
    found
}

fn compare(found: &[String], expected: &[String]) {
    assert!(found.len() == expected.len() && found.len() > 10_000, "{}", found.len());
    let pairs = found.iter().zip(expected);
    let differing: Vec<_> = pairs.filter(|(found, expected)| found != expected).collect();
    let first = &differing[..differing.len().min(20)];
    assert!(differing.is_empty(), "{} of {}: {first:#?}", differing.len(), found.len());
}

#[test]
fn names_and_lines_are_those_of_go() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(plain) = build(folder.path(), "exe", "") else { return };
    let addresses: Vec<u64> = addresses(&plain).into_iter().map(|(address, _)| address).collect();
    let input = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let output = tool("addr2line", &plain, input);
    let lines: Vec<&str> = output.lines().collect();
    let line = |pair: &[&str]| printed(pair[0], pair[pair.len() - 1]);
    let expected: Vec<String> = lines.chunks(2).map(line).collect();
    compare(&stripped(folder.path(), "exe", "", &addresses), &expected);
}

/// Go's addr2line cannot read such programs.
#[test]
fn names_in_position_independent_code_are_those_of_its_symbols() {
    let folder = tempfile::tempdir().expect("folder");
    for linker in ["", EXTERNAL] {
        let Some(plain) = build(folder.path(), "pie", linker) else { return };
        let mut by_symbols = addresses(&plain);
        let has_package = |name: &str| name.contains('.') && !name.ends_with(".cold");
        by_symbols.retain(|(_, name)| linker.is_empty() || has_package(name));
        let (addresses, names): (Vec<u64>, Vec<String>) = by_symbols.into_iter().unzip();
        let function = |text: &str| text.rsplit_once(' ').expect("two words").0.to_owned();
        let found = stripped(folder.path(), "pie", linker, &addresses);
        let found: Vec<String> = found.iter().map(|text| function(text)).collect();
        let expected: Vec<String> =
            names.iter().map(|name| function(&printed(name, "?:0"))).collect();
        compare(&found, &expected);
    }
}

/// The rules from call frame information equal those of Go's table, except where the latter is more precise.
#[test]
fn rules_are_those_of_the_call_frame_information() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let Some(plain) = build(folder.path(), "exe", "") else { return };
    let bytes = fs::read(&plain).expect("file");
    let image = Image::parse(&*bytes).expect("ELF");
    let (mut end, mut left, mut signal, mut compared) = (0, 0, 0, 0);
    let dwarf = Image::parse(&*without_table(bytes)).expect("ELF");
    image.rules(image.text(), |address, rule| {
        let expected = dwarf.rule_at(address);
        match rule.cfa {
            Cfa::End => end += 1,
            Cfa::OtherStack => left += 1,
            Cfa::Signal => signal += 1,
            // DWARF's ends one byte before each function does.
            _ => {
                compared += 1;
                let expected = Rule { fp: rule.fp, fp_words: rule.fp_words, ..expected };
                assert_eq!(rule, expected, "{address:#x}");
            }
        }
    });
    println!("{compared} rules are the same; {end} ends, {left} left along frame pointers");
    assert!(compared > 10_000 && signal == 1);
    assert!((5..10).contains(&end) && (5..30).contains(&left), "{end} ends, {left} left");
}

/// A small assembly program, which is a seed of the fuzz targets. Does not need Go.
#[test]
fn rules_of_two_functions() {
    let bytes = include_bytes!("../../../../fuzz/seeds/unwind_image/go");
    let table = GoTable::find(&bytes[..]).expect("a table");
    let start = table.range().expect("functions").start;
    let image = Image::parse(&bytes[..]).expect("ELF");
    assert_eq!(image.entries(), 2);
    let mut rules = Vec::new();
    image.rules(start..start + 12, |address, rule| rules.push((address - start, rule)));
    let rules: Vec<_> = rules.iter().map(|(at, rule)| format!("{at}: {rule:?}")).collect();
    let (plain, framed) = ("cfa=r7+8 ra=c-8", "cfa=r7+32 fp=c-16 ra=c-8");
    let expected = ["0: end".into(), format!("2: {plain}"), format!("6: {framed}")];
    assert_eq!(rules[..3], expected);
    assert_eq!(rules[3..], [format!("10: {plain}"), "11: gap".into()]);
    let mut bare = bytes.to_vec();
    bare[0x28..0x30].fill(0);
    bare[0x3a..0x40].fill(0);
    for bytes in [&bytes[..], &bare] {
        let table = GoTable::find(bytes).expect("a table");
        let place = table.location(start + 3).expect("a place");
        assert_eq!((&*place.function, place.source), ("main.b", Some(("b.go".into(), 3))));
    }
}

/// The same program with any byte changed, or truncated anywhere: rules stay in address order.
#[test]
fn damaged_programs() {
    let whole = include_bytes!("../../../../fuzz/seeds/unwind_image/go");
    let ask = |bytes: &[u8]| {
        if let Some(table) = GoTable::find(bytes) {
            let range = table.range().unwrap_or_default();
            let _ = (table.location(range.start), table.location(range.end.wrapping_sub(1)));
        }
        let Ok(image) = Image::parse(bytes) else { return };
        let mut last = None;
        image.rules(image.text(), |address, rule| {
            assert!(last.is_none_or(|(before, other)| before < address && other != rule));
            last = Some((address, rule));
        });
    };
    for at in 0..whole.len() {
        ask(&whole[..at]);
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.to_vec();
            bytes[at] = byte;
            ask(&bytes);
        }
    }
}

/// A program with another magic number in its table.
fn without_table(mut bytes: Vec<u8>) -> Vec<u8> {
    let is_magic =
        |mark: &[u8]| matches!(mark, [0xf0 | 0xf1 | 0xfa | 0xfb, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
    let places: Vec<usize> =
        (0..bytes.len() - 8).step_by(8).filter(|&at| is_magic(&bytes[at..at + 8])).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] = 0);
    bytes
}
