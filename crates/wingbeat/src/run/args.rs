//! The flags of `wingbeat run`: those of `bencher run`, with the same meaning, and a few of our own.

use std::{ffi::OsString, ops::Bound, path::PathBuf};

use clap::{Args, ValueEnum};
use wingbeat_stats::random::Random;
use wingbeat_track::{
    adapter::Adapter,
    mock::Mock,
    model::{Average, BranchName, ProjectName, TestbedName},
    run::Fold,
};

use crate::values::share_within;

/// Flags of `wingbeat run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Project of the report [default: wingbeat.toml, or the name of the repository]
    #[arg(long, value_name = "NAME")]
    pub project: Option<ProjectName>,
    /// Branch that is measured [default: the one that is checked out]
    #[arg(long, visible_alias = "if-branch", value_name = "NAME", help_heading = "Branch")]
    pub branch: Option<BranchName>,
    /// Commit that is measured [default: the one that is checked out]
    #[arg(long, value_name = "HASH", help_heading = "Branch")]
    pub hash: Option<String>,
    /// Branch that this one comes from, and whose history it is compared with
    #[arg(long, aliases = ["branch-start-point", "else-if-branch"], value_name = "BRANCH")]
    #[arg(help_heading = "Branch")]
    pub start_point: Option<String>,
    /// Commit at which the branch begins [default: the merge base]
    #[arg(long, alias = "branch-start-point-hash", value_name = "HASH", requires = "start_point")]
    #[arg(help_heading = "Branch")]
    pub start_point_hash: Option<String>,
    /// Versions of the start point that count at most
    #[arg(long, value_name = "N", requires = "start_point", default_value_t = 255)]
    #[arg(help_heading = "Branch", value_parser = clap::value_parser!(u32).range(1..))]
    pub start_point_max_versions: u32,
    /// Take over the thresholds of the start point (for --host)
    #[arg(long, requires = "start_point", help_heading = "Branch")]
    pub start_point_clone_thresholds: bool,
    /// Begin the branch's history anew
    #[arg(long, alias = "branch-reset", help_heading = "Branch")]
    pub start_point_reset: bool,
    /// Machine, or kind of machine, that measures [default: wingbeat.toml, or the operating system]
    #[arg(long, value_name = "NAME")]
    pub testbed: Option<TestbedName>,

    /// What reads the output; docs/adapters.md lists them [default: wingbeat.toml, or magic]
    #[arg(long, value_name = "ADAPTER", help_heading = "Results")]
    pub adapter: Option<Adapter>,
    /// Figure that stands for a benchmark, where the tool tells both
    #[arg(long, value_enum, value_name = "AVERAGE", help_heading = "Results")]
    pub average: Option<AverageName>,
    /// How often the command is run
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Results")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iter: u32,
    /// Make one result of all iterations
    #[arg(long, value_enum, value_name = "FOLD", help_heading = "Results")]
    pub fold: Option<FoldName>,
    /// Pass over runs of the command that fail
    #[arg(long, help_heading = "Results")]
    pub allow_failure: bool,
    /// When the report is to have begun, in seconds since 1970
    #[arg(long, value_name = "SECONDS", help_heading = "Results", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    pub backdate: Option<i64>,
    /// How long the command takes is the result
    #[arg(long, conflicts_with = "file", requires = "command", help_heading = "Results")]
    pub build_time: bool,
    /// File of results, which the command writes if there is one; each is an iteration
    #[arg(long, value_name = "FILE", conflicts_with = "file_size", help_heading = "Results")]
    pub file: Vec<PathBuf>,
    /// File whose size is a result
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub file_size: Vec<PathBuf>,

    #[command(flatten)]
    pub thresholds: ThresholdArgs,
    /// Exit with 1 if there are alerts, or benchmarks that failed
    #[arg(long, visible_alias = "error-on-alert", help_heading = "Decision")]
    pub err: bool,
    /// Measure what looks bad again, up to N times: only what recurs is an alert; 0: never measure again
    /// [default: only what looks worse than fewer than five reports, in turns with the commit before]
    #[arg(long, value_name = "N", help_heading = "Decision")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    pub confirm: Option<u32>,

    /// File with the reports [env: WINGBEAT_STORE] [default: .wingbeat/results.db in the repository]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Form of the report on stdout
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// Compare, and store nothing
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub ci: CiArgs,
    #[command(flatten)]
    pub host: HostArgs,

    /// Shell for a command that is one argument
    #[arg(long, value_name = "SHELL", default_value = "/bin/sh", help_heading = "Command")]
    pub shell: OsString,
    /// Flag of the shell before the command
    #[arg(long, value_name = "FLAG", default_value = "-c", allow_hyphen_values = true)]
    #[arg(help_heading = "Command")]
    pub flag: OsString,
    /// Run the command without a shell, even if it is one argument
    #[arg(long, conflicts_with_all = ["shell", "flag"], help_heading = "Command")]
    pub exec: bool,
    /// What Bencher once took, without effect
    #[arg(long, aliases = ["else-branch", "endif-branch", "no-hash"], hide = true)]
    pub deprecated: bool,
    /// The command: one argument is for the shell, several are a program with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", help_heading = None)]
    pub command: Vec<OsString>,
}

/// Flags that name thresholds: the n-th of each belongs to the n-th measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Decision")]
pub(crate) struct ThresholdArgs {
    /// Measure that a threshold judges. Without any, and without wingbeat.toml, `auto` judges all
    #[arg(long = "threshold-measure", value_name = "MEASURE")]
    pub measure: Vec<String>,
    /// Test: auto, change_point, static, percentage, z_score, t_test, log_normal, iqr, delta_iqr
    #[arg(long = "threshold-test", value_name = "TEST")]
    pub test: Vec<String>,
    /// Points of history without which nothing is decided; `_` for none
    #[arg(long = "threshold-min-sample-size", value_name = "N")]
    pub min_sample_size: Vec<String>,
    /// Newest points that count
    #[arg(long = "threshold-max-sample-size", value_name = "N")]
    pub max_sample_size: Vec<String>,
    /// Seconds for which a point counts
    #[arg(long = "threshold-window", value_name = "SECONDS")]
    pub window: Vec<String>,
    /// Setting of the lower limit
    #[arg(long = "threshold-lower-boundary", value_name = "VALUE", allow_hyphen_values = true)]
    pub lower_boundary: Vec<String>,
    /// Setting of the upper limit
    #[arg(long = "threshold-upper-boundary", value_name = "VALUE", allow_hyphen_values = true)]
    pub upper_boundary: Vec<String>,
    /// Forget thresholds that are not named. Without --host that is so anyway
    #[arg(long = "thresholds-reset")]
    pub reset: bool,
}

/// Flags about the service that runs the job.
#[derive(Debug, Args)]
#[command(next_help_heading = "Continuous integration")]
pub(crate) struct CiArgs {
    /// Token with which a comment on the pull request and a check run are written
    #[arg(long, value_name = "TOKEN")]
    pub github_actions: Option<String>,
    /// Comment only if there is a threshold
    #[arg(long, requires = "github_actions")]
    pub ci_only_thresholds: bool,
    /// Comment only if there is an alert
    #[arg(long, requires = "github_actions")]
    pub ci_only_on_alert: bool,
    /// Links that need no account (for --host)
    #[arg(long, requires = "github_actions")]
    pub ci_public_links: bool,
    /// Name by which the comment is found again, and of the check run
    #[arg(long, value_name = "ID", requires = "github_actions")]
    pub ci_id: Option<String>,
    /// Number of the pull request
    #[arg(long, value_name = "N", requires = "github_actions")]
    pub ci_number: Option<u64>,
    /// A project without a name is no error here
    #[arg(long, hide = true)]
    pub ci_on_the_fly: bool,
}

/// Flags about a server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct HostArgs {
    /// Send the report to a Bencher server instead of storing it [env: WINGBEAT_HOST, BENCHER_HOST]
    #[arg(long, value_name = "URL")]
    pub host: Option<String>,
    /// Key for the server [env: WINGBEAT_API_KEY, BENCHER_API_KEY]
    #[arg(long, value_name = "KEY", conflicts_with = "token")]
    pub key: Option<String>,
    /// Token for the server [env: WINGBEAT_API_TOKEN, BENCHER_API_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Seconds to connect
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=900))]
    pub timeout: u64,
    /// Attempts in all
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,
    /// Seconds after the first attempt that fails; each further pause is twice as long
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub retry_after: u64,
    /// Seconds of the longest pause
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub max_retry_after: u64,
}

/// Flags of `wingbeat mock`.
#[derive(Debug, Args)]
pub(crate) struct MockArgs {
    /// Seed; the same one gives the same results [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Benchmarks
    #[arg(long, value_name = "N", default_value_t = 5)]
    count: usize,
    /// Measure of each benchmark; may be repeated
    #[arg(long, value_name = "MEASURE", default_value = "latency")]
    measure: Vec<String>,
    /// Power of ten of the values
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-100..=100))]
    pow: i32,
    /// How far values lie from their middle at most, in percent, instead of anywhere in a wide range
    #[arg(long, value_name = "PERCENT", value_parser = noise)]
    noise: Option<f64>,
    /// How much more the last benchmark takes, in percent: a regression, or below 0 the contrary
    #[arg(long, value_name = "PERCENT", default_value = "0", allow_hyphen_values = true)]
    #[arg(value_parser = slower)]
    slower: f64,
    /// Print the results, then fail
    #[arg(long)]
    fail: bool,
    /// Fail every other time, by chance; with --seed, always or never
    #[arg(long)]
    flaky: bool,
}

/// Forms of the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table, alerts, one line of verdict
    #[default]
    Human,
    /// Bencher's `JsonReport`, with the reasons for each verdict
    Json,
    /// For comments and summaries
    Markdown,
    /// The same for pages
    Html,
}

/// Figures that stand for a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AverageName {
    Mean,
    Median,
}

impl From<AverageName> for Average {
    fn from(name: AverageName) -> Self {
        match name {
            AverageName::Mean => Self::Mean,
            AverageName::Median => Self::Median,
        }
    }
}

/// Ways of making one result of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FoldName {
    Min,
    Max,
    Mean,
    Median,
}

impl From<FoldName> for Fold {
    fn from(name: FoldName) -> Self {
        match name {
            FoldName::Min => Self::Min,
            FoldName::Max => Self::Max,
            FoldName::Mean => Self::Mean,
            FoldName::Median => Self::Median,
        }
    }
}

impl RunArgs {
    /// Whether alerts make an exit code.
    pub(crate) fn is_strict(&self) -> bool {
        self.err
    }
}

impl MockArgs {
    pub(crate) fn mock(&self) -> Mock {
        Mock {
            seed: self.seed.unwrap_or_else(time_seed),
            count: self.count,
            measures: self.measure.clone(),
            pow: self.pow,
            noise: self.noise,
            slower: self.slower,
        }
    }

    /// Whether it is to fail this time.
    pub(crate) fn fails(&self) -> bool {
        // Not the draws that the values come from: else only some values would be seen to fail.
        let mut random = Random::new(self.seed.unwrap_or_else(time_seed) ^ u64::MAX);
        self.fail || (self.flaky && random.unit() < 0.5)
    }
}

fn noise(text: &str) -> Result<f64, String> {
    share_within(text, (Bound::Included(0.0), Bound::Excluded(100.0)))
}

fn slower(text: &str) -> Result<f64, String> {
    share_within(text, (Bound::Excluded(-100.0), Bound::Unbounded))
}

/// Another number each time.
fn time_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // The lower half of the nanoseconds is what changes.
    since.map_or(0, |since| u64::try_from(since.as_nanos() & u128::from(u64::MAX)).unwrap_or(0))
}
