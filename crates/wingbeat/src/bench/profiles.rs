//! `wingbeat bench --profiles DIR`: one file per case, named after its benchmark, where `wingbeat run` looks for it.

use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use wingbeat_bpf_bench::result::Case;
use wingbeat_track::run::left_profiles::{VARIABLE, file_name};

use super::BenchArgs;
use crate::shell::warning;

/// Folder of the flag, or of the variable set by `wingbeat run`. Creates it.
pub(super) fn folder(args: &BenchArgs) -> anyhow::Result<Option<PathBuf>> {
    let variable = || env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(folder) = args.profiles.clone().or_else(variable) else { return Ok(None) };
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder {} for profiles", folder.display()))?;
    Ok(Some(folder))
}

/// Writes the profiles of the cases that have one.
pub(super) fn write(folder: &Path, cases: &[Case]) -> anyhow::Result<()> {
    let mut names = HashSet::new();
    for case in cases {
        // Numbers cases of the same name like the adapters.
        let numbered = |number: usize| match number {
            1 => case.name.clone(),
            _ => format!("{}#{number}", case.name),
        };
        let name = (1..).map(numbered).find(|name| names.insert(name.clone()));
        let Some((name, profile)) = name.zip(case.profile.as_ref()) else { continue };
        let Some(file) = file_name(&name) else {
            warning!("no profile of {name}: its name is too long for that of a file");
            continue;
        };
        let path = folder.join(file);
        fs::write(&path, profile).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
