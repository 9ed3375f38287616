//! Obtains results from a command, files or stdin.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{self, IsTerminal as _, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{anyhow, bail};
use wingbeat_text::{first_few, plural};

use super::{Benchmark, CommandError, Echo, Request, RunError, left_profiles, tool_files};
use crate::{
    adapter::{Adapter, AdapterError},
    command::Printed,
    model::{BenchmarkName, Measure, Metric, Results},
};

/// Maximum number of files in a report, as in Bencher.
const FILES_MAX: usize = 255;

/// Maximum number of entries in a folder whose size is measured.
const ENTRIES_MAX: usize = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The command. Without one, files or stdin are read.
    pub command: Option<Benchmark>,
    /// Result files, each an iteration. With a command, it writes them.
    pub files: Vec<PathBuf>,
    pub sized_files: Vec<PathBuf>,
    /// Whether the duration of the command is a result.
    pub is_build_time: bool,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error("{from}: {source}")]
    Adapter { from: String, source: AdapterError },
    #[error("`{command}` {how}; nothing was stored{next_step}")]
    Failed {
        command: String,
        /// `failed with status 3`.
        how: String,
        /// A suggestion, if there is one: `; --allow-failure …`.
        next_step: String,
    },
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// Returns one `Results` per iteration. The command may write exact profiles to the folder `profiles`.
pub(super) fn gather(
    request: &Request,
    profiles: Option<&Path>,
    echo: &mut Echo<'_>,
    remarks: &mut Vec<String>,
) -> Result<Vec<Results>, RunError> {
    let source = &request.source;
    let count = source.files.len() + source.sized_files.len();
    if count > FILES_MAX {
        let error = anyhow!("{count} files are too many for one report; {FILES_MAX} are the limit");
        return Err(GatherError::Other(error).into());
    }
    let Some(command) = &source.command else {
        let mut iterations = without_command(request)?;
        take_remarks(&mut iterations, remarks);
        return Ok(iterations);
    };
    let variable = profiles.map(|folder| (left_profiles::VARIABLE, folder));
    let count = request.iterations.max(1);
    let mut iterations = Vec::new();
    let mut failed = Vec::new();
    for _ in 0..count {
        let started = SystemTime::now();
        let before: Vec<_> = source.files.iter().map(|path| state(path)).collect();
        match command.run(variable, &request.interrupt, echo) {
            Ok(printed) => {
                iterations.extend(of_run(request, command, &printed, started, &before, remarks)?);
            }
            Err(CommandError::Failed { command, how, stdout }) => {
                let results = of_failed_run(request, &stdout, started, &before);
                if !request.allow_failure {
                    let next_step = help(count, &results);
                    return Err(GatherError::Failed { command, how, next_step }.into());
                }
                failed.push((how, results));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let command = command.display();
    let is_all = iterations.is_empty();
    if is_all && failed.iter().all(|(_, results)| results.is_empty()) {
        let how = failed.pop().map_or_else(String::new, |(how, _)| how);
        let times = if count == 1 { String::new() } else { format!(" in all of {count} runs") };
        let how = format!("{how}{times}, and printed no result");
        return Err(GatherError::Failed { command, how, next_step: String::new() }.into());
    }
    for (how, results) in failed {
        // Results of failed runs are used only if no run succeeded.
        let what = match is_all && !results.is_empty() {
            true => "the results that it printed are kept",
            false => "the iteration was left out",
        };
        remarks.push(format!("`{command}` {how}; {what}"));
        iterations.extend(results.into_iter().filter(|_| is_all));
    }
    take_remarks(&mut iterations, remarks);
    Ok(iterations)
}

/// Moves the parsing remarks to those of the run, each once.
fn take_remarks(iterations: &mut [Results], remarks: &mut Vec<String>) {
    for remark in iterations.iter_mut().flat_map(|results| std::mem::take(&mut results.remarks)) {
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
}

/// The results of a successful run: its output or files, its duration and the sizes of files.
fn of_run(
    request: &Request,
    command: &Benchmark,
    printed: &Printed,
    started: SystemTime,
    before: &[Option<FileState>],
    remarks: &mut Vec<String>,
) -> Result<Vec<Results>, GatherError> {
    let Request { source, directory, .. } = request;
    if !source.files.is_empty() {
        for (path, _) in source.files.iter().zip(before).filter(|(path, it)| **it == state(path)) {
            let (path, command) = (path.display(), command.display());
            remarks.push(format!(
                "{path} existed before, and `{command}` did not write it: are its results old?"
            ));
        }
        return read_files(request, &printed.stdout);
    }
    let from = format!("`{}`", command.display());
    let is_measured = source.is_build_time || !source.sized_files.is_empty();
    let mut results = match read(request, &printed.stdout, &from) {
        // A build prints anything.
        Err(GatherError::Adapter { source: why, .. }) if is_measured => {
            if !matches!(why, AdapterError::Nothing(_)) {
                remarks.push(format!("the output of {from} is not a result: {why}"));
            }
            Results::default()
        }
        // Any line with a time looks like a result of this adapter.
        Ok(results) if is_measured && results.chosen() == Some(Adapter::JsTime) => {
            Results::default()
        }
        found => found?,
    };
    tool_files::add_samples(&mut results, directory, started);
    if source.is_build_time {
        add_build_time(&mut results, command, printed.elapsed.as_secs_f64())?;
    }
    add_sizes(&mut results, &source.sized_files)?;
    Ok(vec![results])
}

/// The output or files of a run before it failed. Empty if these contain no result.
fn of_failed_run(
    request: &Request,
    stdout: &[u8],
    started: SystemTime,
    before: &[Option<FileState>],
) -> Vec<Results> {
    let Source { files, sized_files, is_build_time, .. } = &request.source;
    // The time of a failed build is meaningless, and its files are outdated.
    if *is_build_time || !sized_files.is_empty() {
        return Vec::new();
    }
    if !files.is_empty() {
        let is_old = |(path, before): (&PathBuf, &Option<FileState>)| *before == state(path);
        let is_any_old = files.iter().zip(before).any(is_old);
        return if is_any_old {
            Vec::new()
        } else {
            read_files(request, stdout).unwrap_or_default()
        };
    }
    let Ok(mut results) = read(request, stdout, "") else { return Vec::new() };
    tool_files::add_samples(&mut results, &request.directory, started);
    vec![results]
}

/// A suggestion about a failed run.
fn help(iterations: u32, results: &[Results]) -> String {
    let printed = results.iter().map(|results| results.benchmarks.len()).max().unwrap_or_default();
    match (iterations, printed) {
        (1, 0) => String::new(),
        (1, printed) => {
            let benchmarks = plural(printed, "benchmark");
            format!("; --allow-failure keeps the results of {benchmarks} that it printed")
        }
        _ => "; --allow-failure leaves out the runs that fail".to_owned(),
    }
}

fn without_command(request: &Request) -> Result<Vec<Results>, GatherError> {
    let source = &request.source;
    if !source.sized_files.is_empty() {
        let mut results = Results::default();
        add_sizes(&mut results, &source.sized_files)?;
        return Ok(vec![results]);
    }
    if !source.files.is_empty() {
        return read_files(request, b"");
    }
    let mut stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(GatherError::Other(anyhow!(
            "there is nothing to run: give a command (`wingbeat run cargo bench`), a file of results (--file), or \
             results on stdin"
        )));
    }
    let mut text = Vec::new();
    stdin.read_to_end(&mut text).map_err(|error| anyhow!("no results came on stdin: {error}"))?;
    match text.iter().all(u8::is_ascii_whitespace) {
        true => Err(anyhow!("no results came on stdin: it is empty").into()),
        false => Ok(vec![read(request, &text, "stdin")?]),
    }
}

/// A remark about values outside of their own spread: one of the numbers is wrong, or in another unit.
pub(super) fn outside_of_their_spread(iterations: &[Results]) -> Option<String> {
    let benchmarks = iterations.iter().flat_map(|results| &results.benchmarks);
    let metrics = benchmarks.flat_map(|it| it.metrics.iter().map(move |metric| (&it.name, metric)));
    let is_outside = |metric: &Metric| {
        metric.lower_value.is_some_and(|lower| metric.value < lower)
            || metric.upper_value.is_some_and(|upper| metric.value > upper)
    };
    let outside = metrics.filter(|(_, (_, metric))| is_outside(metric));
    let mut named =
        outside.map(|(name, (measure, _))| format!("{name} {}", measure.slug)).peekable();
    named.peek()?;
    let named = first_few(named);
    Some(format!(
        "the value lies outside of its own lower and upper value: {named}; check the numbers"
    ))
}

fn read_files(request: &Request, printed: &[u8]) -> Result<Vec<Results>, GatherError> {
    let one = |path: &PathBuf| {
        let text = fs::read(path).map_err(unreadable(path))?;
        let results = request.adapter.parse_file(&text, printed, request.average);
        results.map_err(|source| GatherError::Adapter { from: path.display().to_string(), source })
    };
    request.source.files.iter().map(one).collect()
}

/// Detects whether a file was written: its modification time and size.
type FileState = (SystemTime, u64);

fn state(path: &Path) -> Option<FileState> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(request: &Request, text: &[u8], from: &str) -> Result<Results, GatherError> {
    request
        .adapter
        .parse(text, request.average)
        .map_err(|source| GatherError::Adapter { from: from.to_owned(), source })
}

/// Adds the time of a build in seconds. The benchmark is the command line.
fn add_build_time(results: &mut Results, command: &Benchmark, seconds: f64) -> anyhow::Result<()> {
    let name = BenchmarkName::new(command.display())?;
    results.add(name, Measure::named("build-time"), Metric::new(seconds))?;
    Ok(())
}

/// Adds the sizes of files. The benchmarks are the file names, with as much of their paths as needed to be unique.
fn add_sizes(results: &mut Results, files: &[PathBuf]) -> anyhow::Result<()> {
    let base = |path: &Path| {
        path.file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
    };
    let mut occurrences: BTreeMap<String, usize> = BTreeMap::new();
    for path in files {
        *occurrences.entry(base(path)).or_default() += 1;
    }
    for path in files {
        let size = size(path)?;
        let is_single = occurrences.get(&base(path)) == Some(&1);
        let name = if is_single { base(path) } else { path.display().to_string() };
        let metric = Metric::new(size as f64);
        results.add(BenchmarkName::new(name)?, Measure::named("file-size"), metric)?;
    }
    Ok(())
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> anyhow::Error {
    move |error| anyhow!("cannot read {}: {error}", path.display())
}

/// Size in bytes of a file, or of all files below a folder: `du --apparent-size` without the sizes of folders and
/// links. Links inside are not followed, and hard links count once.
fn size(path: &Path) -> anyhow::Result<u64> {
    let metadata = fs::metadata(path).map_err(unreadable(path))?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut folders = vec![path.to_owned()];
    let mut names = HashSet::new();
    let (mut bytes, mut entries) = (0_u64, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(unreadable(&folder))? {
            let entry = entry.map_err(unreadable(&folder))?;
            entries += 1;
            if entries > ENTRIES_MAX {
                bail!(
                    "{} has more than {ENTRIES_MAX} files in it; give a folder of build results (--file-size)",
                    path.display()
                );
            }
            let metadata = entry.metadata().map_err(unreadable(&entry.path()))?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file()
                && (metadata.nlink() == 1 || names.insert((metadata.dev(), metadata.ino())))
            {
                bytes = bytes.saturating_add(metadata.len());
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_as_large_as_their_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).expect("folders");
        for (name, bytes) in [("x", 1_000_000), ("a/y", 10), ("a/b/z", 1)] {
            fs::write(at(name), vec![0; bytes]).expect("a file");
        }
        assert_eq!(size(&at("x")).ok(), Some(1_000_000));
        assert_eq!(size(folder.path()).ok(), Some(1_000_011));
        fs::hard_link(at("x"), at("a/x")).expect("a link");
        std::os::unix::fs::symlink("/", at("a/root")).expect("a link");
        std::os::unix::fs::symlink(at("a"), at("again")).expect("a link");
        assert_eq!(size(folder.path()).ok(), Some(1_000_011), "links add nothing");
        assert_eq!(
            size(&at("again")).ok(),
            Some(1_000_011),
            "but the one that is given is followed"
        );
        assert!(size(&at("missing")).is_err());
    }
}
