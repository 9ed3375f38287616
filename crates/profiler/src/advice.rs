//! Warnings about a recording, and its JSON document. Each says what happened, how it affects the results, and what to
//! do next.

mod blocks;
mod names;
mod next_step;
mod stacks;

use std::fmt;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use wingbeat_text::{Warning, duration, plural, share, shell_word};

use self::{
    blocks::{MORE_ROOM_FOR_BLOCKS, of_blocks},
    next_step::how_to_download,
    stacks::of_stacks,
};
use crate::{debuginfod::Account, model::Mode, summary::Summary, symbolize::Unusable};

/// A warning about a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileWarning {
    pub text: Warning,
    /// There is nothing to show.
    pub is_failure: bool,
}

impl ProfileWarning {
    fn new(
        code: &'static str,
        cause: impl Into<String>,
        effect: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self { text: Warning::new(code, cause, effect, next_step), is_failure: false }
    }

    fn failure(self) -> Self {
        Self { is_failure: true, ..self }
    }
}

impl fmt::Display for ProfileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// Targets that used less than this share of the CPUs available to them count as idle.
const BUSY_SHARE_MIN: f64 = 0.05;

/// Maximum number of files with a warning of their own when debug information is unusable.
const UNUSABLE_MAX: usize = 5;

/// Returns the warnings for a run, most severe first.
pub fn warnings(summary: &Summary, samples_kept: u64) -> Vec<ProfileWarning> {
    let mut found = Vec::new();
    let nothing = (samples_kept == 0).then(|| why_none(summary));
    match &summary.off_cpu {
        None => {
            found.extend(nothing.as_ref().map(|why| no_samples(&why.text)));
            if nothing.map_or_else(|| is_idle(summary), |why| why.is_idle) {
                found.push(hardly_ran(summary));
            }
        }
        Some(off_cpu) => of_blocks(summary, off_cpu, nothing, &mut found),
    }
    of_ticks(summary, &mut found);
    of_stacks(summary, &mut found);
    of_files(&summary.unusable, summary.debuginfod.as_ref(), &mut found);
    if summary.events_lost > 0 {
        let lost = summary.events_lost;
        let cause = format!("{lost} of the kernel's events on mappings and processes were lost");
        found.push(ProfileWarning::new("events-lost", cause, "some frames may lack names", ""));
    }
    if summary.children_lost > 0 {
        found.push(ProfileWarning::new(
            "children-lost",
            format!("{} child processes could not be followed", summary.children_lost),
            "the table of targets was full, or the kernel left out events of forks",
            "",
        ));
    }
    found
}

/// Why there are no samples.
struct Nothing {
    text: String,
    /// The targets hardly ran.
    is_idle: bool,
}

fn why_none(summary: &Summary) -> Nothing {
    let ticks = &summary.ticks;
    let duration_s = summary.duration_ns as f64 / 1e9;
    let cpu_s = summary.target_cpu_time_ns as f64 / 1e9;
    let text = if ticks.sampled > 0 {
        "all of them are in the other half of the stacks; use --stacks both".to_owned()
    } else if ticks.lost + ticks.failed_total() > 0 {
        "all of them were lost or failed, see below".to_owned()
    } else if duration_s * (summary.frequency_hz as f64) < 5.0 {
        let wanted = (50.0 / duration_s.max(1e-3)).ceil() as u64;
        format!(
            "the recording took only {:.1} ms; record for longer (a process in the background: --pid), \
             or sample more often, for example -F {}",
            duration_s * 1e3,
            wanted.clamp(99, 9_999)
        )
    } else {
        let text = format!(
            "the target slept or waited for a CPU {:.1} % of {} (it ran for {}), and only what runs \
             is sampled; record while it works, for longer (-d), or more often (-F)",
            100.0 * (1.0 - cpu_s / duration_s).clamp(0.0, 1.0),
            duration(summary.duration_ns),
            duration(summary.target_cpu_time_ns)
        );
        return Nothing { text, is_idle: true };
    };
    Nothing { text, is_idle: false }
}

fn no_samples(why: &str) -> ProfileWarning {
    ProfileWarning::new("no-samples", "no samples, so nothing was written", why, "").failure()
}

/// Whether the targets hardly used the CPU, so that samples say little.
fn is_idle(summary: &Summary) -> bool {
    // Many short-lived threads, or more threads than CPUs, cannot all run at once.
    let at_once = f64::from(summary.threads.min(summary.cpus).max(1));
    let could_ns = summary.duration_ns as f64 * at_once;
    (summary.target_cpu_time_ns as f64) < BUSY_SHARE_MIN * could_ns
}

fn hardly_ran(summary: &Summary) -> ProfileWarning {
    ProfileWarning::new(
        "hardly-ran",
        format!(
            "the target ran for {} of {}, and samples show only that time",
            duration(summary.target_cpu_time_ns),
            duration(summary.duration_ns)
        ),
        "",
        format!("to see what it waited for: {}", in_mode(&summary.command_line, Mode::OffCpu)),
    )
}

/// The command line with another mode, quoted for a shell.
fn in_mode(command_line: &[String], mode: Mode) -> String {
    let mut words: Vec<String> =
        command_line.iter().map(|word| shell_word(word).into_owned()).collect();
    let verb = words.iter().position(|word| word == "profile").map_or(words.len(), |at| at + 1);
    words.splice(verb..verb, ["--mode".to_owned(), mode.name().to_owned()]);
    words.join(" ")
}

/// Lost and failed samples, and files that could not be opened.
fn of_ticks(summary: &Summary, found: &mut Vec<ProfileWarning>) {
    const EFFECT: &str = "shares are of the remaining samples";
    let ticks = &summary.ticks;
    if ticks.lost > 0 {
        let wanted = ticks.lost + ticks.sampled;
        let part = share::part(ticks.lost, wanted);
        let cause = format!(
            "{} of {wanted} samples ({part}) were lost because the buffer was full",
            ticks.lost
        );
        // Blocks, if recorded, are most of the data.
        let next_step = match summary.off_cpu {
            Some(_) => MORE_ROOM_FOR_BLOCKS,
            None => "use a larger --buffer-size or a lower --frequency",
        };
        found.push(ProfileWarning::new("samples-lost", cause, EFFECT, next_step));
    }
    if let Some((error, _)) = ticks.failed.iter().max_by_key(|(_, count)| **count) {
        let failed = ticks.failed_total();
        let cause = format!("{failed} samples failed in the kernel, most with \"{error}\"");
        found.push(ProfileWarning::new("samples-failed", cause, EFFECT, ""));
    }
    if summary.files_unopened > 0 {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(0);
        found.push(ProfileWarning::new(
            "files-not-opened",
            format!(
                "{} could not be opened, because wingbeat may have no more than {limit} open",
                plural(summary.files_unopened, "file")
            ),
            "their functions have no names, and callers may be missing",
            "raise the limit (`ulimit -Hn`), or record fewer processes",
        ));
    }
}

/// Warns of debug information that was not used, or could not be fetched. Files that no server has are not failures.
fn of_files(unusable: &[Unusable], account: Option<&Account>, found: &mut Vec<ProfileWarning>) {
    for (index, Unusable { path, reason, is_replaced }) in
        unusable.iter().take(UNUSABLE_MAX).enumerate()
    {
        let is_last = index + 1 == UNUSABLE_MAX;
        let more = more(if is_last { unusable.len() - UNUSABLE_MAX } else { 0 });
        let (cause, effect, next_step) = match is_replaced {
            true => (
                format!("{path} names nothing, because {reason}{more}"),
                "what ran appears as addresses",
                "record again, and install by renaming a new file, not by writing into the old one",
            ),
            false => (
                format!("debug information of {path} was not used in full: {reason}{more}"),
                "names are those of symbol tables there, and source lines and inlined functions may be missing",
                "install the debug file of this build, or build the program again",
            ),
        };
        found.push(ProfileWarning::new("debug-info-unusable", cause, effect, next_step));
    }
    let files = account.map_or(&[][..], |account| &account.files);
    let mut failed = files.iter().filter_map(|asked| Some((&asked.path, asked.error.as_ref()?)));
    if let Some((path, error)) = failed.next() {
        let file = path.rsplit('/').next().unwrap_or(path);
        let more = more(failed.count());
        found.push(ProfileWarning::new(
            "debug-info-missing",
            format!("debug information of {file}{more} was not downloaded, because {error}"),
            "functions that it does not export appear as addresses, and all lack source lines",
            how_to_download(error),
        ));
    }
}

/// "and N more".
fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    }
}

/// The JSON of a recording: its summary and warnings.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    warnings: Vec<Warning>,
}

impl<'a> Document<'a> {
    /// Creates the document of a recording with `samples_kept` shown samples.
    pub fn of(summary: &'a Summary, samples_kept: u64) -> Self {
        let warnings = warnings(summary, samples_kept).into_iter().map(|it| it.text).collect();
        Self { summary, warnings }
    }
}

/// Warnings by recording.
#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        counts::Ticks,
        debuginfod::{Asked, BuildId, DownloadError, Outcome},
    };

    /// A CPU-time recording of one second on two CPUs with one busy thread.
    pub(super) fn summary() -> Summary {
        Summary {
            command_line: ["wingbeat", "profile", "-o", "it's.svg", "--pid", "7"]
                .map(str::to_owned)
                .into(),
            mode: Mode::OnCpu.name(),
            duration_ns: 1_000_000_000,
            frequency_hz: 99,
            cpus: 2,
            ticks: Ticks { sampled: 99, ..Ticks::default() },
            target_cpu_time_ns: 1_000_000_000,
            processes: 1,
            threads: 1,
            ..Summary::default()
        }
    }

    /// What is advised about 99 complete stacks that were changed.
    pub(super) fn texts(change: &dyn Fn(&mut Summary)) -> Vec<String> {
        let mut summary = summary();
        summary.stacks.complete = 99;
        change(&mut summary);
        warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect()
    }

    #[track_caller]
    pub(super) fn check_ends(texts: Vec<String>, expected: &[(&str, &str)]) {
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, (start, end)) in texts.iter().zip(expected) {
            assert!(text.starts_with(start) && text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn targets_that_hardly_ran_are_sent_to_the_other_mode() {
        let check = |cpu_ms: u64, threads: u32, samples: u64, expected: &[&str]| {
            let mut summary = summary();
            summary.target_cpu_time_ns = cpu_ms * 1_000_000;
            summary.threads = threads;
            summary.ticks.sampled = samples;
            let texts: Vec<String> =
                warnings(&summary, samples).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, expected) in texts.iter().zip(expected) {
                assert!(text.starts_with(expected), "{text}");
            }
        };
        check(1_000, 1, 99, &[]);
        check(51, 1, 5, &[]);
        check(49, 1, 5, &["the target ran for 49.0 ms of 1.00 s"]);
        check(99, 2, 9, &["the target ran for 99.0 ms of 1.00 s"]);
        // A hundred threads share two CPUs.
        check(101, 100, 9, &[]);
        check(2, 0, 0, &["no samples", "the target ran for 2.00 ms of 1.00 s"]);
    }

    #[test]
    fn the_other_mode_comes_with_its_command_line() {
        let check = |words: &[&str], expected| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(in_mode(&words, Mode::OffCpu), expected);
        };
        check(&["wingbeat", "profile", "-p", "7"], "wingbeat profile --mode off-cpu -p 7");
        check(
            &["/bin/wingbeat", "-q", "profile", "--", "sh", "-c", "profile it's; a"],
            r"/bin/wingbeat -q profile --mode off-cpu -- sh -c 'profile it'\''s; a'",
        );
        check(&["wingbeat", "profile", ""], "wingbeat profile --mode off-cpu ''");
    }

    #[test]
    fn debug_information_that_could_not_be_had() {
        let asked = |path: &str, error: Option<DownloadError>| Asked {
            path: path.to_owned(),
            build_id: BuildId::new(&[1]).expect("a build id"),
            outcome: if error.is_some() { Outcome::Failed } else { Outcome::NotFound },
            error,
        };
        let check = |files: Vec<Asked>, expected: &[&str]| {
            let account = Account { bytes: 0, files };
            let texts = texts(&|summary| summary.debuginfod = Some(account.clone()));
            assert_eq!(texts, expected);
        };
        let late = || Some(DownloadError::TimeIsUp { limit_s: 30 });
        check(vec![asked("/lib/a.so", None)], &[]);
        check(
            vec![asked("/lib/a.so", None), asked("/lib/b.so", late())],
            &[
                "debug information of b.so was not downloaded, because the time limit for downloads, 30 s, was exceeded: \
           functions that it does not export appear as addresses, and all lack source lines; record \
           again with a larger DEBUGINFOD_MAXTIME, in seconds; what was downloaded is kept",
            ],
        );
        let server = "https://a".to_owned();
        check(
            vec![
                asked("c", Some(DownloadError::Status { server, status: 500 })),
                asked("/lib/b.so", late()),
            ],
            &[
                "debug information of c (and 1 more) was not downloaded, because https://a answered with \
           status 500: functions that it does not export appear as addresses, and all lack source \
           lines; check the address, try another server, or record again later",
            ],
        );
    }

    #[test]
    fn files_that_could_not_be_opened() {
        let texts = texts(&|summary| summary.files_unopened = 3);
        check_ends(texts, &[("3 files could not be opened, because", "or record fewer processes")]);
    }
}
