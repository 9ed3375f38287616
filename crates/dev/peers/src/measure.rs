//! The order of the runs: rounds over workloads, frequencies and tools, taking turns.

use std::{
    env, fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;

use super::{
    record::{Record, Run, Unprofiled},
    tools::{Job, Tool},
    workload::{Workload, units_for},
};
use wingbeat_steps::conditions;

/// Processes that want a CPU beside ours, above which the figures are worth little.
const LOAD_MAX: f64 = 0.5;

/// What is to be measured.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) rounds: u32,
    /// Samples per second.
    pub(super) frequencies_hz: Vec<u32>,
    /// CPU seconds that a target works.
    pub(super) target_cpu_s: f64,
    /// The tools, missing ones included.
    pub(super) tools: Vec<Tool>,
    pub(super) workloads: Vec<Workload>,
}

/// One place in a round: an unprofiled run, and then the tools.
struct Block {
    workload: Workload,
    frequency_hz: u32,
    round: u32,
    tools: Vec<Tool>,
}

/// Runs everything. `save` gets what there is after each round; Ctrl-C ends it early.
pub(super) fn run(
    plan: &Plan,
    out: &Path,
    save: impl Fn(&Record) -> anyhow::Result<()>,
) -> anyhow::Result<Record> {
    let stop = stop_on_signals()?;
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let trial = fresh(&out.join("runs/trial"))?;
    let units = units_for(plan.target_cpu_s, &trial).context("the workload does not run")?;

    let mut record = Record { rounds: plan.rounds, ..conditions() };
    record.tools = plan.tools.iter().map(Tool::record).collect();
    for missing in record.tools.iter().filter(|tool| tool.version.is_none()) {
        let install = missing.install.as_deref().unwrap_or("");
        eprintln!("missing: {}; install it with `{install}`", missing.name);
    }
    let present = plan.tools.iter().zip(&record.tools).filter(|(_, tool)| tool.version.is_some());
    let tools: Vec<Tool> = present.map(|(tool, _)| *tool).collect();

    let mut unable: Vec<String> = Vec::new();
    for round in 0..plan.rounds {
        for block in blocks(plan, &tools, round, &mut unable) {
            run_block(&block, units, out, &stop, &mut record)?;
            if stop.load(Ordering::Relaxed) {
                record.stopped_early = true;
                record.notes.push("Stopped early: the last round is not complete.".to_owned());
                return save(&record).map(|()| record);
            }
        }
        save(&record)?;
    }
    record.notes.extend(unable);
    save(&record)?;
    Ok(record)
}

/// The places of a round. The tools begin with another one each round, lest one always run first.
fn blocks(plan: &Plan, tools: &[Tool], round: u32, unable: &mut Vec<String>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for workload in &plan.workloads {
        for &frequency_hz in &plan.frequencies_hz {
            let fits = |tool: &&Tool| workload.is_for(tool.name, frequency_hz);
            let mut tools: Vec<Tool> = tools.iter().filter(fits).copied().collect();
            for tool in tools.extract_if(.., |tool| workload.forks && !tool.follows_children) {
                let sentence = format!(
                    "{} is not run on {}: it samples one process and not its children.",
                    tool.name, workload.name
                );
                if !unable.contains(&sentence) {
                    unable.push(sentence);
                }
            }
            if !tools.is_empty() {
                let first = usize::try_from(round).unwrap_or(0) % tools.len();
                tools.rotate_left(first);
                blocks.push(Block { workload: *workload, frequency_hz, round, tools });
            }
        }
    }
    blocks
}

fn run_block(
    block: &Block,
    units: u64,
    out: &Path,
    stop: &AtomicBool,
    record: &mut Record,
) -> anyhow::Result<()> {
    let Block { workload, frequency_hz, round, ref tools } = *block;
    let place = format!("round {}, {} at {frequency_hz} Hz", round + 1, workload.name);
    let (target, usage) = workload.run_alone(units, &fresh(&out.join("runs/alone"))?)?;
    let name = workload.name.to_owned();
    let cpu_ns = usage.cpu_ns;
    record.unprofiled.push(Unprofiled { workload: name, frequency_hz, round, target, cpu_ns });
    eprintln!("{place}, alone: {} of CPU", show_s(target.cpu_time_ns));
    for tool in tools {
        let dir = fresh(&out.join(format!("runs/{}-{frequency_hz}-{}", workload.name, tool.name)))?;
        let outcome = (tool.run)(&Job { workload, units, frequency_hz, dir: &dir });
        if stop.load(Ordering::Relaxed) {
            // The signal also reached the tool: its figures mean nothing.
            break;
        }
        match outcome {
            Ok((target, outcome)) => {
                eprintln!(
                    "{place}, {}: {} of CPU, {} samples",
                    tool.name,
                    show_s(target.cpu_time_ns),
                    outcome.samples
                );
                let (tool, workload) = (tool.name.to_owned(), workload.name.to_owned());
                record.runs.push(Run { tool, workload, frequency_hz, round, target, outcome });
            }
            Err(error) => {
                let failure = format!("{place}, {}: {error:#}", tool.name);
                eprintln!("failed: {failure}");
                record.failures.push(failure);
            }
        }
    }
    Ok(())
}

/// An empty folder, for files that stay until the same place comes again.
fn fresh(dir: &Path) -> anyhow::Result<std::path::PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir.to_path_buf())
}

/// Becomes true on Ctrl-C and SIGTERM, so that settings of the machine are put back.
pub(super) fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot watch for Ctrl-C")?;
    }
    Ok(stop)
}

/// An empty record that says where and when.
pub(super) fn conditions() -> Record {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments = measuring(&arguments);
    let mut record = Record {
        date: conditions::date(),
        machine: conditions::machine(),
        command: format!("cargo xtask peers {}", arguments.join(" ")),
        ..Record::default()
    };
    let load = fs::read_to_string("/proc/loadavg").ok().and_then(|text| load_of(&text));
    if let Some(load) = load.filter(|load| *load > LOAD_MAX) {
        let note = format!(
            "The machine was busy when this began (load {load}): other programs took CPU time, and \
             the figures vary more than they should."
        );
        eprintln!("warning: {note}");
        record.notes.push(note);
    }
    record
}

/// The arguments that decide what is measured: without those that say where tables go, or where a tool
/// lies.
fn measuring(arguments: &[String]) -> Vec<&str> {
    const PLACES: [&str; 2] = ["--markdown", "--veristat"];
    let mut rest = arguments.iter();
    let mut kept = Vec::new();
    while let Some(argument) = rest.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument.as_str(), None),
        };
        match (PLACES.contains(&name), value) {
            (true, Some(_)) => {}
            (true, None) => _ = rest.next(),
            (false, _) => kept.push(argument.as_str()),
        }
    }
    kept
}

fn load_of(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of an hour fit 53 bits")]
fn show_s(ns: u64) -> String {
    format!("{:.2} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{tools, workload},
        *,
    };

    fn plan() -> Plan {
        Plan {
            rounds: 1,
            frequencies_hz: vec![99, 999],
            target_cpu_s: 1.0,
            tools: tools::chosen(&[]).expect("all tools"),
            workloads: workload::chosen(&[]).expect("all workloads"),
        }
    }

    #[test]
    fn tools_take_turns_in_being_first() {
        let plan = plan();
        let first = |round| blocks(&plan, &plan.tools, round, &mut Vec::new())[0].tools[0].name;
        assert_eq!((first(0), first(1), first(6)), ("wingbeat", "perf", "wingbeat"));
    }

    #[test]
    fn tools_run_only_where_they_can() {
        let (plan, mut unable) = (plan(), Vec::new());
        let blocks = blocks(&plan, &plan.tools, 0, &mut unable);
        let check = |name, hz, expected: Option<&[&str]>| {
            let block = blocks.iter().find(|b| b.workload.name == name && b.frequency_hz == hz);
            let tools = block.map(|b| b.tools.iter().map(|tool| tool.name).collect::<Vec<_>>());
            assert_eq!(tools.as_deref(), expected, "{name} at {hz} Hz");
        };
        let all = ["wingbeat", "perf", "samply", "bpftrace", "bcc", "probee"];
        check("threads", 99, Some(&all));
        check("forks", 999, Some(&all[..4]));
        check("deep-26", 999, Some(&all[..2]));
        check("deep-26", 99, None);
        assert_eq!(unable.len(), 2, "{unable:?}");
    }

    #[test]
    fn the_command_is_kept_without_files() {
        let check = |text: &str, expected: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            assert_eq!(measuring(&words).join(" "), expected);
        };
        check("peers profile --markdown a.md --hz 99", "peers profile --hz 99");
        check("peers profile --markdown=a.md", "peers profile");
        check("peers profile --markdown", "peers profile");
        check("peers bench objects --veristat v --folder a=b", "peers bench objects --folder a=b");
    }

    #[test]
    fn load_is_read() {
        assert_eq!(load_of("0.52 0.58 0.59 1/467 12"), Some(0.52));
    }
}
