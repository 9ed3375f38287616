//! The rules of real files, compared with what `readelf --debug-dump=frames-interp` says of them.

use std::{collections::HashMap, fs::File, process::Command};

use super::{Base, Image, UnwindRow};

/// Addresses compared per file.
const ADDRESSES: usize = 2_000;

/// A row of readelf's table: it holds from `start` up to `end`.
#[derive(Debug)]
struct Told {
    start: u64,
    end: u64,
    row: UnwindRow,
}

#[test]
fn rows_are_those_of_readelf() {
    if Command::new("readelf").arg("--version").output().is_err() {
        eprintln!("skipped: there is no readelf (package binutils)");
        return;
    }
    let mut files = 0;
    for mapping in crate::proc::executable_mappings(std::process::id()) {
        if ["libc.so", "ld-linux", "libgcc_s"].iter().any(|name| mapping.path.contains(name)) {
            compare(&mapping.path);
            files += 1;
        }
    }
    // A test program that is linked statically has none of them.
    assert!(files > 0 || cfg!(target_feature = "crt-static"), "nothing to compare");
}

fn compare(path: &str) {
    let output = Command::new("readelf").args(["--debug-dump=frames-interp", path]).output();
    let told = parse(&String::from_utf8_lossy(&output.expect("readelf").stdout));
    assert!(told.len() > 100, "{path}: readelf tells only {} rows", told.len());
    let image = Image::read(&File::open(path).expect("open")).expect("ELF");
    let mut differing = Vec::new();
    // The first and the last address of every so many rows.
    for told in told.iter().step_by((told.len() * 2).div_ceil(ADDRESSES)) {
        for address in [told.start, told.end - 1] {
            let found = image.row(address);
            if found != Some(told.row) {
                differing.push(format!("{address:#x}: found {found:?}, told {:?}", told.row));
            }
        }
    }
    assert!(differing.is_empty(), "{path}:\n{}", differing.join("\n"));
}

/// Reads readelf's text: entries apart by empty lines, each a head, then a table whose first line
/// names its columns. An entry for code inherits from the common one that it names.
fn parse(text: &str) -> Vec<Told> {
    let mut common: HashMap<&str, UnwindRow> = HashMap::new();
    let mut all = Vec::new();
    for entry in text.split("\n\n") {
        let mut lines = entry
            .trim()
            .lines()
            .skip_while(|line| !line.contains(" CIE ") && !line.contains(" FDE "));
        let Some(head) = lines.next() else { continue };
        let rows = table(lines);
        let Some((_, code)) = head.split_once(" FDE cie=") else {
            let row = rows.first().map_or(UnwindRow::Other, |(_, row)| *row);
            common.insert(head.split(' ').next().unwrap_or_default(), row);
            continue;
        };
        let (cie, range) = code.split_once(" pc=").expect("a range");
        let (start, end) = range.trim().split_once("..").expect("start..end");
        let (start, end) = (hex(start), hex(end));
        let first = (start, common.get(cie).copied().unwrap_or(UnwindRow::Other));
        let rows = if rows.is_empty() { vec![first] } else { rows };
        let ends = rows.iter().skip(1).map(|(next, _)| *next).chain([end]);
        let told = rows.iter().zip(ends).map(|(&(start, row), end)| Told { start, end, row });
        all.extend(told.filter(|told| told.start < told.end));
    }
    all
}

/// `LOC CFA rbx rbp ra`, then a line per row.
fn table<'a>(mut lines: impl Iterator<Item = &'a str>) -> Vec<(u64, UnwindRow)> {
    let columns: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let of_line = |line: &str| {
        let values: Vec<&str> = line.split_whitespace().collect();
        let value = |name| {
            let column = columns.iter().position(|column| *column == name)?;
            values.get(column).copied()
        };
        (hex(values[0]), row(value("CFA"), value("ra"), value("rbp")))
    };
    lines.filter(|line| !line.trim().is_empty()).map(of_line).collect()
}

/// `rsp+8`, `c-8`, `u`: as gdb writes rules.
fn row(cfa: Option<&str>, return_address: Option<&str>, bp: Option<&str>) -> UnwindRow {
    let at = |rule: &str| rule.strip_prefix('c').and_then(|offset| offset.parse::<i64>().ok());
    let (base, cfa_offset) = match cfa.and_then(|rule| rule.split_at_checked(3)) {
        Some(("rsp", offset)) => (Base::Sp, offset),
        Some(("rbp", offset)) => (Base::Bp, offset),
        _ => return UnwindRow::Other,
    };
    let Ok(cfa_offset) = cfa_offset.parse() else { return UnwindRow::Other };
    let return_offset = match return_address {
        Some("u") => return UnwindRow::End,
        Some(rule) => match at(rule) {
            Some(offset) => offset,
            None => return UnwindRow::Other,
        },
        None => return UnwindRow::Other,
    };
    let bp_offset = match bp {
        None | Some("u" | "s") => None,
        Some(rule) => match at(rule) {
            Some(offset) => Some(offset),
            None => return UnwindRow::Other,
        },
    };
    UnwindRow::Frame { base, cfa_offset, return_offset, bp_offset }
}

fn hex(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).expect("hexadecimal digits")
}
