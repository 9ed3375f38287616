//! Source rules that no compiler checks: prologues, `unsafe`, forbidden dependencies, sizes. CONTRIBUTING.md documents
//! them; this test enforces them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Maximum lines of a function, from its name to its closing brace: a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Longer functions, with the reason: `("path", "name", "reason")`.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

/// Where `unsafe` is allowed: the kernel interface.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/bpf-loader/src/loader/run_apart.rs",
    "crates/bpf-loader/src/sys.rs",
    "crates/bpf-loader/src/sys/",
    "crates/bpf-loader/tests/loader/",
    "crates/profiler/src/session/memory.rs",
    "crates/profiler-ebpf/",
    // Makes the C allocator return memory, for which Rust has no API.
    "crates/server/src/service/memory.rs",
    // Configures the C library's name lookup through one of its functions.
    "crates/wingbeat/src/name_service.rs",
    // Single-steps a child.
    "crates/unwind/tests/stepped/process.rs",
    "examples/fun-xdp/fun-xdp-ebpf/",
    "examples/profiler/profiler-ebpf/",
    // Tokio requires it to watch a descriptor.
    "examples/profiler/profiler/src/watch.rs",
];

/// Maximum distance in lines from an `unsafe` up to the start of its `SAFETY` comment.
const SAFETY_DISTANCE: usize = 10;

/// Access to the machine: clock, files, network, kernel.
const MACHINE: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "now_utc",
    "std::fs",
    "File::",
    "std::net",
    "Command::new",
    "rustix::",
    "wingbeat_bpf_loader::loader",
    "wingbeat_bpf_loader::perf",
];

/// Where HTTP is allowed: everything that leaves the machine passes there.
const NETWORK_ALLOWED: &[&str] = &[
    // Sends nothing.
    "crates/http/",
    // To a server that it started itself, on loopback.
    "crates/eval/src/serve/server.rs",
    "crates/agent/src/kubelet.rs",
    "crates/push/src/http.rs",
    "crates/profiler/src/debuginfod/http.rs",
    "crates/track/src/github/",
    "crates/track/src/remote.rs",
    "crates/track/src/remote/",
];

/// Forbidden words by path, with the reason.
const ABSENCES: &[(&str, &[&[&str]], &str)] = &[
    ("crates/profiler/src/export", &[MACHINE], "exporters turn a profile into bytes"),
    ("crates/profiler/src/model", &[MACHINE], "the model is data"),
    ("crates/bpf-bench/src/report", &[MACHINE], "a result goes in and text comes out"),
    ("crates/bpf-bench/src/annotate", &[MACHINE], "annotations turn counts into text"),
    ("crates/bpf-bench/src/instrument", &[MACHINE], "instrumentation is bytecode in, bytecode out"),
    ("crates/stats/src", &[MACHINE, &["serde", "wingbeat_bpf_loader"]], "it knows numbers only"),
    ("crates/text/", &[MACHINE, &["std::io", "std::env", "println!"]], "values become text"),
    ("crates/track/src/adapter", &[MACHINE], "adapters are bytes in, metrics out"),
    ("crates/track/src/detect", &[MACHINE, &["rusqlite"]], "report and history decide alone"),
    ("crates/bpf-testing/", &[MACHINE, &["wingbeat_bench"]], "it confirms what bench counts"),
    (
        "crates/profiler-abi/src/",
        &[&["std::", "aya_ebpf::", "wingbeat_bpf_loader"]],
        "both sides of the kernel border share it, so it depends on neither",
    ),
    (
        "crates/track/",
        &[&["wingbeat_bpf_loader"]],
        "continuous benchmarking does not know what eBPF is",
    ),
    (
        "crates/wingbeat/src",
        &[&["blazesym::", "inferno::"]],
        "the binary is thin: flags in, calls, text out",
    ),
];

/// Marks of unfinished work. Concatenated here, so that this file does not match.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("dbg", "!("),
];

struct Source {
    /// Relative to the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// Code of each line with its number, without comments and string contents.
    fn code(&self) -> impl Iterator<Item = (usize, String)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, code_of(line)))
    }
}

/// Code of a line: cut at `//`, strings emptied. Does not support raw strings and multi-line strings, which has
/// sufficed.
fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut in_string = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => drop(chars.next()),
            '\'' if !in_string && chars.peek() == Some(&'"') => drop(chars.next()),
            '"' => in_string = !in_string,
            '/' if !in_string && chars.peek() == Some(&'/') => break,
            _ if !in_string => code.push(c),
            _ => {}
        }
    }
    code
}

fn has_word(code: &str, word: &str) -> bool {
    // Includes the hyphen because of HTML's `unsafe-inline`.
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    code.match_indices(word).any(|(start, _)| {
        let before = code[..start].chars().next_back();
        let after = code[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the repository").into()
}

/// Every file of ours with this suffix.
fn sources(suffix: &str) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("a file type");
            if kind.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules"
            {
                folders.push(path);
            } else if kind.is_file() && name.ends_with(suffix) {
                let text = fs::read_to_string(&path).expect("readable text");
                let path = path.strip_prefix(&root).expect("below the root");
                found.push(Source { path: path.to_string_lossy().into_owned(), text });
            }
        }
    }
    assert!(!found.is_empty(), "no {suffix} files: is this the repository?");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

#[track_caller]
fn check(offences: Vec<String>) {
    assert!(offences.is_empty(), "{} offences:\n{}", offences.len(), offences.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = sources(".rs").into_iter().filter(|source| !source.text.starts_with("//! "));
    check(silent.map(|source| format!("{}: begins without `//! `", source.path)).collect());
}

#[test]
fn nothing_is_left_unfinished() {
    let mut offences = Vec::new();
    for Source { path, text } in sources(".rs") {
        for (index, line) in text.lines().enumerate() {
            for mark in UNFINISHED.iter().filter(|mark| line.contains(**mark)) {
                offences.push(format!("{path}:{}: {mark}", index + 1));
            }
        }
    }
    check(offences);
}

#[test]
fn unsafe_stays_at_the_border_to_the_kernel() {
    let mut offences = Vec::new();
    for source in sources(".rs") {
        if UNSAFE_ALLOWED.iter().any(|place| source.path.starts_with(place)) {
            continue;
        }
        let lines = source.code().filter(|(_, code)| has_word(code, "unsafe"));
        offences.extend(lines.map(|(number, _)| format!("{}:{number}: unsafe", source.path)));
    }
    check(offences);
}

#[test]
fn every_unsafe_says_why_it_is_sound() {
    let mut offences = Vec::new();
    for source in sources(".rs") {
        let lines: Vec<_> = source.text.lines().collect();
        for (number, code) in source.code().filter(|(_, code)| has_word(code, "unsafe")) {
            // Attributes such as `#[unsafe(no_mangle)]` are about a name, not memory.
            let is_attribute = code.contains("#[unsafe(");
            let above = &lines[number.saturating_sub(SAFETY_DISTANCE + 1)..number];
            let says = above.iter().any(|l| l.contains("SAFETY:") || l.contains("# Safety"));
            if !is_attribute && !says {
                offences.push(format!("{}:{number}: no `SAFETY:` comment", source.path));
            }
        }
    }
    check(offences);
}

#[test]
fn crates_do_not_know_what_they_must_not() {
    let mut offences = Vec::new();
    for source in sources(".rs") {
        for (_, words, why) in ABSENCES.iter().filter(|it| source.path.starts_with(it.0)) {
            for (number, code) in source.code() {
                // Tests come last in a file, and are exempt.
                if code.contains("#[cfg(test)]") || code.contains("#[cfg(all(test,") {
                    break;
                }
                for word in words.concat().iter().filter(|word| code.contains(**word)) {
                    offences.push(format!("{}:{number}: {word} ({why})", source.path));
                }
            }
        }
    }
    check(offences);
}

#[test]
fn the_network_is_used_in_few_places() {
    let mut offences = Vec::new();
    for source in sources(".rs") {
        if NETWORK_ALLOWED.iter().any(|place| source.path.starts_with(place)) {
            continue;
        }
        let lines = source.code().filter(|(_, code)| code.contains("ureq::"));
        offences.extend(lines.map(|(number, _)| format!("{}:{number}: ureq", source.path)));
    }
    check(offences);
}

/// The functions of a file: their lines and names. rustfmt indents the closing brace of a function like its first line,
/// and nothing else below it.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        // A one-line function, or one without a body, ends where it begins.
        let end = match lines[start..].iter().position(|line| line.ends_with(['{', ';', '}'])) {
            Some(ends) if lines[start + ends].ends_with('{') => lines[start..]
                .iter()
                .position(|line| line.strip_prefix(indent) == Some("}"))
                .unwrap_or_default(),
            ends => ends.unwrap_or_default(),
        };
        found.push((name, end + 1));
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    const BEFORE: [&str; 8] =
        ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern", "\"C\""];
    let mut words = line.split_whitespace().skip_while(|word| BEFORE.contains(word));
    (words.next() == Some("fn")).then(|| words.next())??.split(['(', '<']).next()
}

#[test]
fn the_lists_name_what_there_is() {
    let absent = ABSENCES.iter().map(|(part, ..)| *part);
    let named = UNSAFE_ALLOWED.iter().chain(NETWORK_ALLOWED).copied().chain(absent);
    let gone = named.filter(|part| !root().join(part).exists());
    check(gone.map(|part| format!("{part}: there is no such file")).collect());
}

#[test]
fn functions_fit_a_screen() {
    let mut offences = Vec::new();
    let mut excused = Vec::new();
    for Source { path, text } in sources(".rs") {
        for (name, lines) in functions(&text).into_iter().filter(|(_, n)| *n > FUNCTION_LINES_MAX) {
            match LONG_FUNCTIONS.iter().find(|(file, long, _)| *file == path && *long == name) {
                Some(exception) => excused.push(*exception),
                None => offences.push(format!("{path}: {name} has {lines} lines")),
            }
        }
    }
    let stale = LONG_FUNCTIONS.iter().filter(|exception| !excused.contains(exception));
    offences.extend(stale.map(|(path, name, _)| format!("{path}: {name} is no longer long")));
    check(offences);
}

#[test]
fn functions_are_measured_to_their_brace() {
    let text = "fn a() {\n    if b {\n    }\n}\nimpl C {\n    pub(crate) const fn d<T>(\n    ) -> E {\n    }\n    fn e();\n    fn f() {}\n}\n";
    assert_eq!(functions(text), [("a", 4), ("d", 3), ("e", 1), ("f", 1)]);
}

#[test]
fn every_member_takes_the_lints_of_the_workspace() {
    let manifests = sources("Cargo.toml").into_iter();
    // Kernel halves are separate workspaces.
    let members = manifests.filter(|manifest| !manifest.text.contains("[workspace"));
    let without = members.filter(|manifest| !manifest.text.contains("[lints]\nworkspace = true"));
    check(without.map(|manifest| format!("{}: no `[lints]`", manifest.path)).collect());
}

#[test]
fn lines_end_where_their_text_ends() {
    let mut offences = Vec::new();
    for suffix in [".md", ".toml"] {
        for Source { path, text } in sources(suffix) {
            for (index, line) in text.lines().enumerate() {
                if line.ends_with([' ', '\t']) {
                    offences.push(format!("{path}:{}: space at the end", index + 1));
                }
            }
        }
    }
    check(offences);
}

#[test]
fn code_is_told_from_comments_and_strings() {
    let check = |line, expected: &str| assert_eq!(code_of(line), expected, "{line}");
    check("let a = 1; // unsafe", "let a = 1; ");
    check("say(\"unsafe // no\"); b", "say(); b");
    check("say(\"a \\\" unsafe\"); b", "say(); b");
    check("c == '\"' && d", "c == ' && d");
    assert!(has_word("#[unsafe(no_mangle)]", "unsafe"));
    assert!(!has_word("unsafe_op_in_unsafe_fn", "unsafe"));
    assert!(!has_word("style-src 'unsafe-inline'", "unsafe"));
}
