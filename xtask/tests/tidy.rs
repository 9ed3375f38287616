//! Source rules that no compiler checks: prologues, `unsafe`, forbidden dependencies. CONTRIBUTING.md documents them;
//! this test enforces them.

use std::{fs, process::Command, sync::LazyLock};

use regex_lite::Regex;
use xtask::command::{captured, repository as root};

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
    "crates/server/src/profiles/files/http.rs",
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
const UNFINISHED: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X:")];

/// Maximum distance in lines from an `unsafe` up to the start of its `SAFETY` comment.
const SAFETY_DISTANCE: usize = 10;

/// A file of ours.
struct Source {
    /// Relative to the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    fn is_below(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }
}

/// Code of a line: without comment, strings emptied. Does not support raw strings and multi-line strings, which has
/// sufficed.
fn code_of(line: &str) -> String {
    static NO_CODE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"'"'|"(\\.|[^"\\])*"|//.*"#).expect("a pattern"));
    NO_CODE.replace_all(line, "").into_owned()
}

/// Whether the code of a line has this word.
fn has_word(line: &str, word: &str) -> bool {
    // Includes the hyphen because of HTML's `unsafe-inline`.
    let end = if word.ends_with(':') { "" } else { r"($|[^\w-])" };
    let pattern = || Regex::new(&format!(r"(^|[^\w-]){word}{end}")).expect("a word");
    line.contains(word) && pattern().is_match(&code_of(line))
}

/// Every file of ours with this suffix, also those that are not committed yet.
fn sources(suffix: &str) -> Vec<Source> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = captured(git.arg(format!("*{suffix}"))).expect("git lists files");
    // Deleted files stay listed until that is committed.
    let read = |path: &str| {
        Some(Source { path: path.to_owned(), text: fs::read_to_string(root().join(path)).ok()? })
    };
    let found: Vec<_> = listed.lines().filter_map(read).collect();
    assert!(!found.is_empty(), "no {suffix} files: is this the repository?");
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

/// The same for rules about a single line.
#[track_caller]
fn check_lines(suffix: &str, rule: impl Fn(&Source, &str) -> Option<&'static str>) {
    check(suffix, |source| {
        let lines = (1..).zip(source.text.lines());
        let found = lines.filter_map(|(n, line)| Some((n, rule(source, line)?.to_owned())));
        found.collect::<Vec<_>>()
    });
}

#[test]
fn every_file_says_what_it_is_for() {
    check(".rs", |source| {
        (!source.text.starts_with("//! ")).then(|| (1, "begins without `//! `".to_owned()))
    });
}

#[test]
fn nothing_is_left_unfinished() {
    check_lines(".rs", |_, line| UNFINISHED.into_iter().find(|mark| line.contains(mark)));
}

#[test]
fn unsafe_and_the_network_are_used_in_few_files() {
    check_lines(".rs", |source, line| {
        let rules = [("unsafe", UNSAFE_ALLOWED), ("ureq::", NETWORK_ALLOWED)];
        let mut broken = rules.into_iter().filter(|(_, allowed)| !source.is_below(allowed));
        broken.find_map(|(word, _)| has_word(line, word).then_some(word))
    });
}

/// Clippy checks this too, except in kernel halves.
#[test]
fn every_unsafe_says_why_it_is_sound() {
    check(".rs", |source| {
        let lines: Vec<_> = source.text.lines().collect();
        let silent = (1..=lines.len()).filter(|n| {
            let above = &lines[n.saturating_sub(SAFETY_DISTANCE + 1)..*n];
            let says = above.iter().any(|l| l.contains("SAFETY:") || l.contains("# Safety"));
            // Attributes such as `#[unsafe(no_mangle)]` are about a name, not memory.
            let is_about_memory = !lines[n - 1].contains("#[unsafe(");
            !says && is_about_memory && has_word(lines[n - 1], "unsafe")
        });
        silent.map(|n| (n, "no `SAFETY:` comment".to_owned())).collect::<Vec<_>>()
    });
}

#[test]
fn crates_do_not_know_what_they_must_not() {
    check(".rs", |source| {
        // Tests come last in a file, and are exempt.
        let is_test =
            |line: &&str| line.contains("#[cfg(test)]") || line.contains("#[cfg(all(test,");
        let lines = (1..).zip(source.text.lines().take_while(|line| !is_test(line)));
        let has = |line: &str, word: &str| line.contains(word) && code_of(line).contains(word);
        let rules = ABSENCES.iter().filter(|it| source.is_below(&[it.0]));
        let words =
            rules.flat_map(|(_, words, why)| words.concat().into_iter().map(move |it| (it, why)));
        words
            .flat_map(|(word, why)| {
                let found = lines.clone().filter(move |(_, line)| has(line, word));
                found.map(move |(n, _)| (n, format!("{word} ({why})")))
            })
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
        check_lines(suffix, |_, line| line.ends_with([' ', '\t']).then_some("space at the end"));
    }
}

#[test]
fn code_is_told_from_comments_and_strings() {
    let check = |line, expected: &str| assert_eq!(code_of(line), expected, "{line}");
    check("let a = 1; // unsafe", "let a = 1; ");
    check("say(\"unsafe // no\"); b", "say(); b");
    check("say(\"a \\\" unsafe\"); b", "say(); b");
    check("c == '\"' && d", "c ==  && d");
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
fn the_github_action_and_packages_work() {
    for script in [".github/action/test", "xtask/dist/test"] {
        let test = Command::new("bash").arg(root().join(script)).output().expect("bash runs");
        let said = [test.stdout, test.stderr].concat();
        assert!(test.status.success(), "{script}: {}", String::from_utf8_lossy(&said));
    }
}
