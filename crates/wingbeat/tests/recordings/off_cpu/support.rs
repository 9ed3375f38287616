//! Starts self-measuring targets, runs wingbeat, and reads the results of both.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    ran::wait_for,
    target::{Background, emulation_percent, read_said, turn_in_folder},
};

pub(crate) use crate::target::{Run, build, build_with, command, finished};

/// Starts a target, and waits until it prints `ready`.
pub(crate) fn start_ready(folder: &Path, program: &Path) -> Background {
    let said = folder.join("said.txt");
    let file = File::create(&said).expect("create");
    let target = Background(Command::new(program).stdout(file).spawn().expect("start target"));
    let read = || fs::read_to_string(&said).expect("read");
    wait_for("the target", || read_said(&read()).contains_key("ready"));
    target
}

/// Runs it in a mode, to completion.
pub(crate) fn profile(folder: &Path, mode: &str, flags: &[&str], words: &[&str]) -> Run {
    let output = command(folder, &["--mode", mode]).args(flags).args(words).output();
    finished(folder, output.expect("run wingbeat"))
}

/// Waits until a wingbeat session traces the scheduler, and then long enough for a non-empty recording. The startup
/// time depends on the machine's load.
pub(crate) fn let_record(session: &Child) {
    /// Four programs that maintain the table of targets, and two that trace switches, attached last.
    const LINKS: usize = 6;
    let descriptors = format!("/proc/{}/fd", session.id());
    wait_for("wingbeat to watch", || {
        let links = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        let files = links.filter_map(|link| fs::read_link(link.path()).ok());
        files.filter(|to| to.as_os_str() == "anon_inode:bpf_link").count() >= LINKS
    });
    thread::sleep(Duration::from_millis(1_500));
}

/// Builds a target and records it to its good end; `None` if profiling is impossible here.
pub(crate) fn recorded(name: &str, source: &str, mode: &str, flags: &[&str]) -> Option<Run> {
    let (_turn, folder) = turn_in_folder()?;
    let program = build(folder.path(), name, source);
    Some(launch(folder.path(), mode, flags, &program).ended_with(0))
}

/// Launches a program under wingbeat.
pub(crate) fn launch(folder: &Path, mode: &str, flags: &[&str], program: &Path) -> Run {
    profile(folder, mode, flags, &["--", program.to_str().expect("UTF-8")])
}

/// Blocks of all matching stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub count: u64,
    pub total_ns: u64,
    /// Of the stack with the most time.
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl Run {
    /// A value printed by the launched target.
    pub(crate) fn said(&self, key: &str) -> u64 {
        *self.said.get(key).unwrap_or_else(|| panic!("{key} in {:?}\n{}", self.said, self.stderr))
    }

    /// Time of the collapsed stacks that have all these frames.
    pub(crate) fn time_ns(&self, frames: &[&str]) -> u64 {
        self.time_where_ns(|stack| frames.iter().all(|frame| stack.split(';').any(|f| f == *frame)))
    }

    /// Time of the collapsed stacks that contain a text.
    pub(crate) fn time_with_ns(&self, text: &str) -> u64 {
        self.time_where_ns(|stack| stack.contains(text))
    }

    /// Time of the collapsed stacks that match.
    pub(crate) fn time_where_ns(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.folded.iter().filter(|(stack, _)| is_meant(stack)).map(|(_, time_ns)| time_ns).sum()
    }

    /// Number of switches that the kernel did not report, which have no stacks.
    pub(crate) fn untold(&self) -> u64 {
        self.number("/off_cpu/switches/reconstructed")
    }

    /// The summary's blocks in a state (all if empty) and function (any if empty).
    pub(crate) fn blocks(&self, function: &str, state: &str) -> Blocks {
        let is_in = |frames: &[Value]| frames.iter().any(|frame| frame == function);
        self.blocks_where(state, |frames| function.is_empty() || is_in(frames))
    }

    /// The same for stacks that have, for each of these texts, a frame containing it.
    pub(crate) fn blocks_in(&self, texts: &[&str], state: &str) -> Blocks {
        let has = |frames: &[Value], text: &str| {
            frames.iter().filter_map(Value::as_str).any(|frame| frame.contains(text))
        };
        self.blocks_where(state, |frames| texts.iter().all(|text| has(frames, text)))
    }

    fn blocks_where(&self, state: &str, is_meant: impl Fn(&[Value]) -> bool) -> Blocks {
        let mut blocks = Blocks::default();
        let mut most_ns = 0;
        for row in self.rows("stacks") {
            let frames = row["stack"].as_array().expect("frames");
            if !is_meant(frames) || !(state.is_empty() || row["state"] == state) {
                continue;
            }
            let number = |key: &str| row[key].as_u64().expect("a number");
            blocks.count += number("count");
            blocks.total_ns += number("total_ns");
            blocks.max_ns = blocks.max_ns.max(number("max_ns"));
            if number("total_ns") > most_ns {
                most_ns = number("total_ns");
                (blocks.p50_ns, blocks.p99_ns) = (number("p50_ns"), number("p99_ns"));
            }
        }
        blocks
    }

    /// The summary's threads with a name.
    pub(crate) fn threads(&self, name: &str) -> Vec<&Value> {
        self.rows("threads").iter().filter(|thread| thread["name"] == name).collect()
    }

    fn rows(&self, key: &str) -> &[Value] {
        let rows = self.summary["off_cpu"][key].as_array();
        rows.unwrap_or_else(|| panic!("no {key}:\n{}", self.all()))
    }

    pub(crate) fn thread(&self, name: &str) -> &Value {
        let threads = self.threads(name);
        assert_eq!(threads.len(), 1, "{name} in {}", self.summary["off_cpu"]["threads"]);
        threads[0]
    }

    /// Everything that a failed test should print.
    pub(crate) fn all(&self) -> String {
        let stacks: Vec<String> =
            self.folded.iter().map(|(stack, ns)| format!("{ns} {stack}")).collect();
        let off_cpu = serde_json::to_string_pretty(&self.summary["off_cpu"]).expect("JSON");
        format!("{:?}\n{}\n{}\n{off_cpu}", self.said, self.stderr, stacks.join("\n"))
    }
}

/// Asserts that two values agree within a percentage plus some nanoseconds; in an emulated guest with more tolerance.
#[track_caller]
pub(crate) fn near(run: &Run, figure: u64, expected: u64, percent: f64, spare_ns: u64) {
    let percent = percent + emulation_percent();
    let limit = expected as f64 * percent / 100.0 + spare_ns as f64;
    let miss = figure as f64 - expected as f64;
    assert!(
        miss.abs() <= limit,
        "{figure} is not {expected} within {percent} % and {spare_ns}:\n{}",
        run.all()
    );
}

/// Asserts that the blocks in a function and state match the target's own measurements within 2 % (see [`near`]). After
/// waking, a thread may be preempted before it reads the clock: its own measurement includes that time, the blocks do
/// not.
#[track_caller]
pub(crate) fn as_measured(run: &Run, function: &str, state: &str, count: u64, measured_ns: u64) {
    let blocks = run.blocks(function, state);
    // If the kernel does not report a switch, two blocks look like one, or one like two. Their total time must still be
    // right.
    let untold = run.untold().min(count.div_ceil(2));
    assert!(blocks.count.abs_diff(count) <= untold, "blocks in {function}:\n{}", run.all());
    let preempted_ns = run.blocks(function, "preempted").total_ns;
    near(run, blocks.total_ns + preempted_ns / 2, measured_ns, 2.0, preempted_ns / 2);
    let frame = format!("[{state}]");
    assert_eq!(run.time_ns(&[function, &frame]), blocks.total_ns, "folded:\n{}", run.all());
}
