//! `cargo xtask peers unwind`: are stacks complete, and the same as others see them?
//!
//! wingbeat, perf and samply walk the stacks of programs as they are: built without frame pointers, or
//! stripped. perf copies the stack and walks it afterwards by the files' tables without a limit of time,
//! so the others are compared with it. Each tool has a run of its own, so that a small difference is
//! chance.

mod stacks;

use flate2::read::GzDecoder;
use wingbeat_steps::command::repository;

use self::stacks::{Functions, Place, Seen, Stacks, of_firefox, of_perf};
use crate::prelude::*;

/// How stack walks are compared.
#[derive(Debug, Args)]
pub(crate) struct UnwindArgs {
    /// Samples per second
    #[arg(long, value_name = "HZ", default_value_t = 999)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    hz: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) const COMPARISON: Comparison<UnwindArgs> = Comparison {
    name: "unwind",
    root: Some("profilers"),
    rounds: (3, 1),
    needs: &["bash", "setarch"],
    measure,
    texts,
    pages: &[("peers unwind", "docs/peers.md")],
};

const PERF: &str = "perf";
const SAMPLY: &str = "samply";

/// A sampler, and how it samples a program.
type Sampler = (&'static str, fn(&Job<'_>) -> anyhow::Result<Sampled>);

/// perf before samply, which is compared with it.
static SAMPLERS: [Sampler; 3] = [(WINGBEAT, wingbeat), (PERF, perf), (SAMPLY, samply)];

/// Samples per second of all processes: nobody asks for more there.
const ALL_HZ: u32 = 99;

/// Time for a tool that watches all processes to begin.
const SET_UP: Duration = Duration::from_millis(500);

/// Runs `$0` and leaves in `$1` what it took: bash counts finer than other shells.
const TIMED: &str = r#"sh -c "$0"; status=$?; times > "$1"; exit $status"#;

/// A run to make.
struct Job<'a> {
    program: &'a Program,
    /// With the program's files.
    folder: &'a Path,
    hz: u32,
    wingbeat: &'a Path,
    /// For the tool's files.
    out: PathBuf,
}

/// Cost of a run: CPU time of all, and memory of the tool; and CPU time of the target with all that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    usage: Usage,
    target_ns: u64,
}

/// What a tool made of a run.
struct Sampled {
    stacks: Stacks,
    /// Where the tool counts them.
    complete: Option<f64>,
    cost: Cost,
    /// `samples`, `lost`, `bytes_per_sample`; `later_s`: CPU time after the recording; `recording_memory_mb`.
    values: Vec<(&'static str, f64)>,
}

impl Job<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Runs the program under a command that takes it as its last words.
    ///
    /// Libraries lie at the same addresses in all processes: perf 6.1 mistakes those of the process that
    /// forked for those of the program that it became, and loses every second of such stacks.
    fn launch(&self, under: &Command) -> anyhow::Result<Cost> {
        let times = self.file("times");
        let mut command = Command::new("setarch");
        command.arg("-R").arg(under.get_program()).args(under.get_args());
        command.args(["bash", "-c", TIMED, &self.program.run]).arg(&times);
        command.current_dir(self.folder).env("REPOSITORY", repository());
        let out = create(&self.file("output"))?;
        let messages = self.file("messages");
        let running = Running::connected(&mut command, Stdio::null(), out.into(), &messages)?;
        // The kernel's maximum at the end would be the target's where that takes more.
        let status = PathBuf::from(format!("/proc/{}/status", running.pid()));
        let mut rss_max_bytes = 0;
        while !running.ends_within(Duration::from_millis(10))? {
            rss_max_bytes = rss_max_of(&text_of(&status)).unwrap_or(0).max(rss_max_bytes);
        }
        let usage = Usage { rss_max_bytes, ..running.finish()? };
        let target_ns = times_ns(&text_of(&times)).context("the target left no times")?;
        Ok(Cost { usage, target_ns })
    }
}

fn rss_max_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The sum of `0m1.234s 0m0.010s`, a line for the shell and one for its children.
fn times_ns(text: &str) -> Option<u64> {
    let time = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let sum_s: f64 = text.split_whitespace().map(time).sum::<Option<f64>>()?;
    (!text.is_empty()).then(|| (sum_s * 1e9).round() as u64)
}

fn open(file: &Path) -> anyhow::Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("{} was not written", file.display()))?;
    Ok(BufReader::new(opened))
}

fn wingbeat(job: &Job<'_>) -> anyhow::Result<Sampled> {
    let (profile, summary) = (job.file("profile.json"), job.file("summary.json"));
    let mut command = Command::new(job.wingbeat);
    command.args(["profile", "--quiet", "--unwind", "auto", "-F", &job.hz.to_string(), "-o"]);
    command.arg(&profile).arg("--summary-json").arg(&summary);
    let cost = if job.program.all {
        let watcher = Running::start(command.arg("--all"), &job.file("messages"))?;
        thread::sleep(SET_UP);
        let cost = job.launch(&Command::new("env"));
        watcher.interrupt()?;
        let (watched, cost) = (watcher.finish()?, cost?);
        Cost { usage: cost.usage.then(watched), ..cost }
    } else {
        job.launch(command.arg("--"))?
    };
    let summary = Summary::read(&summary)?;
    let complete = summary.number("/stacks/complete")?;
    let all = summary.sum("/stacks", &["complete", "truncated", "broken"])?;
    Ok(Sampled {
        stacks: of_firefox(open(&profile)?, Place::Address)?,
        complete: (all > 0.0).then_some(complete / all),
        cost,
        values: vec![
            ("samples", summary.number("/ticks/sampled")?),
            ("lost", summary.number("/ticks/lost")?),
            ("bytes_per_sample", summary.number("/bytes_per_sample")?),
            ("later_s", summary.sum("/own/cpu_time_ns", &["symbolize", "write"])? / 1e9),
            ("recording_memory_mb", summary.number("/own/rss_max_record_bytes")? / 1e6),
        ],
    })
}

fn perf(job: &Job<'_>) -> anyhow::Result<Sampled> {
    let (data, text) = (job.file("perf.data"), job.file("script.txt"));
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "--call-graph", "dwarf,65528", "-e", "cpu-clock"]);
    // Buffers for a thousand copies of a stack.
    record.args(["-m", "64M", "-F", &job.hz.to_string(), "-o"]).arg(&data).arg("--");
    let cost = job.launch(&record)?;
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "--max-stack", "1024", "-F", "pid,ip,sym,dso", "-i"]);
    let printed = run(script.arg(&data), create(&text)?.into(), &job.file("messages"))?;
    let (samples, lost) = perf_samples(&data, "cpu-clock")?;
    let bytes = fs::metadata(&data).context("perf left no recording")?.len() as f64;
    let stacks = of_perf(open(&text)?)?;
    // Some hundred megabytes.
    fs::remove_file(&data).context("cannot remove perf's recording")?;
    Ok(Sampled {
        stacks,
        complete: None,
        cost: Cost { usage: cost.usage.then(printed), ..cost },
        values: vec![
            ("samples", samples),
            ("lost", lost),
            ("bytes_per_sample", bytes / samples.max(1.0)),
            // It also walks then.
            ("later_s", printed.cpu_ns as f64 / 1e9),
        ],
    })
}

fn samply(job: &Job<'_>) -> anyhow::Result<Sampled> {
    let _lowered = Unparanoid::new()?;
    let profile = job.file("profile.json.gz");
    let mut command = Command::new(SAMPLY);
    command.args(["record", "--save-only", "--no-open", "--rate", &job.hz.to_string(), "-o"]);
    let cost = job.launch(command.arg(&profile).arg("--"))?;
    let stacks = of_firefox(BufReader::new(GzDecoder::new(open(&profile)?)), Place::Relative)?;
    let memory_mb = cost.usage.rss_max_bytes as f64 / 1e6;
    let lost = samply_lost(&text_of(&job.file("messages")));
    let values = vec![("lost", lost), ("recording_memory_mb", memory_mb)];
    Ok(Sampled { stacks, complete: None, cost, values })
}

fn measure(args: &UnwindArgs, bed: &Bed<'_>, results: &mut Results) -> anyhow::Result<()> {
    let mut samplers = bed.tools(&SAMPLERS, |it| it.0)?;
    let programs = bed.cases(&DATA.unwind, |it| &it.name)?;
    let peers = samplers.iter().filter(|it| it.0 != WINGBEAT);
    results.origin.tools = peers.map(|it| described(it.0)).collect();
    samplers.retain(|it| it.0 == WINGBEAT || find(it.0).is_ok());
    for program in programs {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let tools = samplers.iter().filter(|it| !program.all || it.0 == WINGBEAT);
        let tools: Vec<&Sampler> = tools.copied().collect();
        let hz = if program.all { ALL_HZ } else { args.hz };
        let wingbeat = bed.wingbeat.as_path();
        let job = |tool: &str| {
            let out = bed.fresh(&format!("{}-{tool}", program.name))?;
            anyhow::Ok(Job { program, folder: folder.path(), hz, wingbeat, out })
        };
        let mut outcome = program.make(folder.path());
        for round in 0..bed.rounds {
            outcome = outcome.and_then(|()| compare(&tools, job, round, results));
        }
        if let Err(error) = outcome {
            results.add((&program.name, WINGBEAT), 0, Err(error));
        }
    }
    Ok(())
}

/// The program alone, then under each tool.
fn compare<'a>(
    tools: &[&Sampler],
    job: impl Fn(&str) -> anyhow::Result<Job<'a>>,
    round: u32,
    results: &mut Results,
) -> anyhow::Result<()> {
    let alone = job("alone")?;
    let case = alone.program.name.as_str();
    let cost = alone.launch(&Command::new("env")).context("without a tool")?;
    let mut functions = Functions::default();
    let mut seen: Vec<(&str, Sampled, Seen)> = Vec::new();
    for (tool, sample) in tools.iter().copied().filter(|_| !is_stopped()) {
        match sample(&job(tool)?) {
            Ok(sampled) => {
                let found = Seen::of(&sampled.stacks, &mut functions);
                seen.push((tool, sampled, found));
            }
            Err(error) => results.add((case, tool), round, Err(error)),
        }
    }
    let theirs = seen.iter().find(|it| it.0 == PERF).map(|it| it.2.clone());
    for (tool, sampled, found) in &seen {
        let mut run = figures((case, tool), round, sampled, found, &cost);
        run.values.insert("hz".to_owned(), alone.hz.into());
        let theirs = theirs.as_ref().filter(|_| *tool != PERF);
        let depths = theirs.and_then(|it| it.complete_and_depth()).zip(found.complete_and_depth());
        let gap = depths.map(|(theirs, ours)| ours.1 - theirs.1);
        run.values.extend(gap.map(|gap| ("depth_from_perf".to_owned(), gap)));
        if let Some((gap, function)) =
            theirs.and_then(|it| found.largest_difference(it, &functions))
        {
            run.values.insert("share_from_perf".to_owned(), gap);
            run.note = Some(function.chars().take(40).collect());
        }
        results.add((case, tool), round, Ok(run));
    }
    Ok(())
}

/// The figures of a run of a tool, given the cost of the program alone.
fn figures(place: (&str, &str), round: u32, run: &Sampled, seen: &Seen, alone: &Cost) -> Run {
    let Sampled { complete, cost, values, .. } = run;
    let mut figures = Run::new(place, round, values.iter().copied());
    let own = complete.or_else(|| Some(seen.complete_and_depth()?.0));
    let samples = *figures.values.entry("samples".to_owned()).or_insert(seen.samples as f64);
    // CPU time beyond the target's is also in the run alone: that of shells, and of exits.
    let beyond_s = |it: &Cost| it.usage.cpu_ns.saturating_sub(it.target_ns) as f64 / 1e9;
    let own_s = (beyond_s(cost) - beyond_s(alone)).max(0.0);
    let recording_s = (own_s - figures.get("later_s").unwrap_or(0.0)).max(0.0);
    let per_10k = |seconds: f64| (samples > 0.0).then_some(seconds / samples * 1e4);
    let slowdown = cost.target_ns as f64 / alone.target_ns.max(1) as f64 - 1.0;
    let more = [
        ("complete", own),
        ("depth", seen.complete_and_depth().map(|it| it.1)),
        ("slowdown", Some(slowdown)),
        ("own_s_per_10k", per_10k(own_s)),
        (RECORDING, per_10k(recording_s)),
        ("memory_mb", Some(cost.usage.rss_max_bytes as f64 / 1e6)),
    ];
    let more = more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    figures.values.extend(more);
    figures
}

const PERCENT: Unit = (100.0, 2, "");
const SECONDS: Unit = (1.0, 2, "");
const RECORDING: &str = "recording_s_per_10k";

/// Heading, tool, figure.
const COLUMNS: [(&str, &str, &str, Unit); 7] = [
    ("complete, wingbeat", WINGBEAT, "complete", PERCENT),
    ("perf", PERF, "complete", PERCENT),
    ("samply", SAMPLY, "complete", PERCENT),
    ("own CPU, wingbeat", WINGBEAT, "own_s_per_10k", SECONDS),
    ("of it recording", WINGBEAT, RECORDING, SECONDS),
    ("perf", PERF, "own_s_per_10k", SECONDS),
    ("samply, recording", SAMPLY, RECORDING, SECONDS),
];

/// A goal of wingbeat: in words, the figure with its unit, and its limits on a case.
struct Goal(&'static str, &'static str, Unit, fn(&Results, &str) -> Option<(f64, f64)>);

const GOALS: [Goal; 5] = [
    Goal("99.5 % complete stacks", "complete", PERCENT, |_, _| Some((0.995, 1.0))),
    Goal("mean depth within 0.5 frames of perf's", "depth_from_perf", SECONDS, |results, case| {
        within(results, case, 0.5)
    }),
    Goal(
        "the ten largest functions within 2 % of perf's",
        "share_from_perf",
        PERCENT,
        |results, case| within(results, case, 0.02),
    ),
    Goal("CPU time of recording at most samply's", RECORDING, SECONDS, |results, case| {
        at_most_samply(results, case, RECORDING)
    }),
    Goal("memory at most samply's, in MB", "memory_mb", (1.0, 0, ""), |results, case| {
        at_most_samply(results, case, "memory_mb")
    }),
];

/// A difference from perf counts only where perf's own stacks are complete, but for 2 %.
fn within(results: &Results, case: &str, most: f64) -> Option<(f64, f64)> {
    let complete = results.spread(case, PERF, "complete")?.median;
    (complete >= 0.98).then_some((-most, most))
}

fn at_most_samply(results: &Results, case: &str, figure: &str) -> Option<(f64, f64)> {
    Some((0.0, results.spread(case, SAMPLY, figure)?.median))
}

/// The cases that miss a goal, with their figures; "" if none does.
fn missed(results: &Results, Goal(what, figure, unit, limits): &Goal) -> String {
    let missed = results.cases().into_iter().filter_map(|case| {
        let spread = results.spread(case, WINGBEAT, figure)?;
        let (least, most) = limits(results, case)?;
        let is_missed = !(least..=most).contains(&spread.median);
        is_missed.then(|| format!("{case} ({})", median(Some(spread), *unit)))
    });
    let missed: Vec<String> = missed.collect();
    if missed.is_empty() { String::new() } else { format!("- {what}: {}\n", missed.join(", ")) }
}

fn texts(results: &Results) -> Vec<String> {
    let hz = results.rows.iter().filter_map(|run| run.get("hz")).fold(0.0, f64::max);
    let mut columns = vec![column("target", |case: &&str| (*case).to_owned())];
    for (head, tool, figure, unit) in COLUMNS {
        let cell = move |case: &&str| median(results.spread(case, tool, figure), unit);
        columns.push(column(head, cell));
    }
    let has_figures = |case: &&str| results.spread(case, WINGBEAT, "samples").is_some();
    let rows = table(results.cases().into_iter().filter(has_figures), &columns);
    let missed: String = GOALS.iter().map(|goal| missed(results, goal)).collect();
    let missed = if missed.is_empty() { missed } else { format!("Missed goals:\n\n{missed}") };
    let about = "Complete stacks in %, CPU time in seconds per 10,000 samples.\n".to_owned();
    let more = format!("; {} rounds at {hz} Hz, median", results.rounds());
    vec![results.page(&more, [about, rows, missed, results.failures()])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn costs_are_read_and_own_time_is_without_the_target_s() {
        let check = |text: &str, expected| assert_eq!(times_ns(text), expected, "{text}");
        check("0m0.001s 0m0.002s\n1m1.500s 0m0.010s\n", Some(61_513_000_000));
        check("1.5 0.1\n", None);
        check("", None);
        assert_eq!(rss_max_of("VmPeak:\t 9 kB\nVmHWM:\t    12 kB\n"), Some(12 << 10));
        let cost = |cpu_s: u64, target_s: u64| {
            let usage = Usage { cpu_ns: cpu_s * 1_000_000_000, rss_max_bytes: 5_000_000 };
            Cost { usage, target_ns: target_s * 1_000_000_000 }
        };
        let values = vec![("samples", 1e4), ("later_s", 4.0)];
        let (stacks, cost_s) = (Stacks::default(), cost(130, 110));
        let sampled = Sampled { stacks, complete: None, cost: cost_s, values };
        let run = figures(("c", "t"), 0, &sampled, &Seen::default(), &cost(103, 100));
        let found = ["own_s_per_10k", RECORDING, "memory_mb", "complete"].map(|it| run.get(it));
        assert_eq!(found, [Some(17.0), Some(13.0), Some(5.0), None]);
        assert!((run.get("slowdown").expect("a time") - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_program_is_measured() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let launch = |run: &str| {
            let program = Program { run: run.to_owned(), ..Program::default() };
            let (folder, out) = (dir.path(), dir.path().to_owned());
            let job = Job { program: &program, folder, hz: 9, wingbeat: folder, out };
            job.launch(&Command::new("env"))
        };
        let cost = launch("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").expect("it runs");
        assert!(cost.target_ns > 0 && cost.usage.cpu_ns >= cost.target_ns / 2, "{cost:?}");
        assert!(cost.usage.rss_max_bytes > 0 && launch("exit 3").is_err(), "{cost:?}");
    }

    #[test]
    fn goals_count_where_perf_can_measure() {
        let ours = [("samples", 9.0), ("complete", 0.99), ("depth_from_perf", -0.75)];
        let found = results(&[
            ("git", WINGBEAT, 0, &ours),
            ("git", PERF, 0, &[("complete", 0.99)]),
            ("go", WINGBEAT, 0, &ours),
            ("go", PERF, 0, &[("complete", 0.5)]),
        ]);
        let text = &texts(&found)[0];
        assert_eq!(cells_of(text)[0][..4], ["git", "99.00", "99.00", "–"]);
        let depth = "- mean depth within 0.5 frames of perf's: git (−0.75)\n";
        assert!(text.contains(": git (99.00), go (99.00)\n") && text.ends_with(depth), "{text}");
    }
}
