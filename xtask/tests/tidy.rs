//! Source rules that no compiler checks: prologues, `unsafe`, forbidden dependencies. CONTRIBUTING.md documents them;
//! this test enforces them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Where `unsafe` is allowed: the kernel interface.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/bpf-loader/src/loader/run_apart.rs",
    "crates/bpf-loader/src/sys.rs",
    "crates/bpf-loader/src/sys/",
    "crates/bpf-loader/tests/all/loader/",
    "crates/profiler/src/session/limits.rs",
    "crates/profiler-ebpf/",
    // Makes the C allocator return memory, for which Rust has no API.
    "crates/server/src/service/idle.rs",
    // Configures the C library's name lookup through one of its functions.
    "crates/wingbeat/src/name_service.rs",
    // Single-steps a child.
    "crates/unwind/tests/unwind/stepped/process.rs",
    "examples/fun-xdp/fun-xdp-ebpf/",
    "examples/profiler/profiler-ebpf/",
    // Tokio requires it to watch a descriptor.
    "examples/profiler/profiler/src/watch.rs",
];

/// Where HTTP is allowed: everything that leaves the machine passes there.
const NETWORK_ALLOWED: &[&str] = &[
    "crates/http/",
    // To a server that it started itself, on loopback.
    "crates/peers/src/serve/server.rs",
    "crates/agent/src/kubelet.rs",
    "crates/agent/src/pusher.rs",
    "crates/profiler/src/debuginfod/http.rs",
    "crates/track/src/remote/http.rs",
];

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
    ("crates/track/src/verdict", &[MACHINE, &["rusqlite"]], "report and history decide alone"),
    ("crates/bpf-testing/", &[MACHINE, &["wingbeat_bpf_bench"]], "it confirms what bench counts"),
    (
        "crates/profiler-abi/src/",
        &[&["std::", "aya_ebpf::", "wingbeat_bpf_loader"]],
        "both sides of the kernel border share it, so it depends on neither",
    ),
    ("crates/track/", &[&["wingbeat_bpf_loader"]], "it does not know what eBPF is"),
    (
        "crates/server/",
        &[&["wingbeat_bpf_loader", "wingbeat_profiler", "wingbeat_agent"]],
        "it does not know what eBPF is",
    ),
    ("crates/pprof/src", &[MACHINE], "profiles are bytes in, data out"),
    ("crates/wingbeat/src", &[&["blazesym::"]], "flags in, calls, text out"),
];

/// Marks of unfinished work, besides clippy's. Concatenated here, so that this file does not match.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("dbg", "!("),
];

/// Maximum distance in lines from an `unsafe` up to the start of its `SAFETY` comment.
const SAFETY_DISTANCE: usize = 10;

/// A file of ours.
struct Source {
    /// Relative to the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// Numbers of the lines whose code has this word.
    fn with<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let lines = self.text.lines().map(code_of).enumerate();
        lines.filter(|(_, code)| has_word(code, word)).map(|(index, _)| index + 1)
    }

    fn is_below(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
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
        let is_whole = word.ends_with(':') || !after.is_some_and(is_part);
        is_whole && !before.is_some_and(is_part)
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
            let is_folder = entry.file_type().expect("a file type").is_dir();
            if is_folder && !name.starts_with('.') && name != "target" && name != "node_modules" {
                folders.push(path);
            } else if !is_folder && name.ends_with(suffix) {
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

/// Checks each file with this suffix: a rule gives the numbers of the offending lines, with a text.
#[track_caller]
fn check<T: IntoIterator<Item = (usize, String)>>(suffix: &str, rule: impl Fn(&Source) -> T) {
    let offences: Vec<_> = sources(suffix)
        .iter()
        .flat_map(|it| rule(it).into_iter().map(|(n, what)| format!("{}:{n}: {what}", it.path)))
        .collect();
    assert!(offences.is_empty(), "{} offences:\n{}", offences.len(), offences.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    check(".rs", |source| {
        (!source.text.starts_with("//! ")).then(|| (1, "begins without `//! `".to_owned()))
    });
}

#[test]
fn nothing_is_left_unfinished() {
    check(".rs", |source| {
        let lines = (1..).zip(source.text.lines());
        let unfinished = |line: &str| UNFINISHED.into_iter().find(|mark| line.contains(mark));
        lines.filter_map(|(n, line)| Some((n, unfinished(line)?.to_owned()))).collect::<Vec<_>>()
    });
}

#[test]
fn unsafe_and_the_network_are_used_in_few_files() {
    check(".rs", |source| {
        let rules = [("unsafe", UNSAFE_ALLOWED), ("ureq::", NETWORK_ALLOWED)];
        let broken = rules.into_iter().filter(|(_, allowed)| !source.is_below(allowed));
        broken
            .flat_map(|(word, _)| source.with(word).map(move |n| (n, word.to_owned())))
            .collect::<Vec<_>>()
    });
}

/// Clippy checks this too, except in kernel halves.
#[test]
fn every_unsafe_says_why_it_is_sound() {
    check(".rs", |source| {
        let lines: Vec<_> = source.text.lines().collect();
        let silent = source.with("unsafe").filter(|n| {
            let above = &lines[n.saturating_sub(SAFETY_DISTANCE + 1)..*n];
            let says = above.iter().any(|l| l.contains("SAFETY:") || l.contains("# Safety"));
            // Attributes such as `#[unsafe(no_mangle)]` are about a name, not memory.
            !says && !lines[n - 1].contains("#[unsafe(")
        });
        silent.map(|n| (n, "no `SAFETY:` comment".to_owned())).collect::<Vec<_>>()
    });
}

#[test]
fn crates_do_not_know_what_they_must_not() {
    check(".rs", |source| {
        // Tests come last in a file, and are exempt.
        let is_test =
            |code: &String| code.contains("#[cfg(test)]") || code.contains("#[cfg(all(test,");
        let code: Vec<_> = source.text.lines().map(code_of).take_while(|it| !is_test(it)).collect();
        let rules = ABSENCES.iter().filter(|it| source.is_below(&[it.0]));
        let words =
            rules.flat_map(|(_, words, why)| words.concat().into_iter().map(move |it| (it, why)));
        let lines =
            |word: &'static str| (1..).zip(&code).filter(move |(_, code)| code.contains(word));
        words
            .flat_map(|(word, why)| lines(word).map(move |(n, _)| (n, format!("{word} ({why})"))))
            .collect::<Vec<_>>()
    });
}

#[test]
fn the_lists_name_what_there_is() {
    let named = UNSAFE_ALLOWED.iter().chain(NETWORK_ALLOWED).chain(ABSENCES.iter().map(|it| &it.0));
    let gone: Vec<_> = named.filter(|path| !root().join(path).exists()).collect();
    assert!(gone.is_empty(), "no such files: {gone:?}");
}

#[test]
fn every_member_takes_the_lints_of_the_workspace() {
    check("Cargo.toml", |manifest| {
        // Kernel halves are separate workspaces.
        let is_member = !manifest.text.contains("[workspace");
        let without = is_member && !manifest.text.contains("[lints]\nworkspace = true");
        without.then(|| (1, "no `[lints]`".to_owned()))
    });
}

#[test]
fn lines_end_where_their_text_ends() {
    for suffix in [".md", ".toml"] {
        check(suffix, |source| {
            let late =
                (1..).zip(source.text.lines()).filter(|(_, line)| line.ends_with([' ', '\t']));
            late.map(|(n, _)| (n, "space at the end".to_owned())).collect::<Vec<_>>()
        });
    }
}

#[test]
fn code_is_told_from_comments_and_strings() {
    let check = |line, expected: &str| assert_eq!(code_of(line), expected, "{line}");
    check("let a = 1; // unsafe", "let a = 1; ");
    check("say(\"unsafe // no\"); b", "say(); b");
    check("say(\"a \\\" unsafe\"); b", "say(); b");
    check("c == '\"' && d", "c == ' && d");
    assert!(has_word("#[unsafe(no_mangle)]", "unsafe"));
    assert!(has_word("ureq::get()", "ureq::"));
    assert!(!has_word("unsafe_op_in_unsafe_fn", "unsafe"));
    assert!(!has_word("style-src 'unsafe-inline'", "unsafe"));
}

/// Unused benchmarks would rot.
#[test]
fn every_exact_bench_is_tracked() {
    let script = fs::read_to_string(root().join("xtask/track.sh")).expect("the script");
    for suffix in ["_exact.rs", "_instructions.rs"] {
        check(suffix, |source| {
            let name =
                source.path.rsplit_once('/').map_or("", |(_, it)| it.trim_end_matches(".rs"));
            let is_bench = source.path.contains("/benches/");
            let is_missing = is_bench && !script.contains(&format!(" --bench {name}"));
            is_missing.then(|| (1, "not in xtask/track.sh".to_owned()))
        });
    }
    let workflow = root().join(".github/workflows/benchmarks.yml");
    let workflow = fs::read_to_string(workflow).expect("the workflow");
    for command in ["cargo xtask track --branch main ", "cargo xtask track --candidate "] {
        assert!(workflow.contains(command), "{command} is not in CI");
    }
}

#[test]
fn the_github_action_works() {
    let test = Command::new("bash").arg(root().join(".github/action/test")).output();
    let test = test.expect("bash runs");
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stderr));
}
