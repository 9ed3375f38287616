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

use crate::{
    store::StoreArgs,
    values::{FormatArgs, Named, Values, named, share_within, time_seed},
};

/// Flags of `wingbeat run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Project of the report [default: wingbeat.toml, or the name of the repository]
    #[arg(long, value_name = "NAME")]
    pub project: Option<ProjectName>,
    /// Branch of the report [default: the one checked out]
    #[arg(long, visible_alias = "if-branch", value_name = "NAME", help_heading = "Branch")]
    pub branch: Option<BranchName>,
    /// Commit of the report [default: the one checked out]
    #[arg(long, value_name = "HASH", help_heading = "Branch")]
    pub hash: Option<String>,
    /// Branch that this one started from, whose history to compare with
    #[arg(long, aliases = ["branch-start-point", "else-if-branch"], value_name = "BRANCH")]
    #[arg(help_heading = "Branch")]
    pub start_point: Option<String>,
    /// Commit where the branch starts [default: the merge base]
    #[arg(long, alias = "branch-start-point-hash", value_name = "HASH", requires = "start_point")]
    #[arg(help_heading = "Branch")]
    pub start_point_hash: Option<String>,
    /// Maximum number of start-point versions to use
    #[arg(long, value_name = "N", requires = "start_point", default_value_t = 255)]
    #[arg(help_heading = "Branch", value_parser = clap::value_parser!(u32).range(1..))]
    pub start_point_max_versions: u32,
    /// Copy the thresholds of the start point (only with --host)
    #[arg(long, requires = "start_point", help_heading = "Branch")]
    pub start_point_clone_thresholds: bool,
    /// Start a new history for the branch
    #[arg(long, alias = "branch-reset", help_heading = "Branch")]
    pub start_point_reset: bool,
    /// Machine, or kind of machine, of the report [default: wingbeat.toml, or the operating system]
    #[arg(long, value_name = "NAME")]
    pub testbed: Option<TestbedName>,

    /// Parser for the tool's output; docs/adapters.md lists them [default: wingbeat.toml, or magic]
    #[arg(long, value_name = "ADAPTER", help_heading = "Results")]
    pub adapter: Option<Adapter>,
    /// Use the mean or the median if the tool reports both
    #[arg(long, value_parser = named::<Average>(), value_name = "AVERAGE", help_heading = "Results")]
    pub average: Option<Average>,
    /// Run the command N times
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Results")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iter: u32,
    /// Combine the results of all iterations into one
    #[arg(long, value_parser = named::<Fold>(), value_name = "FOLD", help_heading = "Results")]
    pub fold: Option<Fold>,
    /// Accept runs of the command that fail: leave them out, or if all do, keep what they printed
    #[arg(long, help_heading = "Results")]
    pub allow_failure: bool,
    /// Start time to record, in seconds since 1970
    #[arg(long, value_name = "SECONDS", help_heading = "Results", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    pub backdate: Option<i64>,
    /// Use the run time of the command as a result
    #[arg(long, conflicts_with = "file", requires = "command", help_heading = "Results")]
    pub build_time: bool,
    /// Read results from FILE, after running the command if there is one; each file is an iteration
    #[arg(long, value_name = "FILE", conflicts_with = "file_size", help_heading = "Results")]
    pub file: Vec<PathBuf>,
    /// Use the size of FILE, or of all files in a folder, as a result
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub file_size: Vec<PathBuf>,

    #[command(flatten)]
    pub thresholds: ThresholdArgs,
    /// Exit with 1 if there are alerts or failed benchmarks
    #[arg(long, visible_alias = "error-on-alert", help_heading = "Decision")]
    pub err: bool,
    /// Accept with --err that none of the known benchmarks is left
    #[arg(long, help_heading = "Decision")]
    pub allow_missing: bool,
    /// Measure suspicious results again, up to N times, and alert only if they recur; 0: never
    /// [default: once with --err; with fewer than five reports of history, alternating with the previous commit]
    #[arg(long, value_name = "N", help_heading = "Decision")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    pub confirm: Option<u32>,

    /// Store profiles with the report, which explain its alerts: exact counts where the tool leaves some, else
    /// run each benchmark once more under the profiler
    #[arg(long, value_name = "KIND", value_enum, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "auto", help_heading = "Results")]
    pub profile: Option<ProfileArg>,

    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub format: FormatArgs<Format>,
    /// Compare without storing
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub ci: CiArgs,
    #[command(flatten)]
    pub host: HostArgs,

    /// Shell that runs a command given as one argument
    #[arg(long, value_name = "SHELL", default_value = "/bin/sh", help_heading = "Command")]
    pub shell: OsString,
    /// Flag to pass to the shell before the command
    #[arg(long, value_name = "FLAG", default_value = "-c", allow_hyphen_values = true)]
    #[arg(help_heading = "Command")]
    pub flag: OsString,
    /// Run the command without a shell, even if it is one argument
    #[arg(long, conflicts_with_all = ["shell", "flag"], help_heading = "Command")]
    pub exec: bool,
    /// What Bencher once took, without effect
    #[arg(long, aliases = ["else-branch", "endif-branch", "no-hash"], hide = true)]
    pub deprecated: bool,
    /// Command to run: one argument is passed to the shell, several are a program with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", help_heading = None)]
    pub command: Vec<OsString>,
}

/// Flags that name thresholds: the n-th of each belongs to the n-th measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Decision")]
pub(crate) struct ThresholdArgs {
    /// Measure that the threshold applies to [default: wingbeat.toml, or the test `auto` for all measures]
    #[arg(long = "threshold-measure", value_name = "MEASURE")]
    pub measure: Vec<String>,
    /// Test to apply: auto, change_point, static, percentage, z_score, t_test, log_normal, iqr, delta_iqr
    #[arg(long = "threshold-test", value_name = "TEST")]
    pub test: Vec<String>,
    /// Minimum number of reports before the test applies; `_` for the default
    #[arg(long = "threshold-min-sample-size", value_name = "N")]
    pub min_sample_size: Vec<String>,
    /// Maximum number of reports to use, newest first
    #[arg(long = "threshold-max-sample-size", value_name = "N")]
    pub max_sample_size: Vec<String>,
    /// Use only reports of the last SECONDS
    #[arg(long = "threshold-window", value_name = "SECONDS")]
    pub window: Vec<String>,
    /// Lower boundary of the test
    #[arg(long = "threshold-lower-boundary", value_name = "VALUE", allow_hyphen_values = true)]
    pub lower_boundary: Vec<String>,
    /// Upper boundary of the test
    #[arg(long = "threshold-upper-boundary", value_name = "VALUE", allow_hyphen_values = true)]
    pub upper_boundary: Vec<String>,
    /// Remove thresholds not listed here (only with --host)
    #[arg(long = "thresholds-reset")]
    pub reset: bool,
}

/// Flags about the service that runs the job.
#[derive(Debug, Args)]
#[command(next_help_heading = "Continuous integration")]
pub(crate) struct CiArgs {
    /// GitHub token for the comment on the pull request and the check run
    #[arg(long, value_name = "TOKEN")]
    pub github_actions: Option<String>,
    /// Comment only if there is a threshold
    #[arg(long, requires = "github_actions")]
    pub ci_only_thresholds: bool,
    /// Comment only if there is an alert
    #[arg(long, requires = "github_actions")]
    pub ci_only_on_alert: bool,
    /// Use links that need no account (only with --host)
    #[arg(long, requires = "github_actions")]
    pub ci_public_links: bool,
    /// Name of the check run and the comment; later runs with this name replace them
    #[arg(long, value_name = "ID", requires = "github_actions")]
    pub ci_id: Option<String>,
    /// Number of the pull request
    #[arg(long, value_name = "N", requires = "github_actions")]
    pub ci_number: Option<u64>,
    /// Accept a project without a name
    #[arg(long, hide = true)]
    pub ci_on_the_fly: bool,
}

/// Flags about a server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct HostArgs {
    /// Send the report to a wingbeat or Bencher server instead of storing it [env: WINGBEAT_HOST, BENCHER_HOST]
    #[arg(long, value_name = "URL")]
    pub host: Option<String>,
    /// Key for the server [env: WINGBEAT_API_KEY, BENCHER_API_KEY]
    #[arg(long, value_name = "KEY", conflicts_with = "token")]
    pub key: Option<String>,
    /// Token for the server [env: WINGBEAT_API_TOKEN, BENCHER_API_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Timeout for connecting, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=900))]
    pub timeout: u64,
    /// Maximum number of attempts
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,
    /// Pause after the first failed attempt, in seconds; it doubles after each further one
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub retry_after: u64,
    /// Longest pause, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub max_retry_after: u64,
}

/// Flags of `wingbeat mock`.
#[derive(Debug, Args)]
pub(crate) struct MockArgs {
    /// Seed; the same seed gives the same results [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of benchmarks
    #[arg(long, value_name = "N", default_value_t = 5)]
    count: usize,
    /// Measure of each benchmark; repeatable
    #[arg(long, value_name = "MEASURE", default_value = "latency")]
    measure: Vec<String>,
    /// Scale the values by 10 to the power of N
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-100..=100))]
    pow: i32,
    /// Keep values within this many percent of their centre, instead of a wide range
    #[arg(long, value_name = "PERCENT", value_parser = noise)]
    noise: Option<f64>,
    /// Make the last benchmark slower by this many percent; negative values make it faster
    #[arg(long, value_name = "PERCENT", default_value = "0", allow_hyphen_values = true)]
    #[arg(value_parser = slower)]
    slower: f64,
    /// Print the results, then fail
    #[arg(long)]
    fail: bool,
    /// Fail in half of the runs, at random; with --seed, always or never
    #[arg(long)]
    flaky: bool,
}

/// Forms of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Human,
    Json,
    Markdown,
    Html,
}

impl Named for Format {
    const VALUES: Values<Self> = &[
        (Self::Human, "human", "A table, alerts, one line of verdict"),
        (Self::Json, "json", "Bencher's `JsonReport`, with the reasons for each verdict"),
        (Self::Markdown, "markdown", "For comments and summaries"),
        (Self::Html, "html", "The same for pages"),
    ];
}

/// What a profile counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    /// Instructions if the tool counts them, else wall
    Auto,
    /// Executed instructions by line, exactly, as `wingbeat bench` counts them; nothing runs again
    Instructions,
    /// Time on the CPU
    Cpu,
    /// Time off the CPU: sleeping, waiting for locks and devices
    OffCpu,
    /// Both: time that passes
    Wall,
}

/// How to combine several results into one.
impl Named for Fold {
    const VALUES: Values<Self> = &[
        (Self::Min, "min", ""),
        (Self::Max, "max", ""),
        (Self::Mean, "mean", ""),
        (Self::Median, "median", ""),
    ];
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

    /// Whether to fail this time.
    pub(crate) fn fails(&self) -> bool {
        // A separate generator: otherwise failures would correlate with values.
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
