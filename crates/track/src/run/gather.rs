//! From a command, files or stdin to results.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{Benchmark, CommandError, Echo, Request, RunError, criterion, left_profiles};
use crate::{
    adapter::AdapterError,
    model::{AddError, BenchmarkName, InvalidName, Measure, Metric, Results},
};

/// Most files in one report, as Bencher has it.
const FILES_MAX: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// What to run. Without it, files or stdin are read.
    pub command: Option<Benchmark>,
    /// Files that hold results, each an iteration. With a command, it writes them.
    pub files: Vec<PathBuf>,
    pub sized_files: Vec<PathBuf>,
    /// Whether how long the command takes is the result, and not what it prints.
    pub is_build_time: bool,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error("cannot read {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{0} files are too many for one report; {FILES_MAX} are the limit")]
    TooManyFiles(usize),
    #[error(
        "there is nothing to run: give a command (`wingbeat run cargo bench`), a file of results (--file), or \
         results on stdin"
    )]
    Nothing,
    #[error("no results came on stdin{0}")]
    Stdin(String),
    #[error("{from}: {source}")]
    Adapter { from: String, source: AdapterError },
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Metric(#[from] AddError),
    #[error("all {iterations} iterations of `{command}` failed, the last one: it {how}")]
    AllFailed {
        command: String,
        iterations: u32,
        /// `failed with status 3`.
        how: String,
    },
}

/// One `Results` for each iteration. The command may leave exact profiles in the folder `profiles`.
pub(super) fn gather(
    request: &Request,
    profiles: Option<&Path>,
    echo: &mut Echo<'_>,
    remarks: &mut Vec<String>,
) -> Result<Vec<Results>, RunError> {
    let source = &request.source;
    let count = source.files.len() + source.sized_files.len();
    if count > FILES_MAX {
        return Err(GatherError::TooManyFiles(count).into());
    }
    let Some(command) = &source.command else { return Ok(without_command(request)?) };
    let variable = profiles.map(|folder| (left_profiles::VARIABLE, folder));
    let mut iterations = Vec::new();
    let mut last_failure = String::new();
    for _ in 0..request.iterations.max(1) {
        let started = SystemTime::now();
        let before = source.files.iter().map(|path| state(path)).collect::<Vec<_>>();
        let printed = match command.run(variable, &request.interrupt, echo) {
            Ok(printed) => printed,
            Err(CommandError::Failed { command, how }) if request.allow_failure => {
                remarks.push(format!("`{command}` {how}; the iteration was left out"));
                last_failure = how;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if source.is_build_time || !source.sized_files.is_empty() {
            let mut results = Results::default();
            if source.is_build_time {
                add_build_time(&mut results, command, printed.elapsed.as_secs_f64())?;
            }
            add_sizes(&mut results, &source.sized_files)?;
            iterations.push(results);
        } else if source.files.is_empty() {
            let mut results = read(request, &printed.stdout, &format!("`{}`", command.display()))?;
            criterion::add_samples(&mut results, &request.directory, started);
            iterations.push(results);
        } else {
            iterations.extend(read_files(request, &printed.stdout)?);
            for (path, before) in source.files.iter().zip(before) {
                if before == state(path) {
                    let command = command.display();
                    remarks.push(format!(
                        "{} existed before, and `{command}` did not write it: are its results old?",
                        path.display()
                    ));
                }
            }
        }
    }
    if iterations.is_empty() {
        let (command, iterations) = (command.display(), request.iterations.max(1));
        return Err(GatherError::AllFailed { command, iterations, how: last_failure }.into());
    }
    Ok(iterations)
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
        return Err(GatherError::Nothing);
    }
    let mut text = Vec::new();
    stdin.read_to_end(&mut text).map_err(|error| GatherError::Stdin(format!(": {error}")))?;
    match text.iter().all(u8::is_ascii_whitespace) {
        true => Err(GatherError::Stdin(": it is empty".to_owned())),
        false => Ok(vec![read(request, &text, "stdin")?]),
    }
}

fn read_files(request: &Request, printed: &[u8]) -> Result<Vec<Results>, GatherError> {
    let one = |path: &PathBuf| {
        let text =
            fs::read(path).map_err(|source| GatherError::File { path: path.clone(), source })?;
        let results = request.adapter.parse_file(&text, printed, request.average);
        results.map_err(|source| GatherError::Adapter { from: path.display().to_string(), source })
    };
    request.source.files.iter().map(one).collect()
}

/// What tells whether a file was written: its time and its size.
fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(request: &Request, text: &[u8], from: &str) -> Result<Results, GatherError> {
    request
        .adapter
        .parse(text, request.average)
        .map_err(|source| GatherError::Adapter { from: from.to_owned(), source })
}

/// The command line is the benchmark, and its time in seconds, to two decimals as Bencher rounds it.
fn add_build_time(
    results: &mut Results,
    command: &Benchmark,
    seconds: f64,
) -> Result<(), GatherError> {
    let name = BenchmarkName::new(command.display())?;
    let value = (seconds * 100.0).round() / 100.0;
    results.add(name, Measure::named("build-time"), Metric::new(value))?;
    Ok(())
}

/// The names of files are benchmarks, with as much of their paths as tells them apart.
fn add_sizes(results: &mut Results, files: &[PathBuf]) -> Result<(), GatherError> {
    let base = |path: &Path| {
        path.file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
    };
    let mut occurrences: BTreeMap<String, usize> = BTreeMap::new();
    for path in files {
        *occurrences.entry(base(path)).or_default() += 1;
    }
    for path in files {
        let size = fs::metadata(path)
            .map_err(|source| GatherError::File { path: path.clone(), source })?
            .len();
        let is_single = occurrences.get(&base(path)) == Some(&1);
        let name = if is_single { base(path) } else { path.display().to_string() };
        let metric = Metric::new(size as f64);
        results.add(BenchmarkName::new(name)?, Measure::named("file-size"), metric)?;
    }
    Ok(())
}
