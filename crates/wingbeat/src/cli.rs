//! The command line.

use std::ffi::OsString;

use anstream::ColorChoice;
use clap::{Parser, Subcommand};

#[cfg(not(feature = "server"))]
use self::{NotBuilt as ServeArgs, NotBuilt as StoreVerbArgs};
use crate::{
    agent::AgentArgs,
    alerts::AlertsArgs,
    annotate::AnnotateArgs,
    bench::BenchArgs,
    changes::ChangesArgs,
    compare::CompareArgs,
    diff::DiffArgs,
    doctor::DoctorArgs,
    exchange::{ExportArgs, ImportArgs},
    generate::GenerateArgs,
    heap::HeapArgs,
    live::LiveArgs,
    log::LogArgs,
    plot::PlotArgs,
    profile::ProfileArgs,
    run::{MockArgs, RunArgs},
    top::TopArgs,
    values::{Named, Values, named},
};
#[cfg(feature = "server")]
use crate::{serve::ServeArgs, store::verb::StoreVerbArgs};

/// Measures what eBPF and Rust code costs, down to the line, before it reaches production
#[derive(Debug, Parser)]
#[command(name = "wingbeat", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// When to use colours
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "WHEN", default_value = "auto")]
    #[arg(value_parser = named::<ColorChoice>())]
    pub color: ColorChoice,
    /// Print only errors and machine-readable results
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
    /// Print more detail
    #[arg(short, long, global = true, help_heading = GLOBAL, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Check the flags of a verb that runs a command, and that its command is only this word: `cargo wingbeat` does so
    /// before it builds
    #[arg(long, value_name = "WORD", hide = true)]
    pub only_parse: Option<OsString>,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Heading of the global flags.
const GLOBAL: &str = "Global options";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Sample processes and draw a flame graph: where does the time go?
    #[command(after_help = PROFILE_EXAMPLES)]
    Profile(ProfileArgs),
    /// Watch what running processes allocate: live bytes, peak and leaks
    #[command(after_help = HEAP_EXAMPLES)]
    Heap(HeapArgs),
    /// Profile this machine all the time, for engines that keep profiles
    #[command(after_help = AGENT_EXAMPLES)]
    Agent(Box<AgentArgs>),
    /// Print or draw what differs between two profiles
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Run the programs of an object file in the kernel: what does one run cost?
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Box<BenchArgs>),
    /// Measure loaded eBPF programs in place, on their real events
    #[command(after_help = LIVE_EXAMPLES)]
    Live(LiveArgs),
    /// Count the executed instructions of each source line of an eBPF program
    #[command(after_help = ANNOTATE_EXAMPLES)]
    Annotate(Box<AnnotateArgs>),
    /// Show what all loaded eBPF programs cost now, in a table that refreshes
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Run benchmarks and compare them with their history: did this change make it slower?
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Print made-up results to try `wingbeat run` with
    Mock(MockArgs),
    /// Run two revisions alternately and compare them, without a history
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Find the change points of series in CSV or JSON
    #[command(after_help = CHANGES_EXAMPLES)]
    Changes(ChangesArgs),
    /// List the reports in the store, or show one of them
    #[command(after_help = LOG_EXAMPLES)]
    Log(LogArgs),
    /// List alerts, and dismiss or silence them
    #[command(after_help = ALERTS_EXAMPLES)]
    Alerts(AlertsArgs),
    /// Draw the results in the store over time
    #[command(after_help = PLOT_EXAMPLES)]
    Plot(PlotArgs),
    /// Write the reports of the store to files that can be merged
    Export(ExportArgs),
    /// Read reports from files into the store
    Import(ImportArgs),
    /// Copy whole stores, between files and PostgreSQL database, and rename what is in one
    #[command(after_help = STORE_EXAMPLES)]
    Store(StoreVerbArgs),
    /// Keep the results of a team, judge them, and show them in browsers
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Check what kernel, rights and hardware allow, and how to fix what is missing
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Write shell completions, man pages and tables of flags to a folder
    #[command(hide = true)]
    Generate(GenerateArgs),
}

const STORE_EXAMPLES: &str = "\
Examples:
  wingbeat store copy .wingbeat/results.db postgres://me@db.example.com/results
  wingbeat store copy \"postgres://me@localhost/results?schema=team\" copy.db
  wingbeat store rename branch master main

Both stores are read once more at the end, and compared. The exit status is 0 if all documents are the same in both;
1 on failure; 2 for wrong usage. A copy that was interrupted goes on when it is made again. docs/store.md explains more.";

const PROFILE_EXAMPLES: &str = "\
Examples:
  wingbeat profile -- ./server --port 80           a command, until it ends
  wingbeat profile --pid 4711 -d 10s               a running process, for ten seconds
  wingbeat profile --pid $(pgrep -d, nginx)        several processes, until Ctrl-C
  wingbeat profile --all -F 999 -d 5s -o all.svg   everything
  wingbeat profile -o a.svg -o a.pb.gz -- ./job    a flame graph and a file for `go tool pprof`
  wingbeat profile --mode off-cpu --wakers -p 4711 what it waits for, and who ends the wait
  wingbeat profile --mode wall -p 4711 -d 10s      running and waiting in one picture

The exit status is that of the command, or 0 when the recording ended first; 1 on failure, also when
there were no samples and no blocks; 2 for wrong usage. docs/off-cpu.md explains time off the CPU.";

const HEAP_EXAMPLES: &str = "\
Examples:
  wingbeat heap --pid 4711 -d 1m                   a running process, for a minute
  wingbeat heap --pid 4711 -o heap.json            a file for DHAT's viewer
  wingbeat heap --exact -o heap.pb.gz -- ./job     every allocation of a command
  wingbeat heap --show total -o all.svg -- ./job   who allocates most, freed or not

The exit status is that of the command, or 0 when the recording ended first; 1 on failure, also when
nothing was allocated; 2 for wrong usage. docs/heap.md explains the numbers.";

const AGENT_EXAMPLES: &str = "\
Examples:
  wingbeat agent --push pyroscope=http://pyroscope:4040   to Grafana Pyroscope
  wingbeat agent --keep /var/lib/wingbeat --keep-for 24h  pprof files of the last day
  wingbeat agent --push parca=http://parca:7070 -F 97 --max-cpu 2% --metrics 127.0.0.1:9464

It runs until Ctrl-C or SIGTERM, and ends with 0 then; 1 on failure; 2 for wrong usage.
docs/agent.md explains labels, limits and figures.";

const DIFF_EXAMPLES: &str = "\
Examples:
  wingbeat diff before.folded after.folded -o diff.svg
  wingbeat diff before.pb.gz after.pb.gz -o diff.svg
  wingbeat diff --alert 7f3c                       the profiles of an alert, from the store
  wingbeat diff --reports 0d1e..7f3c --benchmark parse --measure latency";

const BENCH_EXAMPLES: &str = "\
Examples:
  wingbeat bench xdp.o                             all programs, on a UDP packet
  wingbeat bench xdp.o filter --input flows.pcap   one program, on each packet of a capture
  wingbeat bench new.o --against old.o --err       is it slower than before? 1 if so
  wingbeat bench xdp.o --format bmf -o bench.json  for `bencher run --file bench.json`

The exit status is 1 when a program could not be measured, did not return what --expect says, or
became worse and --err was given; 2 for wrong usage. docs/bench.md explains the numbers.";

const LIVE_EXAMPLES: &str = "\
Examples:
  wingbeat live -d 10s                             all loaded programs
  wingbeat live filter -- ./send-packets           one program, while a command runs
  wingbeat live filter --distribution              percentiles of its single runs

It needs CAP_SYS_ADMIN (sudo). The exit status is that of COMMAND if it failed; else 1 when a program
never ran; 2 for wrong usage. docs/live.md explains the numbers.";

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
  wingbeat top --once --format json | jq '.programs[] | select(.cpu_share > 0.01) | .name'

CPU % is of one CPU. It needs CAP_SYS_ADMIN (sudo). While it is open, each run of every program takes
some tens of nanoseconds longer, because the kernel reads its clock.";

const RUN_EXAMPLES: &str = "\
Examples:
  wingbeat run cargo bench                         compare with this branch's history, and store
  wingbeat run --start-point main --err cargo bench    in a pull request: 1 if something is worse
  wingbeat run --adapter json --file results.json  results of an earlier run
  wingbeat run 'wingbeat bench xdp.o --format bmf' an eBPF program's cost, instructions included
  wingbeat run --branch main wingbeat mock         made-up results, to try it out

The exit status is 0; 1 on failure, and with --err when there are alerts; 2 for wrong usage.
docs/run.md is the reference.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  wingbeat compare --base main -- cargo bench       the working tree against main
  wingbeat compare --base v1.2 --head v1.3 --build 'make bench' -- ./bench --json
  wingbeat compare --base HEAD~1 --err --time 5m -- cargo bench -p parser

The exit status is 0; 1 on failure, and with --err when a benchmark is worse, failed or undecided; 2
for wrong usage. docs/compare.md explains the verdicts.";

const CHANGES_EXAMPLES: &str = "\
Examples:
  wingbeat changes history.csv                     a table of all changes
  wingbeat changes history.csv --last 10 --err     1 if one is among the last ten points
  generate | wingbeat changes - --format json | jq '.series.latency[].index'

The exit status is 0; 1 on failure, and with --err when a change is reported; 2 for wrong usage.
docs/changes.md explains what counts as a change.";

const LOG_EXAMPLES: &str = "\
Examples:
  wingbeat log                                     the newest 20 reports
  wingbeat log --branch main -n 100                of one branch
  wingbeat log 3f2a9c01                            one report in full, by digits of its UUID";

const ALERTS_EXAMPLES: &str = "\
Examples:
  wingbeat alerts                                  alerts that are still active
  wingbeat alerts dismiss 3f2a9c01 -m \"known, #12\" settle one alert
  wingbeat alerts silence 3f2a9c01                 settle it, and later ones of its series
  wingbeat alerts activate 3f2a9c01                undo either";

const PLOT_EXAMPLES: &str = "\
Examples:
  wingbeat plot                                    a small chart in the terminal
  wingbeat plot -o perf.html                       an interactive page: one file, no network
  wingbeat plot --branch main --benchmark 'parse/*' --measure latency --window 30d -o perf.svg";

const SERVE_EXAMPLES: &str = "\
Examples:
  wingbeat serve --data bench                      on 127.0.0.1:6610; prints a link for the first admin
  wingbeat serve user add ada@example.org --role admin --data bench    a link without a browser
  wingbeat serve key create --project parser --create-project --name ci --data bench    a key for CI
  wingbeat serve backup bench-2026-11-25 --data bench    while it runs

SIGTERM and SIGINT end it once requests under way are answered. docs/serve.md explains how to run it behind
a reverse proxy.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  wingbeat doctor
  wingbeat doctor --format json | jq '.findings[] | select(.status != \"works\")'";

/// When to use colours.
impl Named for ColorChoice {
    const VALUES: Values<Self> = &[
        (Self::Auto, "auto", "On a terminal"),
        (Self::Always, "always", "Also in files and pipes"),
        (Self::Never, "never", "Never"),
    ];
}

/// The arguments, with the former `bench --live` replaced by `live`, and whether it occurred.
pub(crate) fn renamed(words: impl Iterator<Item = OsString>) -> (Vec<OsString>, bool) {
    let mut words: Vec<OsString> = words.collect();
    let is_value = |at: usize| words[at - 1] == "--color";
    let is_flag = |word: &OsString| word.to_string_lossy().starts_with('-');
    let verb = (1..words.len()).find(|&at| !is_flag(&words[at]) && !is_value(at));
    let options = words.iter().take_while(|word| *word != "--");
    match (verb, options.clone().position(|word| word == "--live")) {
        (Some(verb), Some(flag)) if words[verb] == "bench" && verb < flag => {
            words[verb] = "live".into();
            words.remove(flag);
            (words, true)
        }
        _ => (words, false),
    }
}

/// Any words: they are not understood by a build without the feature `server`, such as that of `cargo xtask demo`.
#[cfg(not(feature = "server"))]
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct NotBuilt {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Fails with a message about how to get a build that has it.
#[cfg(not(feature = "server"))]
pub(crate) fn refuse_unbuilt(what: &str) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "this wingbeat was built without its server, which `{what}` needs; `cargo build --release -p wingbeat` \
         builds all of it"
    )
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::*;
    use crate::generate::{definition, man_pages};

    #[test]
    fn bench_live_becomes_a_verb() {
        let check = |line: &str, expected: &str| {
            let (words, _) = renamed(line.split(' ').map(OsString::from));
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(words.join(" "), expected);
        };
        check("wingbeat -q bench --live 12 -d 1s", "wingbeat -q live 12 -d 1s");
        check("wingbeat bench 12 --live -- x --live", "wingbeat live 12 -- x --live");
        check("wingbeat bench a.o", "wingbeat bench a.o");
        check("wingbeat --color never bench --live", "wingbeat --color never live");
        check("wingbeat run wingbeat bench --live", "wingbeat run wingbeat bench --live");
    }

    /// Command lines, and what is said about them.
    const WRONG_USAGE: &[(&str, &str)] = &[
        ("agent", "--push"),
        ("agent --push nonsense", "pyroscope=URL"),
        ("agent --push influx=http://localhost", "pyroscope=URL"),
        ("agent --push wingbeat=localhost", "wingbeat=http://localhost:6610"),
        ("agent --keep x -F 0", "0"),
        ("agent --keep x --window 1ms", "1s to 10m"),
        ("agent --keep x --max-cpu 0", "above 0"),
        ("agent --keep x --unwind-memory 1G", "64M"),
        ("agent --keep x --keep-size many", "many"),
        ("agent --keep x --kubelet-insecure", "--kubelet"),
        ("alerts dismiss", "<UUID>"),
        ("annotate x.o -o x.doc", "x.doc"),
        ("bench x.o --map nope", "NAME=FILE"),
        ("bench x.o --cpu 9999", "'9999' for '--cpu <N>': this process may run on CPU"),
        ("bench x.o --samples 0", "a number of at least 1"),
        ("bench x.o --packets 0", "a number of at least 1"),
        ("bench x.o --expect PASS", "a number of 32 bits"),
        ("bench x.o --expect PASS", "XDP_PASS"),
        ("bench x.o --err", "--against"),
        ("bench x.o --format xml", "xml"),
        ("changes x --min-change -1", "-1"),
        ("changes x --alpha 0", "a rate between 0 and 1"),
        ("changes x --last 0", "--last"),
        ("changes x --format xml", "xml"),
        ("compare --err x", "--base"),
        ("compare --base main --precision 0 x", "no number of runs can detect every change"),
        ("compare --base main --threshold=-1 x", "a percentage from 0"),
        ("compare --base main --adapter none x", "none"),
        ("diff a b -o x.png", "drawn as .svg"),
        ("diff a b -o x.svg --json", "cannot be used with"),
        ("diff a b --absolute", "--output"),
        ("diff a b --alert 1", "--alert"),
        ("diff a b --reports 0d1e..7f3c", "--reports"),
        ("heap", "--pid"),
        ("heap --pid 1 true", "--pid"),
        ("heap --exact --sample 1K true", "--sample"),
        ("heap --sample 1 true", "--exact takes every allocation"),
        ("heap -o x.txt true", ".json (DHAT)"),
        ("live --format xml", "xml"),
        ("log --since yesterday", "expected a time, such as 2026-11-21"),
        ("log 0000018f --branch main", "cannot be used with"),
        ("log xyz", "xyz"),
        ("mock --pow 400", "--pow"),
        ("mock --noise 100", "--noise"),
        ("mock --slower -100", "--slower"),
        ("mock --slower much", "--slower"),
        ("plot -o perf.png", ".svg or .html"),
        ("plot --window soon", "such as 30d or 12h"),
        ("profile", "--pid"),
        ("profile --pid x", "--pid"),
        ("profile --pid 0", "--pid"),
        ("profile --pid 1 --all", "--all"),
        ("profile --all -- true", "--all"),
        ("profile -F 0 -- true", "--frequency"),
        ("profile -d soon -- true", "--duration"),
        ("profile --buffer-size 3M -- true", "power of two"),
        ("profile --mode asleep true", "off-cpu"),
        ("profile --mode off-cpu --min-block soon true", "--min-block"),
        ("profile --from ring --since yesterday", "90m or 2d"),
        ("profile --from ring --label web", "NAME=VALUE"),
        ("profile --from ring -F 99", "--frequency"),
        ("profile --from ring --json", "'--from <DIR>' cannot be used with '--json'"),
        ("profile --from ring --wakers", "--wakers"),
        ("profile --from ring -p 1", "--pid"),
        ("run --backdate -5 true", "-5"),
        ("run --backdate yesterday true", "yesterday"),
        ("run --brnch x cargo bench", "'--branch'"),
        ("run --exec --shell /bin/sh true", "--shell"),
        ("run --start-point-hash x true", "--start-point"),
        ("run --start-point main --start-point-max-versions 0 true", "0"),
        ("top --format json", "--once"),
        ("top --once --sort colour", "the columns are id, type, name, owners, runs, time, cpu"),
        ("top --once --format xml", "possible values: human, json, bmf, csv"),
        ("top -d 1ms", "at least 50 ms"),
    ];

    #[test]
    fn wrong_usage_is_named() {
        for (line, expected) in WRONG_USAGE {
            let words = ["wingbeat"].into_iter().chain(line.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn all_verbs_but_hidden_ones_are_described() {
        let defined = definition(&Cli::command());
        let names = |command: &Command| -> Vec<String> {
            command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
        };
        let mut expected = names(&Cli::command());
        expected.retain(|name| name != "generate");
        assert_eq!(names(&defined), expected);
        let flags = |command: &Command| command.get_arguments().count();
        // Clap has added `--help` and `--version`.
        assert_eq!(flags(&defined), flags(&Cli::command()) + 2);
    }

    #[test]
    fn each_flag_is_described() {
        fn check(command: &Command) {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let name = command.get_name();
                assert!(
                    arg.get_help().is_some_and(|help| help.to_string().len() > 5),
                    "{name} {arg}"
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&definition(&Cli::command()));
    }

    #[test]
    fn each_verb_has_a_man_page() {
        let mut pages = Vec::new();
        man_pages(&definition(&Cli::command()), &mut pages).expect("text in memory");
        let check = |name: &str, expected: &str| {
            let page = pages.iter().find(|(page, _)| page == name);
            let (_, text) = page.unwrap_or_else(|| panic!("no {name}"));
            assert!(text.contains(expected), "{name} without {expected:?}");
        };
        check("wingbeat.1", "wingbeat\\-profile(1)");
        check("wingbeat-profile.1", "\\-\\-min\\-block");
        check("wingbeat-profile.1", ".nf\nExamples:");
        check("wingbeat-profile.1", concat!("\"wingbeat ", env!("CARGO_PKG_VERSION"), "\""));
        check("wingbeat-diff.1", "\\fBwingbeat diff\\fR [OPTIONS] ");
        check("wingbeat-alerts-dismiss.1", "\\-\\-reason");
    }
}
