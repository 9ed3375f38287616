//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use owo_colors::OwoColorize as _;
use wingbeat_profile::{
    export::{Format, UnknownFormat},
    model::Mode,
};

use crate::{
    alerts::AlertsArgs,
    annotate::AnnotateArgs,
    bench::BenchArgs,
    changes::ChangesArgs,
    compare::CompareArgs,
    doctor::DoctorArgs,
    exchange::{ExportArgs, ImportArgs},
    generate::GenerateArgs,
    log::LogArgs,
    plot::PlotArgs,
    run::{MockArgs, RunArgs},
    top::TopArgs,
};

/// Tells what eBPF and Rust code costs, down to the line, before it reaches production
#[derive(Debug, Parser)]
#[command(name = "wingbeat", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
    /// Print errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print more
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Where does the time go? Samples processes and draws a flame graph
    #[command(after_help = PROFILE_EXAMPLES, after_long_help = PROFILE_EXAMPLES)]
    Profile(ProfileArgs),
    /// Draws the difference of two profiles
    #[command(after_help = DIFF_EXAMPLES, after_long_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// What does one run of an eBPF program cost? Runs the programs of an object in the kernel
    #[command(after_help = BENCH_EXAMPLES, after_long_help = BENCH_EXAMPLES)]
    Bench(Box<BenchArgs>),
    /// Which lines of an eBPF program cost what? Counts executed instructions, exactly
    #[command(after_help = ANNOTATE_EXAMPLES, after_long_help = ANNOTATE_EXAMPLES)]
    Annotate(Box<AnnotateArgs>),
    /// What do the loaded eBPF programs cost now? A live table of all of them
    #[command(after_help = TOP_EXAMPLES, after_long_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Did this change make it slower? Runs benchmarks, compares with their history, stores, alerts
    #[command(after_help = RUN_EXAMPLES, after_long_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Prints made-up results to try `wingbeat run` with
    Mock(MockArgs),
    /// Did a change make it slower? Runs two revisions by turns, here and now
    #[command(after_help = COMPARE_EXAMPLES, after_long_help = COMPARE_EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Where did a series of results change for good? Finds change points in CSV or JSON
    #[command(after_help = CHANGES_EXAMPLES, after_long_help = CHANGES_EXAMPLES)]
    Changes(ChangesArgs),
    /// What has been measured? Lists the reports in the store, or shows one whole
    #[command(after_help = LOG_EXAMPLES, after_long_help = LOG_EXAMPLES)]
    Log(LogArgs),
    /// What became worse? Lists alerts, and dismisses or silences them
    #[command(after_help = ALERTS_EXAMPLES, after_long_help = ALERTS_EXAMPLES)]
    Alerts(AlertsArgs),
    /// How did it develop? Draws the results of the store over time
    #[command(after_help = PLOT_EXAMPLES, after_long_help = PLOT_EXAMPLES)]
    Plot(PlotArgs),
    /// Writes the reports of the store as files that merge
    Export(ExportArgs),
    /// Takes reports from files into the store
    Import(ImportArgs),
    /// Does it work here? What kernel, rights and hardware allow, and how to get the rest
    #[command(after_help = DOCTOR_EXAMPLES, after_long_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Writes completions for shells, man pages and tables of flags into a folder
    #[command(hide = true)]
    Generate(GenerateArgs),
}

const PROFILE_EXAMPLES: &str = "\
Examples:
  wingbeat profile -- ./server --port 80           a command, until it ends
  wingbeat profile --pid 4711 -d 10s               a running process, for ten seconds
  wingbeat profile --pid $(pgrep -d, nginx)        several processes, until Ctrl-C
  wingbeat profile --all -F 999 -d 5s -o all.svg   everything
  wingbeat profile -o a.svg -o a.pb.gz -- ./job    a flame graph and a file for `go tool pprof`
  wingbeat profile --mode off-cpu --wakers -p 4711 what it waits for, and who ends the wait
  wingbeat profile --mode wall -p 4711 -d 10s      running and waiting in one picture

The exit status is that of the command; 0 when the recording ended first; 1 on failure, also when
there were no samples and no blocks; 2 for wrong usage. docs/off-cpu.md tells how to read time off
the CPU.";

const DIFF_EXAMPLES: &str = "\
Examples:
  wingbeat diff before.folded after.folded -o diff.svg
  wingbeat diff before.pb.gz after.pb.gz -o diff.svg";

const BENCH_EXAMPLES: &str = "\
Examples:
  wingbeat bench xdp.o                             all programs, on a UDP packet
  wingbeat bench xdp.o filter --input flows.pcap   one program, on each packet of a capture
  wingbeat bench new.o --against old.o --err       is it slower than before? 1 if so
  wingbeat bench xdp.o --format bmf -o bench.json  for `bencher run --file bench.json`
  wingbeat bench --live -d 10s                     what is loaded already, where it runs

The exit status is 1 when a program could not be measured, did not return what --expect says, or
became worse and --err was given; 2 for wrong usage. docs/bench.md tells what the numbers mean.";

const ANNOTATE_EXAMPLES: &str = "\
Examples:
  wingbeat annotate xdp.o filter                   source with executed instructions per line
  wingbeat annotate xdp.o filter --bytecode        and the instructions below each line
  wingbeat annotate xdp.o filter --input a.pcap -o filter.svg -o filter.lcov";

const TOP_EXAMPLES: &str = "\
Examples:
  wingbeat top                                     until q, Esc or Ctrl-C
  wingbeat top -d 500ms --sort runs --filter xdp   twice a second, the most run first
  wingbeat top --once                              a table of one second, on stdout
  wingbeat top --once --format json | jq '.programs[] | select(.cpu_percent > 1) | .name'

CPU % is of one CPU. It needs CAP_SYS_ADMIN (sudo). While it runs, every run of every program is some
tens of nanoseconds slower, because the kernel reads its clock; afterwards all is as before.";

const RUN_EXAMPLES: &str = "\
Examples:
  wingbeat run cargo bench                         compare with the history of this branch, and store
  wingbeat run --start-point main --err cargo bench    in a pull request: 1 if something is worse
  wingbeat run --adapter json --file results.json  results that are there already
  wingbeat run 'wingbeat bench xdp.o --format bmf' an eBPF program's cost, instructions included
  wingbeat run --branch main wingbeat mock         made-up results, to see how it goes

The exit status is 0; 1 on failure, and with --err when there are alerts; 2 for wrong usage.
docs/run.md tells the rest.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  wingbeat compare --base main -- cargo bench       the working tree against main
  wingbeat compare --base v1.2 --head v1.3 --build 'make bench' -- ./bench --json
  wingbeat compare --base HEAD~1 --err --time 5m -- cargo bench -p parser

The exit status is 0; 1 on failure, and with --err when a benchmark is worse, failed or could not be
decided; 2 for wrong usage. docs/compare.md tells what the verdicts mean.";

const CHANGES_EXAMPLES: &str = "\
Examples:
  wingbeat changes history.csv                     a table of all changes
  wingbeat changes history.csv --last 10 --err     1 if one is among the last ten points
  generate | wingbeat changes - --format json | jq '.latency[].index'

The exit status is 0; 1 on failure, and with --err when a change is reported; 2 for wrong usage.
docs/changes.md tells what counts as a change.";

const LOG_EXAMPLES: &str = "\
Examples:
  wingbeat log                                     the newest 20 reports
  wingbeat log --branch main -n 100                of one branch
  wingbeat log 3f2a9c01                            one report whole, by digits of its UUID";

const ALERTS_EXAMPLES: &str = "\
Examples:
  wingbeat alerts                                  those that nobody has settled
  wingbeat alerts dismiss 3f2a9c01 -m \"known, #12\" this one is settled
  wingbeat alerts silence 3f2a9c01                 and its series raises no more of them
  wingbeat alerts activate 3f2a9c01                take that back";

const PLOT_EXAMPLES: &str = "\
Examples:
  wingbeat plot                                    a small picture in the terminal
  wingbeat plot -o perf.html                       a page to look around in: one file, no network
  wingbeat plot --branch main --benchmark 'parse/*' --measure latency --window 30d -o perf.svg";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  wingbeat doctor
  wingbeat doctor --json | jq '.findings[] | select(.status != \"works\")'";

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// Not at all
    Never,
}

impl Color {
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Prints a line to stderr. Whoever closed it does not want to know.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(anstream::stderr(), $($text)*);
    }};
}
pub(crate) use tell;

/// `error`, as it begins a message.
pub(crate) fn styled_error() -> String {
    "error".red().bold().to_string()
}

/// `warning`, as it begins a message.
pub(crate) fn styled_warning() -> String {
    "warning".yellow().bold().to_string()
}

/// Flags of `wingbeat profile`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").required(true).args(["pid", "all", "command"]))]
pub(crate) struct ProfileArgs {
    /// A process to sample; may be given several times, or as a list with commas
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Sample all processes, the kernel's own threads included
    #[arg(short, long)]
    pub all: bool,
    /// Samples per second and CPU (on-cpu and wall). 99 rather than 100 so as not to run in step with
    /// timers
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 99)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub frequency: u64,
    /// How long to record: 10s, 500ms, 2m. A launched command is then asked to end (SIGTERM)
    /// [default: until Ctrl-C, or until the targets end]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// What to measure: on-cpu samples what runs, off-cpu takes the time that threads sleep, wait and
    /// are kept from running, wall takes both
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub mode: ProfileMode,
    /// Time off the CPU shorter than this is summed, but not shown singly: 5ms, 0, and without
    /// a unit seconds (off-cpu and wall) [default: 1us]
    #[arg(long, value_name = "TIME", value_parser = duration_or_zero, allow_hyphen_values = true)]
    pub min_block: Option<Duration>,
    /// Tell who woke a thread, and from where (off-cpu and wall)
    #[arg(long)]
    pub wakers: bool,
    /// Leave threads that slept all the time out of files and tables (off-cpu and wall)
    #[arg(long)]
    pub hide_idle: bool,
    /// Which half of the stacks to keep in the outputs
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub stacks: StackHalf,
    /// Do not follow child processes
    #[arg(long)]
    pub no_inherit: bool,
    /// File to write; may be given several times. The suffix tells the format: .svg flame graph,
    /// .folded collapsed stacks, .pb.gz pprof, .json or .json.gz Firefox Profiler
    #[arg(short, long, value_name = "FILE", default_value = "wingbeat.svg", value_parser = output)]
    pub output: Vec<PathBuf>,
    /// Write the accounting of the run as JSON; '-' is stdout
    #[arg(long, value_name = "FILE")]
    pub summary_json: Option<PathBuf>,
    /// Size of the buffer between kernel and user space, a power of two from 4K: 512K, 16M
    /// [default: by frequency and CPUs, 1M to 64M; with off-cpu and wall at least 16M]
    #[arg(long, value_name = "SIZE", value_parser = buffer_bytes)]
    pub buffer_size: Option<u32>,
    /// Command to launch and sample, with its arguments; from its first instruction
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What `wingbeat profile` measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileMode {
    /// Samples of what runs
    #[default]
    OnCpu,
    /// Time off the CPU: asleep, waiting, preempted
    OffCpu,
    /// Both, in nanoseconds
    Wall,
}

impl From<ProfileMode> for Mode {
    fn from(mode: ProfileMode) -> Self {
        match mode {
            ProfileMode::OnCpu => Self::OnCpu,
            ProfileMode::OffCpu => Self::OffCpu,
            ProfileMode::Wall => Self::Wall,
        }
    }
}

/// Halves of a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackHalf {
    /// Kernel frames on top of user frames
    #[default]
    Both,
    /// User frames only; samples in kernel threads are dropped
    User,
    /// Kernel frames only; samples in user code are dropped
    Kernel,
}

/// Flags of `wingbeat diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Profile to compare with: .folded or .pb.gz
    pub before: PathBuf,
    /// Profile to draw: .folded or .pb.gz
    pub after: PathBuf,
    /// Flame graph to write. Widths are those of AFTER; red grew, blue shrank
    #[arg(short, long, value_name = "FILE.svg")]
    pub output: PathBuf,
    /// Compare counts as they are, instead of shares of the total
    #[arg(long)]
    pub absolute: bool,
}

fn output(text: &str) -> Result<PathBuf, UnknownFormat> {
    let path = PathBuf::from(text);
    Format::from_path(&path).map(|_| path)
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    // A bare number would be ambiguous to read, but perf and sleep take it for seconds.
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if duration.is_zero() { Err("the time must not be zero".to_owned()) } else { Ok(duration) }
}

fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) { Ok(Duration::ZERO) } else { duration(text) }
}

fn buffer_bytes(text: &str) -> Result<u32, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        _ => return Err(format!("unknown unit {unit:?}: K and M are known")),
    };
    let bytes = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("the size must be a power of two from 4K to 1024M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        let check = |text, expected: Option<u64>| {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        };
        check("10s", Some(10_000));
        check("500ms", Some(500));
        check("2m", Some(120_000));
        check("1.5", Some(1_500));
        check("3", Some(3_000));
        check("0", None);
        check("-1", None);
        check("NaN", None);
        check("soon", None);
    }

    #[test]
    fn buffer_sizes() {
        let check = |text, expected| assert_eq!(buffer_bytes(text).ok(), expected, "{text}");
        check("4096", Some(4096));
        check("512K", Some(512 << 10));
        check("16M", Some(16 << 20));
        check("3M", None);
        check("1K", None);
        check("99999999999M", None);
        check("1G", None);
        check("", None);
    }
}
