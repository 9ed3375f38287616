//! Compares all rules of real files with `readelf --debug-dump=frames-interp`.
//!
//! The files are those that this test uses itself. `WINGBEAT_UNWIND_FILES=/usr:/opt` adds all ELF files in these
//! folders.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use wingbeat_unwind::{
    Cfa, FramePointer, GoTable, Image, ImageError, ReturnAddress, Rule, Rules, Table,
};

/// The code files of this process.
fn mapped() -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let code = maps.lines().filter(|line| line.contains(" r-xp "));
    code.filter_map(|line| line.split_whitespace().nth(5).map(PathBuf::from))
        .filter(|path| path.is_absolute())
        .collect()
}

/// Adds the ELF files in a folder, without following links.
fn add_files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        let mut magic = [0; 4];
        if kind.is_dir() {
            add_files(&path, found);
        } else if kind.is_file()
            && fs::File::open(&path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
            && magic == *b"\x7fELF"
        {
            found.insert(path);
        }
    }
}

#[test]
fn every_rule_is_that_of_readelf() {
    if Command::new("readelf").arg("--version").output().is_err() {
        eprintln!("skipped: there is no readelf (package binutils)");
        return;
    }
    let mut files = mapped();
    for folder in std::env::var_os("WINGBEAT_UNWIND_FILES").iter().flat_map(std::env::split_paths) {
        add_files(&folder, &mut files);
    }
    let (mut compared, mut wrong, mut all) = (0, 0, Comparison::default());
    for path in files {
        // Object files, other architectures, and Go programs, which `go.rs` compares.
        let Ok(found) = compare(&path) else { continue };
        compared += 1;
        all.rows += found.rows;
        for (kind, count) in found.added {
            *all.added.entry(kind).or_default() += count;
        }
        all.unsupported += found.unsupported;
        all.table_bytes += found.table_bytes;
        all.frame_bytes += found.frame_bytes;
        if !found.differing.is_empty() {
            wrong += 1;
            println!("{}:\n{}", path.display(), found.differing.join("\n"));
        }
    }
    let Comparison { rows, unsupported, table_bytes, frame_bytes, added, .. } = all;
    println!("rules from code without rows, by kind: {added:?}");
    println!(
        "{compared} files with {rows} rows, {wrong} of them differ; {unsupported} unsupported"
    );
    println!("tables of {table_bytes} bytes from frames of {frame_bytes}");
    assert_eq!(wrong, 0);
    // For a few files the ratio may be any; for a whole machine it is not.
    assert!(compared < 1000 || table_bytes * 10 <= frame_bytes * 7, "the tables are too large");
    // glibc's `clone` and `clone3`, and the start of this program, and nothing else.
    if std::env::var_os("WINGBEAT_UNWIND_FILES").is_none() {
        let count = |kind| added.get(kind).copied().unwrap_or(0);
        assert!(count("clone") <= 2 && count("end") <= 2 && count("signal") == 0, "{added:?}");
        assert!(rows < 1000 || count("clone") > 0, "{added:?}");
    }
    // A statically linked test program has no libraries.
    assert!(rows > 1000 || cfg!(target_feature = "crt-static"), "nothing to compare");
}

/// The same file without section headers, as some packers produce it.
#[test]
fn program_headers_lead_to_the_same_rules() {
    let libc = mapped().into_iter().find(|path| path.to_string_lossy().contains("libc.so"));
    let Some(libc) = libc else {
        eprintln!("skipped: this program has no libc.so");
        return;
    };
    let whole = fs::read(libc).expect("file");
    let mut bare = whole.clone();
    // `e_shoff`, `e_shentsize`, `e_shnum` and `e_shstrndx` of a 64-bit ELF header.
    bare[0x28..0x30].fill(0);
    bare[0x3a..0x40].fill(0);
    let image = |bytes| Image::parse(bytes).expect("ELF");
    let (whole, bare) = (image(&*whole), image(&*bare));
    let mut gaps = 0;
    // Some rules derived from code need symbols and sections.
    let mut compare = |address, one: Rule, other: Rule| match one == Rule::GAP || other == Rule::GAP
    {
        true => gaps += usize::from(one != other),
        false => assert_eq!(one, other, "{address:#x}"),
    };
    whole.rules(whole.text(), |address, rule| compare(address, rule, bare.rule_at(address)));
    bare.rules(whole.text(), |address, rule| compare(address, whole.rule_at(address), rule));
    assert!(whole.entries() > 100 && whole.entries() == bare.entries());
    assert!(gaps <= 20, "{gaps} rules need section headers");
}

/// Maximum number of differences to keep.
const DIFFERING_MAX: usize = 10;

/// Result for a file.
#[derive(Debug, Default)]
struct Comparison {
    /// Number of readelf rows compared, each at its first and last address.
    rows: usize,
    /// The first differences.
    differing: Vec<String>,
    /// Rows that a walker does not support.
    unsupported: usize,
    table_bytes: usize,
    frame_bytes: usize,
    /// Rules starting where readelf has no row, by kind: those derived from code.
    added: BTreeMap<&'static str, usize>,
}

/// A row of readelf, valid from `start` to `end`. Its rules are in gdb's notation: `rsp+8`, `c-8`, `u`; empty if
/// the row has none.
#[derive(Debug, Clone, Default)]
struct Row<'a> {
    start: u64,
    end: u64,
    cfa: &'a str,
    fp: &'a str,
    sp: &'a str,
    ra: &'a str,
}

/// Compares all rows of a file.
fn compare(path: &Path) -> Result<Comparison, ImageError> {
    let bytes = fs::read(path).map_err(|_| ImageError::NotElf)?;
    let image = Image::parse(&*bytes)?;
    if GoTable::find(&*bytes).is_some() {
        return Err(ImageError::NoCode);
    }
    let output = Command::new("readelf").args(["--debug-dump=frames-interp"]).arg(path).output();
    let text = output.expect("readelf").stdout;
    let text = String::from_utf8_lossy(&text);
    let mut rules = Rules::new();
    let table = Table::whole(&image, &mut rules);
    let mut comparison = Comparison {
        table_bytes: table.bytes(),
        frame_bytes: image.bytes(),
        ..Comparison::default()
    };
    let rows = rows(&text);
    for (index, row) in rows.iter().enumerate() {
        // Code claimed by two entries belongs to the later one.
        let end = rows.get(index + 1).map_or(row.end, |next| row.end.min(next.start));
        if !image.text().contains(&row.start) || row.start >= end {
            continue;
        }
        comparison.rows += 1;
        for address in [row.start, end - 1] {
            let rule = table.rule_at(address).map_or(Rule::GAP, |id| rules.get(id));
            comparison.unsupported += usize::from(rule.cfa == Cfa::Unsupported);
            if !is_same(rule, row) && comparison.differing.len() < DIFFERING_MAX {
                comparison.differing.push(format!("{address:#x}: {rule:?}, readelf: {row:?}"));
            }
        }
    }
    image.rules(image.text(), |address, rule| {
        if let Some(kind) = kind(rule)
            && !has_row(&rows, address)
        {
            *comparison.added.entry(kind).or_default() += 1;
        }
    });
    Ok(comparison)
}

/// Whether a row covers an address. Of those that begin before it, only the last nonempty one can.
fn has_row(rows: &[Row<'_>], address: u64) -> bool {
    let before = rows.partition_point(|row| row.start <= address);
    rows[..before].iter().rev().take(8).any(|row| address < row.end)
}

/// Kind of a rule that may be derived from code.
fn kind(rule: Rule) -> Option<&'static str> {
    Some(match rule.cfa {
        Cfa::Gap | Cfa::Unsupported | Cfa::OtherStack => return None,
        Cfa::Clone => "clone",
        Cfa::End => "end",
        Cfa::Signal => "signal",
        Cfa::Register | Cfa::Memory | Cfa::Plt => "plain",
    })
}

fn is_same(rule: Rule, row: &Row<'_>) -> bool {
    let is_plain = |text: &str| text.starts_with("c+") || text.starts_with("c-");
    match rule.cfa {
        // Rules derived from code, where readelf has none.
        Cfa::Gap | Cfa::OtherStack | Cfa::Clone => return false,
        Cfa::End => return row.ra == "u",
        Cfa::Unsupported => {
            let has_own_sp = !["", "s", "u"].contains(&row.sp);
            return has_own_sp
                || row.cfa == "exp"
                || !is_plain(row.ra)
                || number(row.cfa).is_none();
        }
        Cfa::Signal | Cfa::Plt | Cfa::Memory => {
            if row.cfa != "exp" {
                return false;
            }
        }
        // `exp` too: an expression may give the same rule.
        Cfa::Register => {
            let expected = number(row.cfa);
            if row.cfa != "exp" && expected != Some((rule.register, rule.offset)) {
                return false;
            }
        }
    }
    if rule.cfa == Cfa::Signal {
        return row.ra == "exp";
    }
    let fp = match rule.fp {
        // readelf also writes `u` for a register that no instruction has mentioned yet.
        FramePointer::Same => ["", "s", "u"].contains(&row.fp),
        FramePointer::Saved => row.fp == format!("c{:+}", i32::from(rule.fp_words) * 8),
        FramePointer::SavedAtFp | FramePointer::SavedAtSp => row.fp == "exp",
        FramePointer::Lost => !row.fp.is_empty() && row.fp != "s" && !is_plain(row.fp),
    };
    let ra = match rule.ra {
        ReturnAddress::Saved => row.ra == format!("c{:+}", i32::from(rule.return_words) * 8),
        // On aarch64 it is in its own register until an instruction changes that.
        ReturnAddress::Register if rule.return_words == LINK => ["", "s", "u"].contains(&row.ra),
        ReturnAddress::Register => register(row.ra) == u8::try_from(rule.return_words).ok(),
    };
    fp && ra
}

/// DWARF number of aarch64's link register. On x86-64 no register that could hold one has this number.
const LINK: i16 = 30;

/// DWARF numbers of x86-64's registers (psABI, figure 3.36).
const NAMES: [&str; 16] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// By name, or in readelf's notation for registers saved in others: `r5`.
fn register(name: &str) -> Option<u8> {
    if let Some(number) = name.strip_prefix('r').and_then(|number| number.parse().ok()) {
        return Some(number);
    }
    // aarch64's (DWARF for the Arm 64-bit Architecture, 4.1).
    if let Some(number) = name.strip_prefix('x').and_then(|number| number.parse().ok()) {
        return Some(number);
    }
    if name == "sp" {
        return Some(31);
    }
    NAMES.iter().position(|known| *known == name).map(|number| number as u8)
}

/// `rsp+8`: a register number and an offset.
fn number(cfa: &str) -> Option<(u8, i32)> {
    let (name, offset) = cfa.split_at_checked(cfa.find(['+', '-'])?)?;
    Some((register(name)?, offset.parse().ok()?))
}

/// The rows of readelf's text: entries separated by empty lines, each a head and a table whose first line names
/// the columns. An entry for code without a table has the row of its common entry.
fn rows(text: &str) -> Vec<Row<'_>> {
    let mut common: HashMap<&str, Row<'_>> = HashMap::new();
    let mut all = Vec::new();
    for entry in text.split("\n\n") {
        if entry.contains("Contents of the ") {
            common.clear();
        }
        let is_head = |line: &&str| line.contains(" CIE ") || line.contains(" FDE ");
        let mut lines = entry.trim().lines().skip_while(|line| !is_head(line));
        let Some(head) = lines.next() else { continue };
        let mut rows = table(lines);
        let Some((_, code)) = head.split_once(" FDE cie=") else {
            let row = rows.into_iter().next().unwrap_or_default();
            common.insert(head.split(' ').next().unwrap_or_default(), row);
            continue;
        };
        let Some((cie, range)) = code.split_once(" pc=") else { continue };
        let Some((start, end)) = range.trim().split_once("..") else { continue };
        let (start, end) = (hex(start), hex(end));
        if rows.is_empty() {
            rows.push(Row { start, ..common.get(cie).cloned().unwrap_or_default() });
        }
        let ends: Vec<u64> = rows.iter().skip(1).map(|row| row.start).chain([end]).collect();
        all.extend(
            rows.into_iter().zip(ends).map(|(row, end)| Row { end: end.max(row.start), ..row }),
        );
    }
    all.sort_by_key(|row| row.start);
    all
}

/// `LOC CFA rbx rbp ra`, then a line for each row.
fn table<'a>(mut lines: impl Iterator<Item = &'a str>) -> Vec<Row<'a>> {
    let columns: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let row = |line: &'a str| {
        // `r5 (rdi)` is one value.
        let words = line.split_whitespace();
        let values: Vec<&str> = words.filter(|word| !word.starts_with('(')).collect();
        let value = |name: &str| {
            let column = columns.iter().position(|column| *column == name);
            column.and_then(|column| values.get(column).copied()).unwrap_or_default()
        };
        let either = |x86: &str, arm: &str| value(if columns.contains(&arm) { arm } else { x86 });
        let (cfa, ra) = (value("CFA"), value("ra"));
        let (fp, sp) = (either("rbp", "x29"), either("rsp", "sp"));
        Row { start: hex(values[0]), end: 0, cfa, fp, sp, ra }
    };
    lines.filter(|line| !line.trim().is_empty()).map(row).collect()
}

fn hex(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).expect("hexadecimal digits")
}
