//! Warnings about a recording, and its JSON document. Each says what happened, how it affects the results, and what to
//! do next.

mod next_step;

use std::{collections::BTreeMap, fmt};

use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use wingbeat_profiler_abi::{
    USER_FRAMES_MAX,
    unwind::layout::{BLOCK_BYTES, BLOCKS_MAX},
};
use wingbeat_text::{Warning, duration, plural, share, shell_word};

use crate::{
    advice::next_step::{how_to_download, how_to_frame, how_to_name, how_to_see},
    debuginfod::Account,
    model::{BrokenReason, Mode},
    session::{TableCounts, Unwind},
    summary::{
        BrokenPlace, Summary, UnwindCounts,
        jit::{Interpreted, Jit, Nameless, Runtime},
        off_cpu::OffCpu,
    },
    symbolize::{Refused, Unusable},
};

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

/// Broken stacks below this share are normal: first instructions of programs, hand-written assembly.
const BROKEN_SHARE_MIN: f64 = 0.05;

/// Targets that used less than this share of the CPUs available to them count as idle.
const BUSY_SHARE_MIN: f64 = 0.05;

/// Maximum share of wrong stacks among the verified reused ones.
const WRONG_SHARE_MAX: f64 = 0.01;

/// Copied stacks below this share are normal: code that was mapped just before.
const COPIED_SHARE_MIN: f64 = 0.05;

/// Above this share of a process's samples, unnamed code hides what it does.
const NAMELESS_SHARE_MAX: f64 = 0.2;

/// Above this share of a process's samples, the interpreter hides what it does.
const INTERPRETED_SHARE_MAX: f64 = 0.5;

/// Minimum number of samples for a share to mean anything.
const NAMELESS_SAMPLES_MIN: u64 = 10;

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

fn of_blocks(
    summary: &Summary,
    off_cpu: &OffCpu,
    nothing: Option<Nothing>,
    found: &mut Vec<ProfileWarning>,
) {
    let switches = &off_cpu.switches;
    let blocks = switches.reported + switches.still_blocked;
    if blocks == 0 {
        // If samples were taken too, running all the time is not a failure.
        if summary.mode == Mode::OffCpu.name() {
            found.push(nothing_blocked(off_cpu));
        } else if switches.below_limit == 0 {
            found.extend(nothing.map(|why| no_samples(&why.text)));
        }
    } else if off_cpu.idle_hidden > 0 && summary.outputs.is_empty() {
        let cause = format!("{} slept the whole time", plural(off_cpu.idle_hidden, "thread"));
        let effect = "--hide-idle hid it, so nothing was written";
        let hidden = ProfileWarning::new("all-hidden", cause, effect, "record without it");
        found.push(hidden.failure());
    }
    if let Some(reason) = &off_cpu.fell_back {
        found.push(ProfileWarning::new(
            "fell-back",
            format!(
                "the kernel refused tp_btf for the scheduler ({reason}), so a raw tracepoint was used"
            ),
            "threads that were not scheduled during the recording are missing, and the cost is higher",
            "see `wingbeat doctor`",
        ));
    }
    let lost = switches.lost_total();
    if let Some((reason, _)) = switches.lost.iter().max_by_key(|(_, count)| **count)
        && lost > 0
    {
        let of = switches.out + switches.born + switches.begun_before;
        let (why, next_step) = match *reason {
            "buffer_full" => ("because the buffer was full", MORE_ROOM_FOR_BLOCKS),
            "thread_table_full" => (
                "because there were more threads than the table of threads holds",
                "record fewer processes",
            ),
            reason => (reason, "record for a shorter time"),
        };
        let cause =
            format!("{lost} of {of} blocks ({}) were lost, most {why}", share::part(lost, of));
        let effect = "times off the CPU are too small";
        found.push(ProfileWarning::new("blocks-lost", cause, effect, next_step));
    }
    of_reuse(off_cpu, blocks, found);
}

const MORE_ROOM_FOR_BLOCKS: &str = "use a larger --buffer-size or a longer --min-block";

/// Hardly any block was reported.
fn nothing_blocked(off_cpu: &OffCpu) -> ProfileWarning {
    const CODE: &str = "nothing-blocked";
    let below_limit = off_cpu.switches.below_limit;
    if below_limit == 0 {
        let cause = "no thread of the target left the CPU, so nothing was written";
        let next_step = "use --mode on-cpu to see where";
        return ProfileWarning::new(CODE, cause, "it ran all the time", next_step).failure();
    }
    let (limit, sum) = (duration(off_cpu.min_block_ns), duration(off_cpu.switches.below_limit_ns));
    ProfileWarning::new(
        CODE,
        format!("all {below_limit} blocks were shorter than {limit} ({sum} in total)"),
        "the target ran nearly all the time",
        "use --mode on-cpu to see where, or a shorter --min-block to see the blocks",
    )
}

/// Lost and wrong stacks of blocks, and times that do not add up.
fn of_reuse(off_cpu: &OffCpu, blocks: u64, found: &mut Vec<ProfileWarning>) {
    let taken = &off_cpu.stacks_taken;
    if taken.missing > 0 {
        let part = share::part(taken.missing, blocks);
        let cause = format!(
            "{} of {blocks} blocks ({part}) lack a part of their stack, because the buffer was full",
            taken.missing
        );
        found.push(ProfileWarning::new("stacks-lost", cause, "", MORE_ROOM_FOR_BLOCKS));
    }
    if taken.wrong as f64 > WRONG_SHARE_MAX * taken.checked as f64 {
        let cause = format!(
            "{} of reused stacks failed the spot check ({} of {})",
            share::part(taken.wrong, taken.checked),
            taken.wrong,
            taken.checked
        );
        found.push(ProfileWarning::new("reused-wrong", cause, "outer callers may be wrong", ""));
    }
    if off_cpu.threads_off > 0 {
        let cause = format!(
            "the times of {} of {} differ from their elapsed time by more than 1 %",
            off_cpu.threads_off,
            plural(off_cpu.threads.len(), "thread")
        );
        let effect = "some of their blocks are missing or counted twice";
        found.push(ProfileWarning::new("threads-off", cause, effect, ""));
    }
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

/// Stacks without all of their callers, and code without names.
fn of_stacks(summary: &Summary, found: &mut Vec<ProfileWarning>) {
    let stacks = &summary.stacks;
    let taken = stacks.complete + stacks.truncated + stacks.broken;
    let is_much = |part: u64| part as f64 >= BROKEN_SHARE_MIN * taken.max(1) as f64;
    let in_memory = stacks.broken_in(BrokenPlace::Memory).iter().map(|(_, samples)| samples).sum();
    let (names, has_frames_advice) = of_names(&summary.jit, is_much(in_memory));
    if is_much(in_memory) && !has_frames_advice {
        found.push(ProfileWarning::new(
            "stacks-broken",
            format!(
                "{} of the stacks end too early, in code that was made while it ran and keeps no frame pointers",
                share::part(in_memory, taken)
            ),
            "callers are missing there",
            how_to_frame(summary.jit.unframed),
        ));
    }
    let modules = stacks.broken_in(BrokenPlace::Build);
    let broken = modules.iter().map(|(_, samples)| samples).sum();
    if is_much(broken) {
        found.push(too_early(broken, taken, &modules, &summary.unwind));
    }
    if stacks.truncated > 0 {
        let part = share::part(stacks.truncated, taken);
        found.push(ProfileWarning::new(
            "stacks-truncated",
            format!("{part} of the stacks are deeper than {USER_FRAMES_MAX} frames and were cut"),
            "their outermost callers are missing",
            "",
        ));
    }
    found.extend(of_tables(summary, taken));
    found.extend(names);
}

/// Stacks that end in files without unwind information and frame pointers.
fn too_early(
    broken: u64,
    taken: u64,
    modules: &[(String, u64)],
    unwind: &UnwindCounts,
) -> ProfileWarning {
    let (why, next_step) = match unwind.mode == Unwind::FramePointer.name() {
        true => ("missing frame pointers", "use --unwind auto"),
        false => (
            "missing unwind information and frame pointers",
            "keep its .eh_frame section, or rebuild it with frame pointers: \
             RUSTFLAGS=\"-C force-frame-pointers=yes\" for Rust, \
             -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer for C and C++",
        ),
    };
    let named = modules.iter().take(4);
    let named = named.map(|(file, of)| format!("{file} ({})", share::part(*of, broken)));
    let files = named.collect::<Vec<_>>().join(", ");
    let part = share::part(broken, taken);
    let cause = format!("{part} of the stacks end too early, because of {why} in {files}");
    ProfileWarning::new("stacks-broken", cause, "callers are missing there", next_step)
}

/// Warns of tables that did not fit, if that affected the `taken` stacks.
fn of_tables(summary: &Summary, taken: u64) -> Option<ProfileWarning> {
    let UnwindCounts { tables, copied, .. } = &summary.unwind;
    let cut = summary.stacks.broken_by_reason.get(BrokenReason::NoTable.name());
    let cut = cut.copied().unwrap_or(0);
    let tables = tables.as_ref()?;
    let copied = (*copied).min(taken);
    let is_much = copied > 0 && copied as f64 >= COPIED_SHARE_MIN * taken as f64;
    if is_much && tables.refused + tables.evicted > 0 {
        return Some(tables_tight(tables, share::part(copied, taken), cut));
    }
    let is_much = cut > 0 && cut as f64 >= BROKEN_SHARE_MIN * taken as f64;
    is_much.then(|| {
        ProfileWarning::new(
            "stacks-copied-in-part",
            format!(
                "{} of the stacks met code whose unwind table was not built yet, and their copies did not \
                 fit into the ring buffer",
                share::part(cut, taken)
            ),
            "callers are missing there",
            "use a larger --buffer-size, such as 64M, or record for longer: tables stay once they are built",
        )
    })
}

/// The tables did not fit into their memory, so a part of the stacks was copied, and some of these copies are cut.
fn tables_tight(tables: &TableCounts, part: String, cut: u64) -> ProfileWarning {
    let &TableCounts { limit_bytes, refused, evicted, .. } = tables;
    let files = (refused > 0).then(|| format!("{} found no room", plural(refused, "file")));
    let times = plural(evicted, "time");
    let others = (evicted > 0).then(|| format!("tables made room for others {times}"));
    let both: Vec<String> = files.into_iter().chain(others).collect();
    let mib = limit_bytes >> 20;
    let cause = format!("the unwind tables did not fit into {mib}M: {}", both.join(", and "));
    let mut effect = format!("{part} of the stacks were copied instead, which costs time");
    if cut > 0 {
        effect += &format!(", and {cut} are cut where their copy ends");
    }
    let next_step = match limit_bytes < TABLES_BYTES_MAX {
        true => "use a larger --unwind-memory",
        false => "record fewer processes",
    };
    ProfileWarning::new("unwind-memory-full", cause, effect, next_step)
}

/// Maximum of `--unwind-memory`.
const TABLES_BYTES_MAX: u64 = BLOCKS_MAX as u64 * BLOCK_BYTES as u64;

/// Warns of rejected symbol files and of processes without one, or in an interpreter: one warning per runtime. Also
/// returns whether a warning covers the stacks that break in such code.
fn of_names(jit: &Jit, is_unframed: bool) -> (Vec<ProfileWarning>, bool) {
    let mut found = Vec::new();
    if let Some((Refused { pid, path, reason }, others)) = jit.refused.split_first() {
        found.push(ProfileWarning::new(
            "names-refused",
            format!("{path} of PID {pid} was not used, because {reason}{}", more(others.len())),
            "code of its JIT compiler has no names",
            "make it a regular file that belongs to the user of the process",
        ));
    }
    let is_refused = |pid: u32| jit.refused.iter().any(|file| file.pid == pid);
    let mut by_runtime: BTreeMap<Option<Runtime>, (&Nameless, usize)> = BTreeMap::new();
    for process in &jit.nameless {
        let Nameless { pid, runtime, samples, nameless, .. } = process;
        let is_much = *nameless as f64 > NAMELESS_SHARE_MAX * *samples as f64;
        if is_much && *samples >= NAMELESS_SAMPLES_MIN && !is_refused(*pid) {
            let first = by_runtime.entry(*runtime);
            first.and_modify(|(_, others)| *others += 1).or_insert((process, 0));
        }
    }
    // The same advice covers names and frame pointers, or both are in one warning.
    let is_covered = |runtime| is_unframed && runtime == jit.unframed;
    for (process, others) in by_runtime.values() {
        found.push(nameless(process, *others, is_covered(process.runtime)));
    }
    let mut by_loop: BTreeMap<Runtime, (&Interpreted, usize)> = BTreeMap::new();
    for process in &jit.interpreted {
        let Interpreted { runtime, samples, interpreted, .. } = process;
        let is_much = *interpreted as f64 > INTERPRETED_SHARE_MAX * *samples as f64;
        // Its JIT-compiled code lacks names too, and has a warning already.
        if is_much && *samples >= NAMELESS_SAMPLES_MIN && !by_runtime.contains_key(&Some(*runtime))
        {
            let first = by_loop.entry(*runtime);
            first.and_modify(|(_, others)| *others += 1).or_insert((process, 0));
        }
    }
    found.extend(by_loop.into_values().map(|(process, others)| interpreted(process, others)));
    (found, by_runtime.into_keys().any(is_covered))
}

fn nameless(process: &Nameless, others: usize, is_unframed: bool) -> ProfileWarning {
    let Nameless { pid, process, runtime, samples, nameless } = process;
    let (part, more) = (share::part(*nameless, *samples), more(others));
    let cause = format!(
        "{part} of the samples of {process} (PID {pid}){more} contain code of a JIT compiler without names"
    );
    let effect = match is_unframed {
        false => "all of it appears as one function, [anon]",
        true => {
            "all of it appears as one function, [anon], and stacks end there without their callers"
        }
    };
    ProfileWarning::new("names-missing", cause, effect, how_to_name(*runtime))
}

fn interpreted(process: &Interpreted, others: usize) -> ProfileWarning {
    let next_step = how_to_see(process);
    let Interpreted { pid, process, runtime, function, samples, interpreted, .. } = process;
    let (part, more, runtime) = (share::part(*interpreted, *samples), more(others), runtime.name());
    let cause = format!(
        "{part} of the samples of {process} (PID {pid}){more} are of functions that {runtime} interprets \
         ({function})"
    );
    let effect = format!(
        "the functions of the interpreter and those in C have names, those in {runtime} do not appear"
    );
    ProfileWarning::new("functions-interpreted", cause, effect, next_step)
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

/// Incremented when a field is renamed or removed.
const SCHEMA_VERSION: u32 = 1;

/// The JSON of a recording: its summary and warnings.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    summary: &'a Summary,
    warnings: Vec<Warning>,
}

impl<'a> Document<'a> {
    /// Creates the document of a recording with `samples_kept` shown samples.
    pub fn of(summary: &'a Summary, samples_kept: u64) -> Self {
        let warnings = warnings(summary, samples_kept).into_iter().map(|it| it.text).collect();
        Self { schema_version: SCHEMA_VERSION, summary, warnings }
    }
}

/// Warnings by recording.
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::counts::{Switches, Ticks};
    use crate::debuginfod::{Asked, BuildId, DownloadError, Outcome};
    use crate::summary::{BrokenIn, off_cpu::Reused};

    /// A CPU-time recording of one second on two CPUs with one busy thread.
    fn summary() -> Summary {
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

    /// Same as [`summary`] in another mode, with a thousand blocks.
    fn blocked(mode: Mode) -> (Summary, OffCpu) {
        let off_cpu = OffCpu {
            min_block_ns: 1_000,
            switches: Switches { out: 1_000, reported: 1_000, ..Switches::default() },
            stacks_taken: Reused {
                walked: 100,
                reused: 900,
                checked: 100,
                wrong: 1,
                ..Reused::default()
            },
            ..OffCpu::default()
        };
        (Summary { mode: mode.name(), ..summary() }, off_cpu)
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

    /// `expected` is the only warning, or empty for none.
    fn check_blocks(mode: Mode, change: fn(&mut OffCpu), is_failure: bool, expected: &str) {
        let (mut summary, mut off_cpu) = blocked(mode);
        change(&mut off_cpu);
        summary.off_cpu = Some(off_cpu);
        let samples = if mode == Mode::OffCpu { 0 } else { 99 };
        let found = warnings(&summary, samples);
        let texts: Vec<String> = found.iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts.join("\n"), expected);
        assert_eq!(found.iter().any(|it| it.is_failure), is_failure);
    }

    #[test]
    fn accounts_of_blocks_give_warnings() {
        let check = check_blocks;
        check(Mode::OffCpu, |_| (), false, "");
        check(Mode::Wall, |it| it.switches = Switches::default(), false, "");
        check(
            Mode::OffCpu,
            |it| it.switches = Switches::default(),
            true,
            "no thread of the target left the CPU, so nothing was written: it ran all the time; use \
         --mode on-cpu to see where",
        );
        check(
            Mode::OffCpu,
            |it| {
                it.switches.reported = 0;
                it.switches.below_limit = 1_000;
                it.switches.below_limit_ns = 700_000;
            },
            false,
            "all 1000 blocks were shorter than 1.00 µs (700 µs in total): the target ran nearly all the \
         time; use --mode on-cpu to see where, or a shorter --min-block to see the blocks",
        );
        check(
            Mode::Wall,
            |it| it.switches.lost = BTreeMap::from([("buffer_full", 20), ("forgotten", 1)]),
            false,
            "21 of 1000 blocks (2.1 %) were lost, most because the buffer was full: times off the CPU \
         are too small; use a larger --buffer-size or a longer --min-block",
        );
        check(
            Mode::OffCpu,
            |it| it.stacks_taken.missing = 5,
            false,
            "5 of 1000 blocks (0.50 %) lack a part of their stack, because the buffer was full; use a \
         larger --buffer-size or a longer --min-block",
        );
        check(
            Mode::OffCpu,
            |it| it.stacks_taken.wrong = 2,
            false,
            "2.0 % of reused stacks failed the spot check (2 of 100): outer callers may be wrong",
        );
        check(
            Mode::Wall,
            |it| it.threads_off = 3,
            false,
            "the times of 3 of 0 threads differ from their elapsed time by more than 1 %: some of their \
         blocks are missing or counted twice",
        );
        check(
            Mode::OffCpu,
            |it| it.idle_hidden = 1,
            true,
            "1 thread slept the whole time: --hide-idle hid it, so nothing was written; \
         record without it",
        );
    }

    #[test]
    fn files_with_names_that_were_not_believed() {
        let file = |pid| Refused {
            pid,
            path: format!("/tmp/perf-{pid}.map"),
            reason: "it is a symbolic link".to_owned(),
        };
        let check = |pids: &[u32], expected: &[&str]| {
            let mut summary = summary();
            summary.jit.refused = pids.iter().copied().map(file).collect();
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(&[], &[]);
        check(
            &[7],
            &[
                "/tmp/perf-7.map of PID 7 was not used, because it is a symbolic link: code of its JIT \
           compiler has no names; make it a regular file that belongs to the user of the process",
            ],
        );
        check(
            &[7, 8],
            &[
                "/tmp/perf-7.map of PID 7 was not used, because it is a symbolic link (and 1 more): \
           code of its JIT compiler has no names; make it a regular file that belongs to the user of \
           the process",
            ],
        );
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
            let mut summary = summary();
            summary.debuginfod = Some(Account { bytes: 0, files });
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
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
    fn processes_whose_code_has_no_names() {
        let process = |pid, runtime, samples, nameless| Nameless {
            pid,
            process: "MainThread".to_owned(),
            runtime,
            samples,
            nameless,
        };
        let check = |processes: &[Nameless], refused: &[u32], expected: &[(&str, &str)]| {
            let mut summary = summary();
            summary.jit.nameless = processes.to_vec();
            summary.jit.refused = refused
                .iter()
                .map(|&pid| Refused { pid, path: String::new(), reason: String::new() })
                .collect();
            let texts: Vec<String> = warnings(&summary, 99)
                .iter()
                .filter(|warning| warning.text.code == "names-missing")
                .map(ProfileWarning::to_string)
                .collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, (start, end)) in texts.iter().zip(expected) {
                assert!(text.starts_with(start) && text.ends_with(end), "{text}");
            }
        };
        let node = Some(Runtime::Node);
        check(&[process(7, node, 100, 20)], &[], &[]);
        check(&[process(7, node, 9, 9)], &[], &[]);
        check(&[process(7, node, 100, 21)], &[7], &[]);
        check(
            &[process(7, node, 100, 21)],
            &[8],
            &[(
                "21 % of the samples of MainThread (PID 7) contain code of a JIT compiler without names: \
             all of it appears as one function, [anon]; start Node with --perf-basic-prof",
                "for functions that it interprets",
            )],
        );
        check(
            &[
                process(7, None, 100, 90),
                process(8, node, 100, 80),
                process(9, node, 100, 70),
                process(6, Some(Runtime::Python), 100, 60),
                process(5, Some(Runtime::Java), 100, 50),
            ],
            &[],
            &[
                ("90 % of the samples of MainThread (PID 7) contain", "most have a flag for it"),
                ("80 % of the samples of MainThread (PID 8) (and 1 more) contain", "interprets"),
                ("60 %", "start Python (3.12 or later) with -X perf"),
                ("50 %", "-XX:+PreserveFramePointer"),
            ],
        );
    }

    #[test]
    fn tables_that_find_no_room_are_reported_if_it_matters() {
        let check = |tables: Option<(u64, u64, u64)>, copied, cut, expected: &str| {
            let mut summary = summary();
            summary.stacks.complete = 99 - cut;
            summary.stacks.broken = cut;
            summary.stacks.broken_by_reason = BTreeMap::from([("no_table_yet", cut)]);
            let tables = tables.map(|(mib, refused, evicted)| TableCounts {
                limit_bytes: mib << 20,
                refused,
                evicted,
                ..TableCounts::default()
            });
            summary.unwind = UnwindCounts { mode: "auto", tables, copied };
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts.join("\n"), expected);
        };
        check(None, 0, 0, "");
        check(Some((1, 0, 0)), 99, 0, "");
        check(Some((1, 1, 1)), 4, 0, "");
        check(
            Some((1, 1, 2)),
            33,
            0,
            "the unwind tables did not fit into 1M: 1 file found no room, and tables made room for \
         others 2 times: 33.3 % of the stacks were copied instead, which costs time; use a larger \
         --unwind-memory",
        );
        check(
            Some((64, 0, 1)),
            200,
            3,
            "the unwind tables did not fit into 64M: tables made room for others 1 time: 100 % of the stacks were copied instead, which costs time, and 3 are cut where \
         their copy ends; record fewer processes",
        );
        check(Some((64, 0, 0)), 33, 4, "");
        check(
            Some((64, 0, 0)),
            33,
            5,
            "5.1 % of the stacks met code whose unwind table was not built yet, and their copies did not fit \
         into the ring buffer: callers are missing there; use a larger --buffer-size, such as 64M, or \
         record for longer: tables stay once they are built",
        );
    }

    #[test]
    fn what_fills_the_buffer_is_to_be_made_less() {
        let check = |mode, expected: &str| {
            let (mut summary, off_cpu) = blocked(mode);
            summary.off_cpu = mode.blocks().then_some(off_cpu);
            summary.ticks.lost = 1;
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts.len(), 1, "{texts:?}");
            assert!(texts.iter().all(|text| text.ends_with(expected)), "{texts:?}");
        };
        check(Mode::OnCpu, "a larger --buffer-size or a lower --frequency");
        check(Mode::OffCpu, "a larger --buffer-size or a longer --min-block");
        check(Mode::Wall, "a larger --buffer-size or a longer --min-block");
    }

    /// What is advised about 99 complete stacks that were changed.
    fn texts(change: &dyn Fn(&mut Summary)) -> Vec<String> {
        let mut summary = summary();
        summary.stacks.complete = 99;
        change(&mut summary);
        warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect()
    }

    #[test]
    fn advice_fits_what_broke_or_was_interpreted() {
        let broken = |place, runtime, nameless: u64| {
            texts(&|summary| {
                summary.stacks.complete = 19;
                summary.stacks.broken = 80;
                let (reason, file) = (BrokenReason::NoFramePointer.name(), "a".to_owned());
                summary.stacks.broken_by_file = vec![BrokenIn { reason, file, count: 80, place }];
                summary.jit.unframed = runtime;
                let process = Nameless { runtime, samples: 99, nameless, ..Nameless::default() };
                summary.jit.nameless = vec![process];
            })
        };
        let check = |texts: Vec<String>, expected: &[(&str, &str)]| {
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, (start, end)) in texts.iter().zip(expected) {
                assert!(text.starts_with(start) && text.ends_with(end), "{text}");
            }
        };
        let java = Some(Runtime::Java);
        let with_names = "80.8 % of the stacks end too early, in code that was made while it ran";
        let rebuild = "for C and C++";
        check(
            broken(BrokenPlace::Build, None, 0),
            &[("80.8 % of the stacks end too early", rebuild)],
        );
        // The file cannot be built, its kind is unknown, or no information is missing.
        check(broken(BrokenPlace::Memory, java, 0), &[(with_names, "-XX:+PreserveFramePointer")]);
        check(broken(BrokenPlace::Memory, None, 0), &[(with_names, "a flag for frame pointers")]);
        check(broken(BrokenPlace::Unknown, None, 0), &[]);
        check(broken(BrokenPlace::NewStack, None, 0), &[]);
        // One warning covers both.
        check(
            broken(BrokenPlace::Memory, java, 90),
            &[("90.9 % of the samples", "PreserveFramePointer")],
        );

        let interpreted = |runtime, version, interpreted| {
            texts(&|summary| {
                summary.jit.interpreted = vec![Interpreted {
                    pid: 7,
                    process: "p".to_owned(),
                    runtime,
                    version,
                    function: "loop".to_owned(),
                    samples: 99,
                    interpreted,
                }];
            })
        };
        let begins = "60.6 % of the samples of p (PID 7) are of functions that ";
        let says = |runtime, version, end: &str| {
            check(interpreted(runtime, version, 60), &[(begins, end)]);
        };
        says(Runtime::Python, Some((3, 11)), "Python 3.12 and later names them with -X perf");
        says(Runtime::Python, Some((3, 12)), "py-spy record --pid 7");
        says(
            Runtime::Ruby,
            Some((3, 1)),
            "Ruby 3.3 and later names what it compiles with --yjit --yjit-perf",
        );
        says(Runtime::Php, None, "opcache.jit_debug=0x10");
        says(Runtime::Perl, None, "perl -d:NYTProf");
        says(Runtime::Erlang, None, "+JPperf true");
        says(Runtime::LuaJit, None, "luajit -jp");
        check(interpreted(Runtime::Perl, None, 40), &[]);
        let unopened = texts(&|summary| summary.files_unopened = 3);
        check(unopened, &[("3 files could not be opened, because", "or record fewer processes")]);
    }
}
