//! The pages in `docs/`, the man pages and the completions cover every verb.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

fn wingbeat(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_wingbeat"))
        .args(arguments)
        .output()
        .expect("wingbeat starts");
    assert!(output.status.success(), "wingbeat {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn generated() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    wingbeat(&["generate", folder.path().to_str().expect("a plain path")]);
    folder
}

/// Names and texts of the files with a suffix in a folder, sorted.
fn files(folder: &Path, suffix: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(suffix)?.to_owned();
            Some((name, fs::read_to_string(path).expect("text")))
        })
        .collect();
    files.sort();
    files
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The verbs listed by `wingbeat --help`.
fn verbs() -> Vec<String> {
    let help = wingbeat(&["--help"]);
    let (_, list) = help.split_once("Commands:\n").expect("a list of verbs");
    let lines = list.lines().take_while(|line| !line.is_empty());
    // Deeper indentation continues the text of a verb.
    let verbs = lines.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    let verbs = verbs.filter_map(|line| Some(line.split_whitespace().next()?.to_owned()));
    verbs.filter(|verb| verb != "help").collect()
}

#[test]
fn every_verb_is_in_the_index() {
    let index = fs::read_to_string(docs().join("README.md")).expect("the index");
    for verb in verbs() {
        let row = index.lines().find(|line| line.starts_with(&format!("| `wingbeat {verb}` |")));
        assert!(row.is_some_and(|row| row.contains(".md")), "{verb} is not in docs/README.md");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages = files(&docs(), ".md");
    for (page, text) in &pages {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            if target.contains("://") || (!target.is_empty() && !target.ends_with(".md")) {
                continue;
            }
            let name = if target.is_empty() { page } else { target.trim_end_matches(".md") };
            if name.contains('/') {
                assert!(docs().join(target).is_file(), "docs/{page}.md: {link} does not exist");
                continue;
            }
            let Some((_, text)) = pages.iter().find(|(other, _)| other == name) else {
                panic!("docs/{page}.md: {link} leads to no page");
            };
            let mut headings = text.lines().filter(|line| line.starts_with('#')).map(anchor_of);
            let is_there = anchor.is_empty() || headings.any(|heading| heading == anchor);
            assert!(is_there, "docs/{page}.md: {link} leads to no heading");
        }
    }
}

/// GitHub's anchors: lower case, no punctuation, hyphens for spaces.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn completions_and_man_pages_know_every_verb() {
    let folder = generated();
    let completions = files(&folder.path().join("completions"), "");
    let names: Vec<_> = completions.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["_wingbeat", "_wingbeat.ps1", "wingbeat.bash", "wingbeat.elv", "wingbeat.fish"];
    assert_eq!(names, expected);
    let man = files(&folder.path().join("man"), ".1");
    for verb in verbs() {
        for (name, text) in &completions {
            assert!(text.contains(&verb), "{name} does not complete {verb}");
        }
        let page = man.iter().find(|(name, _)| *name == format!("wingbeat-{verb}"));
        let (_, page) = page.unwrap_or_else(|| panic!("{verb} has no man page"));
        assert!(page.contains(".SH OPTIONS"), "the man page of {verb} has no flags");
    }
    assert!(completions.iter().all(|(_, text)| !text.contains("generate")), "a hidden verb");
}

#[test]
fn the_same_definition_gives_the_same_files() {
    let all =
        |folder: &TempDir| ["completions", "man"].map(|part| files(&folder.path().join(part), ""));
    assert_eq!(all(&generated()), all(&generated()));
}
