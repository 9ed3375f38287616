//! The profilers that sample: how each is started on a program, and how its result is read.

use std::time::{SystemTime, UNIX_EPOCH};

use flate2::bufread::GzDecoder;
use xtask::command::repository;

use crate::{
    prelude::*,
    unwind::stacks::{Place, Stacks, of_firefox, of_perf},
};

pub(crate) const PERF: &str = "perf";
pub(crate) const SAMPLY: &str = "samply";

/// A profiler from start to a written output: its name, the programs that it needs, of which the first has the version.
pub(crate) struct Sampler(
    pub(crate) &'static str,
    pub(crate) &'static [&'static str],
    pub(crate) fn(&Job<'_>) -> Result<Sampled>,
);

/// perf before samply, which is compared with it.
pub(crate) static SAMPLERS: [Sampler; 3] = [
    Sampler(WINGBEAT, &[], wingbeat),
    Sampler(PERF, &["perf", "inferno-collapse-perf", "inferno-flamegraph"], perf),
    Sampler(SAMPLY, &["samply"], samply),
];

pub(crate) struct Job<'a> {
    pub(crate) line: &'a str,
    pub(crate) folder: &'a Path,
    pub(crate) hz: u32,
    pub(crate) all: bool,
    /// Stacks are walked by tables, and read; else they are walked by frame pointers, and drawn.
    pub(crate) walk: bool,
    pub(crate) wingbeat: &'a Path,
    pub(crate) out: PathBuf,
}

pub(crate) type Values = Vec<(&'static str, f64)>;

/// What a tool made of a run: figures, and stacks with the share of complete ones where the tool counts them.
pub(crate) struct Sampled {
    pub(crate) values: Values,
    pub(crate) stacks: Option<Stacks>,
    pub(crate) complete: Option<f64>,
}

/// Cost of a run: of all its processes, and of the target with all that it waited for; and when that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cost {
    usage: Usage,
    pub(crate) target_s: f64,
    ended_s: f64,
}

/// Runs `$0` and leaves in `$1` what it took, and when it ended: bash counts finer than other shells.
const TIMED: &str =
    r#"sh -c "$0"; status=$?; { times; echo "$EPOCHREALTIME"; } > "$1"; exit $status"#;

impl Job<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Runs the target under a command that takes it as its last words; alone it is `env`.
    ///
    /// Libraries lie at the same addresses in all processes: perf 6.1 mistakes those of the process that
    /// forked for those of the program that it became, and loses every second of such stacks.
    pub(crate) fn launch(&self, under: &Command) -> Result<Cost> {
        let times = self.file("times");
        let mut command = Command::new("setarch");
        command.arg("-R").arg(under.get_program()).args(under.get_args());
        command.args(["bash", "-c", TIMED, self.line]).arg(&times);
        command.current_dir(self.folder).env("REPOSITORY", repository());
        let (out, messages) = (create(&self.file("output"))?, self.file("messages"));
        let running = Running::connected(&mut command, Stdio::null(), out.into(), &messages)?;
        // The kernel's maximum at the end would be the target's where that takes more.
        let status = PathBuf::from(format!("/proc/{}/status", running.pid()));
        let (begin, mut rss_max_bytes) = (Instant::now(), 0);
        while begin.elapsed() < LIMIT && !running.ends_within(Duration::from_millis(10))? {
            rss_max_bytes = rss_max_of(&text_of(&status)).unwrap_or(0).max(rss_max_bytes);
        }
        let usage = Usage { rss_max_bytes, ..running.finish()? };
        let times = times_s(&text_of(&times));
        let (target_s, ended_s) = times.context("the target left no times")?;
        Ok(Cost { usage, target_s, ended_s })
    }
}

impl Cost {
    pub(crate) fn values(&self, hz: u32) -> Values {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        vec![
            ("hz", hz.into()),
            ("target_s", self.target_s),
            ("cpu_s", self.usage.cpu_ns as f64 / 1e9),
            ("finish_s", now.as_secs_f64() - self.ended_s),
            ("memory_mb", self.usage.rss_max_bytes as f64 / 1e6),
        ]
    }
}

fn rss_max_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The sum of `0m1.234s 0m0.010s`, a line for the shell and one for its children; and a time on a third line.
fn times_s(text: &str) -> Option<(f64, f64)> {
    let time = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let (times, end) = text.trim_end().rsplit_once('\n')?;
    let sum_s = times.split_whitespace().map(time).sum::<Option<f64>>()?;
    // Some locales write a comma.
    Some((sum_s, end.replace(',', ".").parse().ok()?))
}

fn open(file: &Path) -> Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("{} was not written", file.display()))?;
    Ok(BufReader::new(opened))
}

fn wingbeat(job: &Job<'_>) -> Result<Sampled> {
    let output = job.file(if job.walk { "profile.json" } else { "flamegraph.svg" });
    let (hz, summary) = (job.hz.to_string(), job.file("summary.json"));
    let words = "{} profile --quiet --unwind auto -F {} --summary-json {} -o {}";
    let mut command = command(words, &[&job.wingbeat, &hz, &summary, &output]);
    let cost = if job.all {
        let watcher = Running::start(command.arg("--all"), &job.file("messages"))?;
        thread::sleep(Duration::from_millis(500));
        let cost = job.launch(&Command::new("env"));
        watcher.interrupt()?;
        let (watched, cost) = (watcher.finish()?, cost?);
        Cost { usage: cost.usage.then(watched), ..cost }
    } else {
        job.launch(command.arg("--"))?
    };
    let mut values = cost.values(job.hz);
    let summary: Value = read_json(&summary).context("wingbeat wrote no summary")?;
    let of = |path: &str| number(&summary, path);
    let later_ns = of("/own/cpu_time_ns/symbolize")? + of("/own/cpu_time_ns/write")?;
    values.extend([
        ("samples", of("/ticks/sampled")?),
        ("lost", of("/ticks/lost")?),
        ("bytes_per_sample", of("/bytes_per_sample")?),
        ("later_s", later_ns / 1e9),
        ("recording_memory_mb", of("/own/rss_max_record_bytes")? / 1e6),
    ]);
    let complete = of("/stacks/complete")?;
    let all = complete + of("/stacks/truncated")? + of("/stacks/broken")?;
    let stacks = job.walk.then(|| of_firefox(open(&output)?, Place::Address)).transpose()?;
    Ok(Sampled { values, stacks, complete: (all > 0.0).then_some(complete / all) })
}

/// With frame pointers and inferno's picture, which is what most people do; or with DWARF.
///
/// The event is named because without it perf takes hardware cycles where there are any, and the
/// comparison would then be between clocks.
fn perf(job: &Job<'_>) -> Result<Sampled> {
    let (data, hz, messages) = (job.file("perf.data"), job.hz.to_string(), job.file("messages"));
    let mut record = command("perf record --quiet -e cpu-clock -F {} -o {}", &[&hz, &data]);
    // Buffers for a thousand copies of a stack.
    let walk = ["--call-graph", "dwarf,65528", "-m", "64M", "--"];
    record.args(if job.walk { &walk[..] } else { &["-g", "--"] });
    let cost = job.launch(&record)?;
    let text = job.file("script.txt");
    let later = if job.walk {
        let words = "perf script --no-inline --max-stack 1024 -F pid,ip,sym,dso -i {}";
        run(&mut command(words, &[&data]), create(&text)?.into(), &messages)?
    } else {
        let draw = ["inferno-collapse-perf", "inferno-flamegraph"].map(Command::new);
        let script = command("perf script -i {}", &[&data]);
        let mut chain: Vec<Command> = [script].into_iter().chain(draw).collect();
        pipeline(&mut chain, create(&job.file("flamegraph.svg"))?, &messages)?
    };
    let mut values = Cost { usage: cost.usage.then(later), ..cost }.values(job.hz);
    let (samples, lost) = perf_samples(&data)?;
    let bytes = fs::metadata(&data).context("perf left no recording")?.len() as f64;
    values.extend([
        ("samples", samples),
        ("lost", lost),
        ("bytes_per_sample", bytes / samples.max(1.0)),
        // With DWARF, it also walks then.
        ("later_s", later.cpu_ns as f64 / 1e9),
    ]);
    fs::remove_file(&data).context("cannot remove perf's recording")?;
    let stacks = job.walk.then(|| of_perf(open(&text)?)).transpose()?;
    Ok(Sampled { values, stacks, complete: None })
}

/// The recording alone, into a file that nobody opens: it names functions in the browser.
fn samply(job: &Job<'_>) -> Result<Sampled> {
    let _lowered = Unparanoid::new()?;
    let (profile, hz) = (job.file("profile.json.gz"), job.hz.to_string());
    let words = "samply record --save-only --no-open --rate {} -o {} --";
    let cost = job.launch(&command(words, &[&hz, &profile]))?;
    // The kernel copies up to 32 kB of stack for each sample; the file has no size of that.
    let mut values = cost.values(job.hz);
    let json = BufReader::new(GzDecoder::new(open(&profile)?));
    let lost = samply_lost(&text_of(&job.file("messages")));
    values.extend([("lost", lost), ("recording_memory_mb", cost.usage.rss_max_bytes as f64 / 1e6)]);
    let (stacks, samples) = if job.walk {
        let stacks = of_firefox(json, Place::Relative)?;
        let samples = stacks.samples as f64;
        (Some(stacks), samples)
    } else {
        (None, firefox_samples(json)?)
    };
    values.push(("samples", samples));
    Ok(Sampled { values, stacks, complete: None })
}

/// Samples of all threads in a profile for the Firefox Profiler.
///
/// Read as a stream: the memory of this program is copied into the figures of its later children.
fn firefox_samples(json: impl Read) -> Result<f64> {
    #[derive(Deserialize)]
    struct Profile {
        threads: Vec<Thread>,
    }
    #[derive(Deserialize)]
    struct Thread {
        samples: Samples,
    }
    #[derive(Deserialize)]
    struct Samples {
        length: u32,
    }
    let profile: Profile =
        serde_json::from_reader(json).context("not a profile for the Firefox Profiler")?;
    Ok(profile.threads.iter().map(|thread| f64::from(thread.samples.length)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read() {
        let check = |text: &str, expected| assert_eq!(times_s(text), expected, "{text}");
        check("0m0.001s 0m0.002s\n1m1.500s 0m0.010s\n17.25\n", Some((61.513, 17.25)));
        check("1.5 0.1\n17\n", None);
        check("", None);
        assert_eq!(rss_max_of("VmPeak:\t 9 kB\nVmHWM:\t    12 kB\n"), Some(12 << 10));
        let json = r#"{"threads": [{"samples": {"length": 2, "stack": [1]}}, {"samples": {"length": 3}}]}"#;
        assert_eq!(firefox_samples(json.as_bytes()).ok(), Some(5.0));
        assert!(firefox_samples(&b"{}"[..]).is_err());
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (folder, out) = (dir.path(), dir.path().to_owned());
        let (line, walk) = ("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done", false);
        let job = Job { line, folder, hz: 9, all: false, walk, wingbeat: folder, out };
        let cost = job.launch(&Command::new("env")).expect("it runs");
        assert!(cost.target_s > 0.0 && cost.usage.rss_max_bytes > 0, "{cost:?}");
        assert!(Job { line: "exit 3", ..job }.launch(&Command::new("env")).is_err());
    }
}
