//! The tools that wingbeat is compared with, and the programs that they watch, as `data.toml` describes
//! them. Settings of the machine that some need, and what samplers print about their samples.

use std::{collections::BTreeMap, sync::LazyLock};

use xtask::command::{find_program, output_of, repository};

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Data {
    pub(crate) comparison: BTreeMap<String, Conditions>,
    tool: BTreeMap<String, Tool>,
    pub(crate) unwind: Vec<Program>,
    pub(crate) heap: Vec<Program>,
    pub(crate) watcher: Vec<Watcher>,
}

/// Of a comparison: what needs root, rounds and rounds with --quick, programs, and marks with their pages.
#[derive(Debug, Deserialize)]
pub(crate) struct Conditions {
    pub(crate) root: Option<String>,
    pub(crate) rounds: (u32, u32),
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    pub(crate) pages: Vec<(String, String)>,
}

#[derive(Debug, Default, Deserialize)]
struct Tool {
    install: String,
    #[serde(default)]
    version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) needs: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) make: String,
    pub(crate) run: String,
    pub(crate) all: bool,
}

/// What may watch a program that allocates: its label, what has to be installed, and its words. FILE and PID stand for
/// a file to write and the program; without PID it starts the program itself.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Watcher {
    pub(crate) label: String,
    pub(crate) needs: String,
    pub(crate) words: Vec<String>,
    /// What it prints when it watches; wingbeat holds a link of an eBPF program then.
    #[serde(default)]
    pub(crate) ready: String,
}

/// A test reads it.
pub(crate) static DATA: LazyLock<Data> =
    LazyLock::new(|| toml::from_str(include_str!("../data.toml")).unwrap_or_default());

impl Program {
    /// Makes it in an empty folder. Sources without a program are in `programs`.
    pub(crate) fn make(&self, folder: &Path) -> Result<()> {
        self.needs.iter().try_for_each(|name| find(name).map(drop))?;
        for name in &self.files {
            let source = repository().join("crates/peers/programs").join(name);
            fs::copy(&source, folder.join(name))
                .with_context(|| format!("cannot copy {}", source.display()))?;
        }
        shell(folder, &self.make).map(drop).with_context(|| format!("cannot make {}", self.name))
    }
}

pub(crate) fn shell(folder: &Path, line: &str) -> Result<String> {
    let mut shell = Command::new("sh");
    output(shell.args(["-c", line]).env("REPOSITORY", repository()).current_dir(folder))
}

/// Where a program is, or how to get it.
pub(crate) fn find(name: &str) -> Result<PathBuf> {
    match (find_program(name), DATA.tool.get(name)) {
        (Some(found), _) => Ok(found),
        (None, Some(tool)) => bail!("{name} is not installed: `{}`", tool.install),
        (None, None) => bail!("{name} is not installed"),
    }
}

pub(crate) fn described(name: &str) -> String {
    if let Err(error) = find(name) {
        return error.to_string();
    }
    let asked = DATA.tool.get(name).map_or("", |tool| &tool.version);
    let mut words = asked.split_whitespace();
    let version = words.next().map(|program| version_of(Command::new(program).args(words)));
    format!("{name} {}", version.unwrap_or_default()).trim_end().to_owned()
}

/// The last word of the first line that a command prints, without the letters before the number.
pub(crate) fn version_of(command: &mut Command) -> String {
    let said = output_of(command).unwrap_or_default();
    // "perf version 6.1.192", "bpftool v7.1.0", "bpfcc-tools\t0.26.0+ds-1", "valgrind-3.19.0"
    let word = said.lines().next().and_then(|line| line.split_whitespace().next_back());
    word.unwrap_or("?").trim_start_matches(|letter: char| !letter.is_ascii_digit()).to_owned()
}

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// `kernel.perf_event_paranoid` at 1 or below, put back when this is dropped: samply 0.13 refuses higher levels even to
/// root.
pub(crate) struct Unparanoid(String);

impl Unparanoid {
    pub(crate) fn new() -> Result<Self> {
        let before = text_of(Path::new(PARANOID));
        let level: i32 =
            before.trim().parse().with_context(|| format!("no level in {PARANOID}"))?;
        fs::write(PARANOID, level.min(1).to_string())
            .with_context(|| format!("cannot set {PARANOID}"))?;
        Ok(Self(before))
    }
}

impl Drop for Unparanoid {
    fn drop(&mut self) {
        if let Err(error) = fs::write(PARANOID, &self.0) {
            eprintln!("warning: {PARANOID} stays lowered, it was {}: {error}", self.0.trim());
        }
    }
}

pub(crate) fn perf_samples(data: &Path) -> Result<(f64, f64)> {
    perf_samples_of(&output(&mut command("perf report --stats -i {}", &[&data]))?)
}

fn perf_samples_of(text: &str) -> Result<(f64, f64)> {
    // First come the records of the file, then each event. A record may stand for many lost samples.
    let parts = text.split_once("cpu-clock stats:");
    let (records, events) = parts.context("`perf report --stats` has no cpu-clock")?;
    let number = |part: &str, name: &str| {
        let line = part.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split(':').nth(1)?.split_whitespace().next()?.parse::<f64>().ok()
    };
    let samples = number(events, "SAMPLE events").unwrap_or(0.0);
    // Kernels before 6.0 do not count lost samples, only the occasions.
    let lost = number(events, "LOST_SAMPLES events").or_else(|| number(records, "LOST events"));
    Ok((samples, lost.unwrap_or(0.0)))
}

/// What samply says it lost, `Lost 592 events.`; it prints nothing when nothing was.
pub(crate) fn samply_lost(messages: &str) -> f64 {
    let counts = messages.lines().filter_map(|line| {
        line.strip_prefix("Lost ")?.strip_suffix(" events.")?.parse::<f64>().ok()
    });
    counts.sum()
}

/// A number in JSON by its path, as in `/ticks/lost`; an error shows what is there instead.
pub(crate) fn number(report: &Value, path: &str) -> Result<f64> {
    let found = report.pointer(path).and_then(Value::as_f64);
    let shown = || report.to_string().chars().take(300).collect::<String>();
    found.with_context(|| format!("no number {path} in {}", shown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_versions_or_an_installation() {
        let check = |line: &str, expected: &str| {
            assert_eq!(version_of(Command::new("echo").arg(line)), expected);
        };
        check("perf version 6.1.192", "6.1.192");
        check("bpftool v7.1.0\nmore", "7.1.0");
        check("valgrind-3.19.0", "3.19.0");
        check("", "");
        let Data { comparison, unwind, heap, watcher, tool } = &*DATA;
        assert!(
            find("sh").is_ok()
                && comparison.len() == 9
                && heap.len() + unwind.len() + watcher.len() > 20
        );
        for (name, Tool { install, .. }) in tool {
            let missing = find(name).err().map(|error| error.to_string());
            let expected = format!("{name} is not installed: `{install}`");
            assert!(missing.clone().is_none_or(|error| error == expected), "{missing:?}");
        }
    }

    #[test]
    fn samples_are_read() {
        let check = |text: &str, expected| {
            assert_eq!(perf_samples_of(text).ok(), expected, "{text}");
        };
        let records = "Aggregated stats:\n  TOTAL events:  14625\n  LOST events:  6  ( 0.0%)\n  SAMPLE events:  12429  (85.0%)\n  LOST_SAMPLES events:  1  ( 0.0%)\n";
        let old = "cpu-clock stats:\n  SAMPLE events:  12429\n";
        check(&format!("{records}{old}"), Some((12429.0, 6.0)));
        check(&format!("{records}{old}  LOST_SAMPLES events:  130\n"), Some((12429.0, 130.0)));
        check("TOTAL events: 3\n", None);
        assert_eq!(samply_lost("Lost 592 events.\nLost 8 events.\nall is well\n"), 600.0);
        let found = number(&json!({"ticks": {"lost": 3}}), "/ticks/lost");
        assert_eq!(found.ok(), Some(3.0));
        let error = number(&json!({"error": "EPERM"}), "/ticks").expect_err("no number");
        assert_eq!(error.to_string(), r#"no number /ticks in {"error":"EPERM"}"#);
    }
}
