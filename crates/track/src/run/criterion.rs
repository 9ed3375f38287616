//! Reads the files written by Criterion, which contain the samples that its output omits.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{adapter::criterion_dir, model::Results};

/// Maximum depth below `target/criterion`: groups, functions, parameters, `new`.
const DEPTH_MAX: usize = 8;

/// Adds the samples of benchmarks that Criterion wrote since `started`. Unreadable files are skipped: the output alone
/// is a result too.
pub(super) fn add_samples(results: &mut Results, directory: &Path, started: SystemTime) {
    let mut listing = Vec::new();
    for root in roots(directory) {
        list(&root, DEPTH_MAX, &mut listing);
    }
    let listed = listing.iter().map(|(path, modified)| (path.as_path(), *modified));
    let folders = criterion_dir::written_since(listed, started);
    let all: Vec<_> = folders.iter().filter_map(|folder| read(folder)).collect();
    criterion_dir::merge(results, &all);
}

/// Criterion's folders: below the target folder of the workspace, which is in the folder or one of its parents.
fn roots(directory: &Path) -> Vec<PathBuf> {
    let named = ["CRITERION_HOME", "CARGO_TARGET_DIR"].map(env::var_os);
    let [home, target] = named.map(|value| value.map(PathBuf::from));
    let chosen = home.or_else(|| target.map(|target| target.join("criterion")));
    let found =
        || directory.ancestors().map(|at| at.join("target/criterion")).find(|at| at.is_dir());
    chosen.or_else(found).into_iter().collect()
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

fn read(folder: &Path) -> Option<criterion_dir::CriterionSamples> {
    let [benchmark, estimates, sample] =
        criterion_dir::FILES.map(|file| fs::read(folder.join(file)).unwrap_or_default());
    criterion_dir::read(&benchmark, &estimates, &sample).ok()
}
