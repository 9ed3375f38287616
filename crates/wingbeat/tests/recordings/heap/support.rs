//! Runs `wingbeat heap`, and reads its DHAT file.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    sync::{LazyLock, MutexGuard},
};

use serde_json::Value;
use wingbeat_bpf_loader::{
    Verb,
    probe::{can, findings},
};

use crate::ran::Ran;

/// Acquires the test lock, in a folder; `None` if the kernel lacks multi-uprobe links.
pub(crate) fn turn_for_heap() -> Option<(MutexGuard<'static, ()>, tempfile::TempDir)> {
    static CAN: LazyLock<bool> = LazyLock::new(|| can(Verb::Heap, &findings()));
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    // Added in Linux 6.6.
    if (numbers.next(), numbers.next()) < (Some(6), Some(6)) {
        eprintln!("skipped: Linux {release} has no links of uprobes");
        return None;
    }
    let can = CAN.then_some(()).ok_or("`wingbeat doctor` says that heap is impossible here");
    crate::ran::turn(can).map(|turn| (turn, crate::target::folder()))
}

/// Helpers for targets: noinline functions, and time to attach.
pub(crate) const HEAD: &str = r#"
#include <malloc.h>
#include <sys/wait.h>
#include <dlfcn.h>
#include <pthread.h>
static volatile long sink;
static void *used(void *block) { sink += (long)block; return block; }
static void wait_ms(long ms) { usleep(ms * 1000); }
"#;

/// Results of a run.
#[derive(Debug)]
pub(crate) struct Heap {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    file: Value,
}

/// Amounts of a function: bytes and blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) total: (u64, u64),
    pub(crate) at_peak: (u64, u64),
    pub(crate) at_end: (u64, u64),
    pub(crate) own_peak: u64,
}

/// `wingbeat heap` with a DHAT file in `folder`.
pub(crate) fn command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.arg("heap").arg("-o").arg(folder.join("out.json")).args(flags);
    command
}

/// Runs it to completion.
pub(crate) fn heap(folder: &Path, flags: &[&str], words: &[&str]) -> Heap {
    finished(folder, command(folder, flags).args(words).output().expect("run wingbeat"))
}

/// Every allocation of a program compiled here; `None` if it cannot be recorded here.
pub(crate) fn exact(source: &str) -> Option<Heap> {
    let (_turn, folder) = turn_for_heap()?;
    let program = build(folder.path(), "target", source);
    let words = [program.to_str().expect("UTF-8")];
    Some(heap(folder.path(), &["--exact", "--"], &words).ended_with(0))
}

pub(crate) fn build(folder: &Path, name: &str, source: &str) -> std::path::PathBuf {
    // Unused code would be optimized away.
    let flags = ["-fno-builtin", "-fno-optimize-sibling-calls", "-ldl"];
    crate::target::build_with(folder, name, &[HEAD, source].concat(), &flags)
}

pub(crate) fn finished(folder: &Path, output: Output) -> Heap {
    let Ran { code, stderr, .. } = output.into();
    let file = fs::read(folder.join("out.json"))
        .map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).expect("JSON"));
    Heap { code, stderr, file }
}

impl Heap {
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self
    }

    /// Allocations of a function, by the second frame of the stacks: the first is the allocator's.
    pub(crate) fn of(&self, function: &str) -> Sums {
        let named = format!(": {function} (");
        self.sums(|frames| frames.get(1).is_some_and(|frame| frame.contains(&named)))
    }

    /// Allocations below a function.
    pub(crate) fn below(&self, function: &str) -> Sums {
        let named = format!(": {function} (");
        self.sums(|frames| frames.iter().any(|frame| frame.contains(&named)))
    }

    /// All allocations.
    pub(crate) fn all(&self) -> Sums {
        Sums { own_peak: 0, ..self.sums(|_| true) }
    }

    /// Bytes touched below a function, in a file without block lifetimes.
    pub(crate) fn touched_below(&self, function: &str) -> u64 {
        assert_eq!(self.file["bklt"], false);
        let named = format!(": {function} (");
        let mut bytes = 0;
        self.each(|frames, point| {
            if frames.iter().any(|frame| frame.contains(&named)) {
                bytes += point["tb"].as_u64().expect("a number");
            }
        });
        bytes
    }

    fn sums(&self, is_wanted: impl Fn(&[&str]) -> bool) -> Sums {
        let mut sums = Sums::default();
        self.each(|frames, point| {
            if !is_wanted(frames) {
                return;
            }
            let number = |key: &str| point[key].as_u64().expect("a number");
            for (sum, (bytes, blocks)) in [
                (&mut sums.total, ("tb", "tbk")),
                (&mut sums.at_peak, ("gb", "gbk")),
                (&mut sums.at_end, ("eb", "ebk")),
            ] {
                *sum = (sum.0 + number(bytes), sum.1 + number(blocks));
            }
            sums.own_peak += number("mb");
        });
        sums
    }

    /// Iterates over the places with their frames.
    fn each(&self, mut hand_on: impl FnMut(&[&str], &Value)) {
        let table = self.file["ftbl"].as_array().expect("a table of frames");
        for point in self.file["pps"].as_array().expect("places") {
            let frames = point["fs"].as_array().expect("frames").iter();
            let text = |at: &Value| table[at.as_u64().expect("a number") as usize].as_str();
            let frames: Vec<&str> = frames.map(|at| text(at).expect("text")).collect();
            hand_on(&frames, point);
        }
    }
}
