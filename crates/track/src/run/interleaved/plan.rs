//! Selects what to compare, or explains why nothing can be: both sides must be commits, and the command must build
//! everything it runs from the checkout.

use std::{ffi::OsString, path::Path, time::Instant};

use super::{LIMIT, PRECISION, RUNS};
use crate::{
    compare::{self, judge::Settings},
    evaluate::Background,
    git,
    model::{BenchmarkName, Report},
    output::short_hash,
    run::{Benchmark, Request, filter},
};

/// The comparison of the report's commit with that of the nearest report, or why there is none.
pub(super) fn plan(
    request: &Request,
    report: &Report,
    benchmarks: &[BenchmarkName],
    background: &Background,
) -> Result<compare::Plan, String> {
    let source = &request.source;
    let command = source.command.as_ref();
    let command = command.ok_or("results without a command cannot be measured again")?;
    if !source.files.is_empty() {
        return Err("the results are in files, and only what a command prints can be compared \
                    (print them: `… && cat FILE`)"
            .to_owned());
    }
    let command = words(filter::only(command.clone(), request.adapter, benchmarks));
    let [base, head] = commits(request, report, benchmarks, background)?;
    if let Some(word) = word_in_working_tree(&command, &request.directory) {
        return Err(format!(
            "the command names {word:?} in this working tree, which is the same file for both commits; \
             a relative path would name each commit's own file"
        ));
    }
    Ok(compare::Plan {
        directory: request.directory.clone(),
        base,
        head: Some(head),
        command,
        build: None,
        adapter: request.adapter,
        average: request.average,
        time: RUNS,
        until: Instant::now().checked_add(LIMIT),
        settings: Settings { precision: PRECISION, ..Settings::default() },
        seed: report.uuid.as_u64_pair().1,
    })
}

/// The commits of the nearest report and of this one.
fn commits(
    request: &Request,
    report: &Report,
    benchmarks: &[BenchmarkName],
    background: &Background,
) -> Result<[String; 2], String> {
    let checked_out = git::head(&request.directory).ok_or(
        "there is no git repository here, so the code of the previous report is not known",
    )?;
    if report.environment.is_dirty == Some(true) {
        return Err("the working tree has changes that are not committed, and only commits are \
                    compared"
            .to_owned());
    }
    if report.hash.as_ref() != Some(&checked_out) {
        let checked_out = short_hash(&checked_out);
        return Err(format!(
            "--hash names another commit than {checked_out}, which is checked out"
        ));
    }
    let nearest = background.nearest(benchmarks).ok_or("no report of history has them")?;
    let base = nearest.hash.clone().ok_or("the previous report has no commit")?;
    let name = short_hash(&base);
    if nearest.environment.is_dirty == Some(true) {
        return Err(format!("the previous report had uncommitted changes on top of {name}"));
    }
    if base == checked_out {
        return Err(format!("the previous report is of the same commit, {name}"));
    }
    if git::resolve(&request.directory, &base).is_none() {
        return Err(format!(
            "the commit of the previous report, {name}, is not in this clone; `git fetch --unshallow` gets \
             it (`fetch-depth: 0` on GitHub)"
        ));
    }
    Ok([base, checked_out])
}

/// The command's words for `compare`, which passes a single one to `/bin/sh`.
fn words(command: Benchmark) -> Vec<OsString> {
    let shell = |words: [&str; 3], last: OsString| {
        words.iter().map(OsString::from).chain([last]).collect::<Vec<_>>()
    };
    match command {
        Benchmark::Exec(words) => match <[OsString; 1]>::try_from(words) {
            Ok([program]) => shell(["/bin/sh", "-c", "exec \"$0\""], program),
            Err(words) => words,
        },
        // `compare` can build a `/bin/sh` line given as one word.
        Benchmark::Shell { shell, flag, line } if shell == "/bin/sh" && flag == "-c" => vec![line],
        Benchmark::Shell { shell, flag, line } => vec![shell, flag, line],
    }
}

/// The first word that contains an absolute path into the working tree.
fn word_in_working_tree(command: &[OsString], directory: &Path) -> Option<String> {
    let root = git::root(directory)?;
    let root = root.trim_end_matches('/');
    // These characters continue the folder's name, so it is another one.
    let is_part_of_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let is_inside = |word: &&str| {
        let mut ends = word.match_indices(root).map(|(at, _)| &word[at + root.len()..]);
        ends.any(|rest| !rest.starts_with(is_part_of_name))
    };
    let find = |line: &OsString| {
        line.to_string_lossy().split_whitespace().find(is_inside).map(str::to_owned)
    };
    command.iter().find_map(find)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_meaning() {
        let os = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let check = |command, expected: &[&str]| assert_eq!(words(command), os(expected));
        let line = |shell: &str| Benchmark::Shell {
            shell: shell.into(),
            flag: "-c".into(),
            line: "cargo bench | tee log".into(),
        };
        check(line("/bin/sh"), &["cargo bench | tee log"]);
        check(line("/bin/bash"), &["/bin/bash", "-c", "cargo bench | tee log"]);
        check(Benchmark::Exec(os(&["cargo", "bench"])), &["cargo", "bench"]);
        check(Benchmark::Exec(os(&["./a b"])), &["/bin/sh", "-c", "exec \"$0\"", "./a b"]);
    }

    #[test]
    fn whole_paths_into_the_working_tree_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        git::by_somebody(folder.path(), &["init", "-q"]);
        let root = git::root(folder.path()).expect("a repository");
        let check = |line: &str, expected: Option<&str>| {
            let line = line.replace("ROOT", &root);
            let found = word_in_working_tree(&[line.into()], folder.path());
            assert_eq!(found, expected.map(|word| word.replace("ROOT", &root)));
        };
        check("ROOT/target/release/bench --quick", Some("ROOT/target/release/bench"));
        check(
            "cargo bench --manifest-path=ROOT/Cargo.toml",
            Some("--manifest-path=ROOT/Cargo.toml"),
        );
        check("cd ROOT; ./bench", Some("ROOT;"));
        check("ROOT-other/bench ./bench target/bench /usr/bin/bench", None);
        check("cargo bench", None);
    }
}
