//! What all comparisons share: their description as data, their flags, the results as JSON, and the
//! tables in pages that are made of them.

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::de::DeserializeOwned;
use xtask::{
    command::{Rights, Steps, cargo, repository},
    conditions, folders, marked,
};

use crate::prelude::*;

const OUT: &str = "target/peers";
/// Processes that want a CPU, above which figures are worth little.
const LOAD_MAX: f64 = 0.5;
pub(crate) const WINGBEAT: &str = "wingbeat";
pub(crate) const ALONE: &str = "alone";

/// A comparison of wingbeat with other tools or with its goals.
pub(crate) struct Comparison<A> {
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&A, &Bed<'_>, &mut Results) -> Result<()>,
    /// The texts for its pages, in their order; more are only printed.
    pub(crate) texts: fn(&Results) -> Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Less of all: shows that it works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// How often each is measured [default: by the comparison, fewer with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Only these tools, or engines
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only these workloads, programs or targets
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Samples per second of profilers [default: 99,999,9999 for `profile`, 999 for `unwind`]
    #[arg(long, value_name = "HZ", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) hz: Vec<u32>,
    /// Folder with the wingbeat to test [default: a release build of this tree]
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Where the figures go, as JSON [default: target/peers/NAME.json]
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    out: Option<PathBuf>,
    /// Measure nothing: make the tables from the figures of an earlier run
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Also write the tables into the pages that show them, between their marks
    #[arg(long)]
    update: bool,
}

pub(crate) struct Bed<'a> {
    pub(crate) wingbeat: PathBuf,
    /// For files that stay until the next run of the same comparison.
    folder: PathBuf,
    pub(crate) quick: bool,
    pub(crate) rounds: u32,
    pub(crate) common: &'a Common,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    date: String,
    machine: String,
    command: String,
    pub(crate) tools: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) rows: Vec<Run>,
}

/// Figures of one run of a tool on a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) case: String,
    pub(crate) tool: String,
    pub(crate) round: u32,
    /// Names end with units.
    pub(crate) values: BTreeMap<String, f64>,
    /// Why figures are missing or doubtful; or what they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl<A> Comparison<A> {
    /// Measures, or reads earlier results; prints the tables, and writes them into pages if asked to.
    pub(crate) fn run(&self, args: &A, common: &Common) -> Result<Results> {
        let results = match &common.from {
            Some(file) => read_json(file)?,
            None => self.measured(args, common)?,
        };
        let texts = (self.texts)(&results);
        println!("{}", texts.join("\n"));
        ensure!(!is_stopped(), "stopped early: no page was written");
        if common.update {
            for ((mark, page), text) in self.conditions()?.pages.iter().zip(&texts) {
                marked::write(&repository().join(page), mark, text)?;
                eprintln!("wrote the tables into {page}");
            }
        }
        Ok(results)
    }

    fn conditions(&self) -> Result<&'static Conditions> {
        DATA.comparison.get(self.name).context("data.toml does not have this comparison")
    }

    fn measured(&self, args: &A, common: &Common) -> Result<Results> {
        let (name, Conditions { root, rounds, needs, .. }) = (self.name, self.conditions()?);
        if let Some(what) = root.as_ref().filter(|_| Rights::now() != Rights::Root) {
            let command = "sudo -E env PATH=\"$PATH\" cargo xtask peers";
            bail!("{what} need root: run `{command} {name} …`, or become root");
        }
        needs.iter().try_for_each(|tool| find(tool).map(drop))?;
        let (file_name, folder) = (name.replace(' ', "-"), repository().join(OUT));
        let wingbeat = program(common.programs.as_deref(), "wingbeat", "wingbeat")?;
        let runs = folder.join("runs").join(&file_name);
        folders::fresh(&runs)?;
        let usual = if common.quick { rounds.1 } else { rounds.0 };
        let rounds = common.rounds.unwrap_or(usual);
        let bed = Bed { wingbeat, folder: runs, quick: common.quick, rounds, common };
        let mut results = Results::now();
        let outcome = (self.measure)(args, &bed, &mut results);
        let file = common.out.clone();
        let file = file.unwrap_or_else(|| folder.join(format!("{file_name}.json")));
        let json = serde_json::to_string_pretty(&results).context("figures are not JSON")?;
        fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("wrote the figures to {}", file.display());
        // Ctrl-C also reaches the tools: their errors then mean nothing.
        if is_stopped() { Ok(results) } else { outcome.map(|()| results) }
    }
}

/// A program in the folder that was named, or in a release build of its package.
fn program(folder: Option<&Path>, package: &str, name: &str) -> Result<PathBuf> {
    if let Some(folder) = folder {
        let file = folder.join(name);
        return fs::canonicalize(&file).with_context(|| format!("cannot find {}", file.display()));
    }
    Steps::default().run(cargo().args(["build", "--release", "-p", package, "--bin", name]))?;
    Ok(repository().join("target/release").join(name))
}

impl Bed<'_> {
    pub(crate) fn work(&self) -> Result<PathBuf> {
        program(self.common.programs.as_deref(), "wingbeat-peers", "work")
    }

    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name.replace([' ', ','], "-"));
        folders::fresh(&folder)?;
        Ok(folder)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let file = self.file(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

impl Run {
    pub(crate) fn new<'a>(
        (case, tool): (&str, &str),
        round: u32,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { case: case.to_owned(), tool: tool.to_owned(), round, values, note: None }
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }
}

impl Results {
    fn now() -> Self {
        let words: Vec<String> = env::args().skip(1).filter(|word| word != "--update").collect();
        let load = text_of(Path::new("/proc/loadavg"));
        let load = load.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        let load = load.filter(|load| *load > LOAD_MAX);
        let notes = load.map(|load| {
            let note = "The machine was busy when this began (load LOAD): other programs took CPU time, and the figures \
                vary more than they should.";
            note.replace("LOAD", &load.to_string())
        });
        notes.iter().for_each(|note| eprintln!("warning: {note}"));
        Self {
            date: conditions::date(),
            machine: conditions::machine(),
            command: format!("cargo xtask peers {}", words.join(" ")),
            notes: notes.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The sentence above the tables, with more about how it was measured.
    pub(crate) fn line(&self, more: &str) -> String {
        let Self { date, machine, command, .. } = self;
        format!("Measured on {date} with `{command}`: {machine}{more}.\n")
    }

    /// Adds a run, and shows it on the terminal. A failure is a run without figures.
    pub(crate) fn add(&mut self, place: (&str, &str), round: u32, run: Result<Run>) {
        if is_stopped() {
            return;
        }
        let note = |error| Some(format!("{error:#}"));
        let run = run.unwrap_or_else(|it| Run { note: note(it), ..Run::new(place, round, []) });
        let figures = run.values.iter().map(|(name, value)| format!("{name} {value:.4}"));
        let figures: Vec<String> = figures.chain(run.note.clone()).collect();
        eprintln!("round {}, {}, {}: {}", round + 1, run.case, run.tool, figures.join(", "));
        self.rows.push(run);
    }

    pub(crate) fn cases(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|run| run.case.as_str()))
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rows.iter().map(|run| run.round + 1).max().unwrap_or(0)
    }

    pub(crate) fn runs(&self, case: &str, tool: &str) -> impl Iterator<Item = &Run> {
        self.rows.iter().filter(move |run| run.case == case && run.tool == tool)
    }

    pub(crate) fn spread(&self, case: &str, tool: &str, name: &str) -> Option<Spread> {
        Spread::of(self.runs(case, tool).filter_map(|run| run.get(name)))
    }

    pub(crate) fn beside(&self, run: &Run, tool: &str) -> Option<&Run> {
        self.runs(&run.case, tool).find(|other| other.round == run.round)
    }

    /// That sentence, the tools, the notes, and other parts, but for empty ones.
    pub(crate) fn page(&self, more: &str, parts: impl IntoIterator<Item = String>) -> String {
        let Self { tools, notes, .. } = self;
        let tools = if tools.is_empty() { String::new() } else { tools.join(", ") + ".\n" };
        let notes = notes.iter().map(|note| format!("- {note}\n"));
        let all = [self.line(more), tools].into_iter().chain(notes).chain(parts);
        all.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn failures(&self) -> String {
        let failed = self.rows.iter().filter(|run| run.values.is_empty());
        let sentence = |run: &Run| {
            format!("{}, {}: {}", run.case, run.tool, run.note.as_deref().unwrap_or_default())
        };
        distinct(failed.map(sentence)).iter().map(|it| format!("- {it}.\n")).collect()
    }
}

static STOPPED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Notices Ctrl-C and SIGTERM from now on, so that settings are put back and results are kept.
pub(crate) fn watch_signals() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&STOPPED))
            .context("cannot watch for Ctrl-C")?;
    }
    Ok(())
}

pub(crate) fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

pub(crate) fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let read = || parse_json(&fs::read_to_string(file)?);
    read().with_context(|| format!("cannot read {}", file.display()))
}

/// Parses JSON of a tool; an error shows its beginning.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    let begin = || text.chars().take(300).collect::<String>();
    serde_json::from_str(text).with_context(|| format!("not the expected JSON: {}", begin()))
}

/// Those with these names, in their order; all if there are none.
pub(crate) fn chosen<'a, T>(
    all: &'a [T],
    name: fn(&T) -> &str,
    names: &[String],
) -> Result<Vec<&'a T>> {
    let known: Vec<&str> = all.iter().map(name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("\"{unknown}\" is unknown: choose from {}", known.join(", "));
    }
    let is_chosen = |it: &&T| names.is_empty() || names.iter().any(|wanted| wanted == name(it));
    Ok(all.iter().filter(is_chosen).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    type Row<'a> = (&'a str, &'a str, u32, &'a [(&'a str, f64)]);

    pub(crate) fn results(runs: &[Row<'_>]) -> Results {
        let rows = runs.iter().map(|&(case, tool, round, values)| {
            Run::new((case, tool), round, values.iter().copied())
        });
        Results { rows: rows.collect(), ..Results::default() }
    }

    pub(crate) fn cells_of(text: &str) -> Vec<Vec<String>> {
        let lines = text.lines().filter(|line| line.starts_with('|')).skip(2);
        let row = |line: &str| {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        lines.map(row).collect()
    }

    #[test]
    fn names_choose() {
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let found = chosen(&["a", "b", "c"], |name| name, &names);
            found.map(|it| it.into_iter().copied().collect()).map_err(|error| error.to_string())
        };
        assert_eq!(chosen(&["d"]), Err("\"d\" is unknown: choose from a, b, c".to_owned()));
        assert_eq!((chosen(&[]), chosen(&["c", "a"])), (Ok("abc".to_owned()), Ok("ac".to_owned())));
    }

    #[test]
    fn results_are_kept_and_compared_round_by_round() {
        let mut kept = results(&[("c", "a", 1, &[("x_s", 3.0)]), ("c", "b", 1, &[("x_s", 5.0)])]);
        kept.add(("c", "b"), 0, Err(anyhow::anyhow!("it burns")));
        let json = serde_json::to_string(&kept).expect("JSON");
        let found: Results = serde_json::from_str(&json).expect("the same");
        assert_eq!(found.rows, kept.rows);
        assert_eq!(found.beside(&found.rows[0], "b"), Some(&found.rows[1]));
        assert_eq!((found.cases(), &*found.failures()), (vec!["c"], "- c, b: it burns.\n"));
    }
}
