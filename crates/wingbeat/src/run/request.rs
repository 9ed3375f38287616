//! From flags, the environment and `wingbeat.toml` to a request.

use std::{env, path::Path};

use anyhow::Context as _;
use time::OffsetDateTime;
use wingbeat_track::{
    adapter::Adapter,
    config::Config,
    model::{BranchName, ProjectName, Slug, TestbedName},
    run::{Benchmark, Branching, Interrupt, Request, Source, git},
};

use super::{args::RunArgs, thresholds::thresholds};

/// The request that the flags make.
pub(super) fn request(args: &RunArgs, interrupt: Interrupt) -> anyhow::Result<Request> {
    let directory = env::current_dir().context("cannot tell the current folder")?;
    let config = Config::find(&directory)?;
    let named = thresholds(&args.thresholds)?;
    // What the command line says of a measure stands for all that the file says of it.
    let mut all = config.thresholds;
    all.retain(|known| named.iter().all(|new| new.measure != known.measure));
    all.extend(named);
    Ok(Request {
        project: project(args, config.project, &directory)?,
        branch: branch(args, &directory)?,
        hash: hash(args, &directory),
        branching: Branching {
            start_point: start_point(args)?,
            hash: args.start_point_hash.clone().filter(|hash| !hash.is_empty()),
            max_versions: Some(args.start_point_max_versions),
            is_reset: args.start_point_reset,
        },
        testbed: testbed(args, config.testbed)?,
        source: source(args),
        adapter: match (args.adapter, variable("ADAPTER")) {
            (Some(adapter), _) => adapter,
            (None, Some(name)) => name.parse()?,
            (None, None) => config.adapter.unwrap_or(Adapter::Magic),
        },
        average: args.average.map(Into::into),
        iterations: args.iter,
        fold: args.fold.map(Into::into),
        allow_failure: args.allow_failure,
        backdate: args
            .backdate
            .map(OffsetDateTime::from_unix_timestamp)
            .transpose()
            .context("--backdate takes seconds since 1970")?,
        thresholds: all,
        settings: config.settings,
        confirm: args.confirm,
        directory,
        interrupt,
    })
}

/// A variable of ours, or else Bencher's of the same meaning. An empty one is none.
pub(super) fn variable(name: &str) -> Option<String> {
    ["WINGBEAT", "BENCHER"]
        .iter()
        .filter_map(|prefix| env::var(format!("{prefix}_{name}")).ok())
        .find(|value| !value.is_empty())
}

/// The first of these variables that says something.
fn first(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| env::var(name).ok()).find(|value| !value.is_empty())
}

fn project(
    args: &RunArgs,
    config: Option<ProjectName>,
    directory: &Path,
) -> anyhow::Result<ProjectName> {
    if let Some(project) = args.project.clone() {
        return Ok(project);
    }
    if let Some(name) = variable("PROJECT") {
        return Ok(ProjectName::new(name)?);
    }
    if let Some(project) = config {
        return Ok(project);
    }
    let folder = || directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = git::repository_name(directory).or_else(folder).unwrap_or_default();
    Ok(ProjectName::new(Slug::of(&name).as_str())?)
}

/// The services that run jobs check out a commit rather than a branch, and tell the branch besides.
fn branch(args: &RunArgs, directory: &Path) -> anyhow::Result<BranchName> {
    if let Some(branch) = args.branch.clone() {
        return Ok(branch);
    }
    let told = ["GITHUB_HEAD_REF", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_BRANCH"];
    let name = variable("BRANCH")
        .or_else(|| first(&told))
        .or_else(|| git::branch(directory))
        .or_else(|| first(&["GITHUB_REF_NAME"]))
        .unwrap_or_else(|| "main".to_owned());
    Ok(BranchName::new(name)?)
}

/// A commit is looked for by its full hash later, so that is what is stored.
fn hash(args: &RunArgs, directory: &Path) -> Option<String> {
    match args.hash.as_deref().filter(|hash| !hash.is_empty()) {
        Some(hash) => git::resolve(directory, hash).or_else(|| Some(hash.to_owned())),
        None => git::head(directory),
    }
}

/// An empty start point is none: jobs pass a variable that is empty where there is no pull request.
fn start_point(args: &RunArgs) -> anyhow::Result<Option<BranchName>> {
    let named = args.start_point.as_deref().filter(|name| !name.is_empty());
    Ok(named.map(BranchName::new).transpose()?)
}

fn testbed(args: &RunArgs, config: Option<TestbedName>) -> anyhow::Result<TestbedName> {
    if let Some(testbed) = args.testbed.clone() {
        return Ok(testbed);
    }
    match (variable("TESTBED"), config) {
        (Some(name), _) => Ok(TestbedName::new(name)?),
        (None, Some(testbed)) => Ok(testbed),
        // As Bencher calls a machine that has no name.
        (None, None) => Ok(TestbedName::new("Linux")?),
    }
}

fn source(args: &RunArgs) -> Source {
    let command = match args.command.as_slice() {
        [] => variable("CMD").map(|line| shell(args, line.into())),
        [line] if !args.exec => Some(shell(args, line.clone())),
        words => Some(Benchmark::Exec(words.to_vec())),
    };
    Source {
        command,
        files: args.file.clone(),
        sized_files: args.file_size.clone(),
        is_build_time: args.build_time,
    }
}

fn shell(args: &RunArgs, line: std::ffi::OsString) -> Benchmark {
    Benchmark::Shell { shell: args.shell.clone(), flag: args.flag.clone(), line }
}
