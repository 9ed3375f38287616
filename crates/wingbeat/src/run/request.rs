//! Converts flags, the environment and `wingbeat.toml` to a request.

use std::{env, path::Path};

use anyhow::{Context as _, bail};
use time::OffsetDateTime;
use wingbeat_track::{
    adapter::Adapter,
    config::Config,
    git,
    model::{BranchName, ProjectName, Slug, Slugs, TestbedName},
    run::{Benchmark, Branching, Interrupt, Request, Rules, Source},
};

use super::{args::RunArgs, thresholds::thresholds};
use crate::shell::refuse_flags_behind;

/// The request given by the flags.
pub(super) fn request(args: &RunArgs, interrupt: Interrupt) -> anyhow::Result<Request> {
    let directory = env::current_dir().context("cannot determine the current folder")?;
    let config = Config::find(&directory)?;
    let named = thresholds(&args.thresholds)?;
    // A measure on the command line overrides the file's whole threshold for it.
    let mut all = config.thresholds;
    all.retain(|known| named.iter().all(|new| new.measure != known.measure));
    all.extend(named);
    let mut remarks = Vec::new();
    let source = source(args)?;
    if source.command.is_none() && args.iter > 1 {
        let iterations = args.iter;
        bail!("--iter {iterations} needs a command to run: files and stdin are read once");
    }
    Ok(Request {
        project: project(args.project.as_ref(), config.project, &directory)?,
        branch: branch(args, &directory, &mut remarks)?,
        hash: match commit("--hash", args.hash.as_deref(), &directory)? {
            Some(hash) => Some(hash),
            None => git::head(&directory),
        },
        branching: Branching {
            start_point: start_point(args)?,
            hash: commit("--start-point-hash", args.start_point_hash.as_deref(), &directory)?,
            max_versions: Some(args.start_point_max_versions),
            is_reset: args.start_point_reset,
        },
        testbed: testbed(args, config.testbed)?,
        source,
        adapter: match (args.adapter, variable("ADAPTER")) {
            (Some(adapter), _) => adapter,
            (None, Some(name)) => name.parse()?,
            (None, None) => config.adapter.unwrap_or(Adapter::Magic),
        },
        average: args.average,
        iterations: args.iter,
        fold: args.fold,
        allow_failure: args.allow_failure,
        backdate: args
            .backdate
            .map(OffsetDateTime::from_unix_timestamp)
            .transpose()
            .context("--backdate takes seconds since 1970")?,
        rules: Rules::of(all, config.settings),
        measures: config.measures,
        slugs: Slugs::default(),
        confirm: args.confirm,
        is_gate: args.err,
        directory,
        remarks,
        interrupt,
    })
}

/// One of our variables, or Bencher's equivalent. Ignores empty ones.
pub(super) fn variable(name: &str) -> Option<String> {
    ["WINGBEAT", "BENCHER"]
        .iter()
        .filter_map(|prefix| env::var(format!("{prefix}_{name}")).ok())
        .find(|value| !value.is_empty())
}

/// The first non-empty of these variables.
fn first(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| env::var(name).ok()).find(|value| !value.is_empty())
}

/// The project: from the flag, the environment, the configuration, or the repository.
pub(crate) fn project(
    named: Option<&ProjectName>,
    config: Option<ProjectName>,
    directory: &Path,
) -> anyhow::Result<ProjectName> {
    if let Some(project) = named {
        return Ok(project.clone());
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

/// CI services check out a commit instead of a branch, and provide the branch in variables.
fn branch(
    args: &RunArgs,
    directory: &Path,
    remarks: &mut Vec<String>,
) -> anyhow::Result<BranchName> {
    if let Some(branch) = args.branch.clone() {
        return Ok(branch);
    }
    let told = ["GITHUB_HEAD_REF", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_BRANCH"];
    let name = variable("BRANCH")
        .or_else(|| first(&told))
        .or_else(|| git::branch(directory))
        .or_else(|| first(&["GITHUB_REF_NAME"]));
    if name.is_none() && git::head(directory).is_some() {
        remarks.push(format!(
            "no branch is checked out (detached HEAD), so the report is of branch {BRANCH}; \
             --branch NAME sets another"
        ));
    }
    Ok(BranchName::new(name.as_deref().unwrap_or(BRANCH))?)
}

/// Default branch.
const BRANCH: &str = "main";

/// Full hash of a commit given by a flag, for later lookups. A commit unknown to git must at least be a hash; an empty
/// text means none.
fn commit(flag: &str, said: Option<&str>, directory: &Path) -> anyhow::Result<Option<String>> {
    let Some(said) = said.filter(|said| !said.is_empty()) else { return Ok(None) };
    if let Some(hash) = git::resolve(directory, said) {
        return Ok(Some(hash));
    }
    let is_hash = (HASH_MIN..=HASH_MAX).contains(&said.len())
        && said.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hash {
        true => Ok(Some(said.to_lowercase())),
        false => bail!(
            "{flag} {said:?} is neither a commit in this repository nor a hash of {HASH_MIN} to \
             {HASH_MAX} hexadecimal digits"
        ),
    }
}

/// Shortest hash prefix that git accepts.
const HASH_MIN: usize = 4;

/// Digits of a SHA-256.
const HASH_MAX: usize = 64;

/// An empty start point means none: jobs pass an empty variable outside pull requests.
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
        // Bencher's name for a machine without a name.
        (None, None) => Ok(TestbedName::new("Linux")?),
    }
}

fn source(args: &RunArgs) -> anyhow::Result<Source> {
    if !args.exec {
        refuse_flags_behind(&args.command)?;
    }
    let command = match args.command.as_slice() {
        [] => variable("CMD").map(|line| shell(args, line.into())),
        [line] if !args.exec => Some(shell(args, line.clone())),
        words => Some(Benchmark::Exec(words.to_vec())),
    };
    Ok(Source {
        command,
        files: args.file.clone(),
        sized_files: args.file_size.clone(),
        is_build_time: args.build_time,
    })
}

fn shell(args: &RunArgs, line: std::ffi::OsString) -> Benchmark {
    Benchmark::Shell { shell: args.shell.clone(), flag: args.flag.clone(), line }
}
