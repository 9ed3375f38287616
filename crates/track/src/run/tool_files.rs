//! Reads the files that benchmark tools write in addition to their output: Gungraun's counts by function and line, and
//! Criterion's samples.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use wingbeat_pprof::{
    callgrind::{self, CALLGRIND_BYTES_MAX},
    exact::{Counted, instructions},
};

use crate::{
    adapter::criterion_dir,
    model::{BenchmarkName, Report, Results},
};

/// Maximum depth below `target/gungraun`: target, package, file, modules, group, benchmark.
const DEPTH_MAX: usize = 12;

/// The gzip'd pprof of each benchmark of a report whose files were written since `started`, or why there is none.
pub(super) fn profiles(
    report: &Report,
    directory: &Path,
    started: SystemTime,
) -> BTreeMap<BenchmarkName, Result<Vec<u8>, String>> {
    let mut listing = Vec::new();
    if let Some(root) = root(directory, "GUNGRAUN_HOME", "gungraun") {
        list(&root, DEPTH_MAX, &mut listing);
    }
    listing.retain(|(path, modified)| *modified >= started && is_callgrind(path));
    listing.sort();
    let mut all = BTreeMap::new();
    for (_, results, ..) in report.metrics() {
        let name = &results.name;
        let files = listing.iter().map(|(path, _)| path.as_path());
        let files: Vec<_> = files.filter(|path| is_of(name.as_str(), path)).collect();
        if !files.is_empty() && !all.contains_key(name) {
            all.insert(name.clone(), profile(&files));
        }
    }
    all
}

/// A tool's folder: below the target folder of the workspace, which is in the folder or one of its parents.
fn root(directory: &Path, variable: &str, name: &str) -> Option<PathBuf> {
    let [home, target] = [variable, "CARGO_TARGET_DIR"].map(env::var_os);
    let chosen = home.map(PathBuf::from).or_else(|| Some(Path::new(&target?).join(name)));
    let mut targets = directory.ancestors().map(|at| at.join("target").join(name));
    chosen.or_else(|| targets.find(|at| at.is_dir()))
}

/// Only the newest counts, not the previous ones (`.out.old`).
fn is_callgrind(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("callgrind.") && name.ends_with(".out")
}

/// Whether a file belongs to a benchmark: `…/FILE/GROUP/FUNCTION.ID/callgrind.….out` to
/// `FILE::GROUP::FUNCTION ID:ARGUMENTS`, in summaries `FILE::GROUP::FUNCTION::ID`.
fn is_of(benchmark: &str, file: &Path) -> bool {
    let (path, behind) = benchmark.split_once(' ').unwrap_or((benchmark, ""));
    let id = behind.split(':').next().unwrap_or_default();
    let Some((modules, function)) = path.rsplit_once("::") else { return false };
    let is_at = |modules: &str, name: &str| {
        let folder: PathBuf = modules.split("::").chain([name]).collect();
        file.parent().is_some_and(|at| at.ends_with(folder))
    };
    let in_summary = || {
        let (modules, of) = modules.rsplit_once("::")?;
        modules.contains("::").then(|| is_at(modules, &format!("{of}.{function}")))
    };
    match id {
        "" => is_at(modules, function) || in_summary() == Some(true),
        id => is_at(modules, &format!("{function}.{id}")),
    }
}

/// Merges all files of a benchmark: one per process, thread and part.
fn profile(files: &[&Path]) -> Result<Vec<u8>, String> {
    let mut counted: Vec<Counted> = Vec::new();
    for path in files {
        let mut text = Vec::new();
        let file = File::open(path).and_then(|file| {
            file.take(CALLGRIND_BYTES_MAX + 1).read_to_end(&mut text)?;
            Ok(())
        });
        let told = |why: String| format!("{}: {why}", path.display());
        file.map_err(|error| told(error.to_string()))?;
        if text.len() as u64 > CALLGRIND_BYTES_MAX {
            return Err(told(format!("it has more than {CALLGRIND_BYTES_MAX} bytes")));
        }
        let found = callgrind::instructions(&String::from_utf8_lossy(&text));
        counted.extend(found.map_err(|error| told(error.to_string()))?);
    }
    instructions(&counted).map_err(|error| error.to_string())
}

/// Maximum depth below `target/criterion`: groups, functions, parameters, `new`.
const CRITERION_DEPTH_MAX: usize = 8;

/// Adds the samples of benchmarks that Criterion wrote since `started`. Unreadable files are skipped: the output alone
/// is a result too.
pub(super) fn add_samples(results: &mut Results, directory: &Path, started: SystemTime) {
    let mut listing = Vec::new();
    if let Some(root) = root(directory, "CRITERION_HOME", "criterion") {
        list(&root, CRITERION_DEPTH_MAX, &mut listing);
    }
    let listed = listing.iter().map(|(path, modified)| (path.as_path(), *modified));
    let folders = criterion_dir::written_since(listed, started);
    let all: Vec<_> = folders.iter().filter_map(|folder| read_samples(folder)).collect();
    criterion_dir::merge(results, &all);
}

/// All files below a folder, with their modification times.
pub(super) fn list(folder: &Path, depth: usize, listing: &mut Vec<(PathBuf, SystemTime)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() && depth > 0 {
            list(&entry.path(), depth - 1, listing);
        } else if let Ok(modified) = metadata.modified() {
            listing.push((entry.path(), modified));
        }
    }
}

fn read_samples(folder: &Path) -> Option<criterion_dir::CriterionSamples> {
    let [benchmark, estimates, sample] =
        criterion_dir::FILES.map(|file| fs::read(folder.join(file)).unwrap_or_default());
    criterion_dir::read(&benchmark, &estimates, &sample).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_benchmarks() {
        let check = |benchmark, folder: &str, expected| {
            let file = Path::new("/p/target/gungraun/package").join(folder).join("callgrind.x.out");
            assert_eq!(is_of(benchmark, &file), expected, "{benchmark} {folder}");
        };
        check("file::group::sort", "file/group/sort", true);
        check("file::group::sort", "file/other/sort", false);
        check("file::group::sort", "file/group/sort.short", false);
        check("file::group::sort short:vec![1, 2]", "file/group/sort.short", true);
        check("file::group::sort short:vec![1, 2]", "file/group/sort.long", false);
        check("file::group::sort::short", "file/group/sort.short", true);
        check("file::module::group::sort", "file/module/group/sort", true);
        check("sort", "file/group/sort", false);
    }
}
