//! What is left behind in the kernel and in the target, and whether the target lives on.

use std::{
    collections::BTreeSet,
    fs,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Bed, said,
    target::{Pace, Target},
    wingbeat::{ANY_BUDGET, Watcher, said},
};
use crate::{comparison::output, tools};

/// The busiest target: two threads, as fast as they can.
const LOAD: Pace = Pace { rate: 0, forget: 0, threads: 2 };

/// Recordings that run at the same time.
pub(super) const AT_ONCE: u32 = 8;

/// How long the kernel may take to let go.
const PATIENCE: Duration = Duration::from_secs(10);

/// What wingbeat says of a recording without an allocation.
const NOTHING: &str = "nothing was allocated";

/// Ids of programs, maps and links in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ids {
    pub(super) programs: BTreeSet<u32>,
    /// Empty if nobody can tell.
    pub(super) maps: BTreeSet<u32>,
    pub(super) links: BTreeSet<u32>,
}

/// A recording that was killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Killed {
    /// What wingbeat had.
    pub(super) had: Ids,
    /// What of it was there afterwards.
    pub(super) left: Ids,
    pub(super) has_bpftool: bool,
    pub(super) bytes_changed: usize,
    pub(super) bytes_left: usize,
    /// Whether the target has a page of the kernel's, where it steps over instructions.
    pub(super) has_page: bool,
    pub(super) is_working: bool,
}

/// Many recordings, one after the other and side by side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Attached {
    pub(super) times: u32,
    /// Recordings that had allocations in them.
    pub(super) well: u32,
    /// Others in which the target did not get to run.
    pub(super) empty: u32,
    /// What the first one that failed otherwise said.
    pub(super) failure: Option<String>,
    pub(super) bytes_left: usize,
    /// It allocated to the end, found its blocks as it had left them, and ended by itself.
    pub(super) survived: bool,
    pub(super) seconds: f64,
}

pub(super) fn killed(bed: &Bed<'_>) -> anyhow::Result<Killed> {
    let target = Target::start(&bed.folder, &Command::new("env"), LOAD)?;
    let before = target.code()?;
    let mut command = bed.heap();
    command.args(ANY_BUDGET).args(["--exact", "--pid", &target.pid().to_string()]);
    let mut watcher = Watcher::start(&mut command, &bed.folder.file("said"))?;
    watcher.wait_until(|_| Ok(target.code()? != before))?;
    // It records by then.
    thread::sleep(Duration::from_secs(1));
    let bytes_changed = differences(&before, &target.code()?);
    let had = of_process(watcher.pid())?;
    watcher.kill()?;
    let has_bpftool = tools::find("bpftool").is_ok();
    let begin = Instant::now();
    let mut left = still_there(&had)?;
    while left != Ids::default() && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(100));
        left = still_there(&had)?;
    }
    let bytes_left = differences(&before, &target.code()?);
    let has_page = target.has_page();
    let is_working = target.is_working() && target.end()?;
    Ok(Killed { had, left, has_bpftool, bytes_changed, bytes_left, has_page, is_working })
}

fn differences(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}

/// What a process holds, by its descriptors.
fn of_process(pid: u32) -> anyhow::Result<Ids> {
    let mut ids = Ids::default();
    let folder = format!("/proc/{pid}/fdinfo");
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let id = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse::<u32>().ok())
        };
        // A link tells its program, too.
        ids.links.extend(id("link_id:"));
        ids.programs.extend(id("prog_id:"));
        ids.maps.extend(id("map_id:"));
    }
    ensure!(!ids.programs.is_empty() && !ids.links.is_empty(), "wingbeat has nothing attached");
    Ok(ids)
}

/// What of these the kernel still has.
fn still_there(had: &Ids) -> anyhow::Result<Ids> {
    let programs: BTreeSet<u32> =
        wingbeat_bpf_loader::program::ids().context("cannot list programs")?.into_iter().collect();
    let links = wingbeat_bpf_loader::links::all().context("cannot list links")?;
    let links = links.into_iter().map(|link| link.id).collect();
    let maps = match tools::find("bpftool") {
        Ok(bpftool) => map_ids(&output(Command::new(bpftool).args(["-j", "map", "list"]))?)?,
        Err(_) => BTreeSet::new(),
    };
    let both = |a: &BTreeSet<u32>, b: &BTreeSet<u32>| a.intersection(b).copied().collect();
    Ok(Ids {
        programs: both(&had.programs, &programs),
        maps: both(&had.maps, &maps),
        links: both(&had.links, &links),
    })
}

fn map_ids(json: &str) -> anyhow::Result<BTreeSet<u32>> {
    #[derive(Deserialize)]
    struct Map {
        id: u32,
    }
    let maps: Vec<Map> = serde_json::from_str(json).context("bpftool lists no maps")?;
    Ok(maps.into_iter().map(|map| map.id).collect())
}

pub(super) fn attached(bed: &Bed<'_>) -> anyhow::Result<Attached> {
    let target = Target::start(&bed.folder, &Command::new("env"), LOAD)?;
    let before = target.code()?;
    let (begun, well, empty) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let times = bed.args.attach_times();
    let begin = Instant::now();
    let failures: Vec<String> = thread::scope(|scope| {
        let loops: Vec<_> = (0..AT_ONCE)
            .map(|_| scope.spawn(|| repeat(bed, target.pid(), times, &begun, [&well, &empty])))
            .collect();
        loops.into_iter().filter_map(|it| it.join().ok().flatten()).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let bytes_left = differences(&before, &target.code()?);
    let survived = target.is_working() && target.end()?;
    Ok(Attached {
        times: times.min(begun.into_inner()),
        well: well.into_inner(),
        empty: empty.into_inner(),
        failure: failures.into_iter().next(),
        bytes_left,
        survived,
        seconds,
    })
}

/// Records again and again: what the first one that failed said.
fn repeat(
    bed: &Bed<'_>,
    pid: u32,
    times: u32,
    begun: &AtomicU32,
    [well, empty]: [&AtomicU32; 2],
) -> Option<String> {
    let mut failure = None;
    loop {
        let number = begun.fetch_add(1, Ordering::Relaxed);
        if number >= times || bed.stop.is_asked() {
            return failure;
        }
        let mut command = bed.heap();
        // Now and then with all that the probes can do.
        let flags: &[&str] = if number % 10 == 9 { &["--exact"] } else { &["--sample", "4K"] };
        command.args(ANY_BUDGET).args(flags).args(["-d", "20ms", "--pid", &pid.to_string()]);
        match said(&mut command).map(|text| said::taken(&text)) {
            Ok(Some(1..)) => _ = well.fetch_add(1, Ordering::Relaxed),
            Ok(_) => _ = empty.fetch_add(1, Ordering::Relaxed),
            // It fails when there was nothing.
            Err(error) if format!("{error:#}").contains(NOTHING) => {
                _ = empty.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => failure = failure.or(Some(format!("{error:#}"))),
        }
        if number % 100 == 99 {
            eprintln!("attached {} times", number + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_maps() {
        let ids = map_ids(r#"[{"id": 4, "name": "a"}, {"id": 9}]"#).expect("a list");
        assert_eq!(ids, BTreeSet::from([4, 9]));
        assert_eq!(differences(b"abc", b"axc"), 1);
    }
}
