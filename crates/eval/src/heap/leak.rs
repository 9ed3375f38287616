//! Whether a small leak is found in a running program.

use serde::{Deserialize, Serialize};

use super::{
    Bed, said,
    slowdown::RATE,
    target::{Pace, Target},
    wingbeat::{ANY_BUDGET, Watcher},
};

/// The function that forgets a kilobyte.
const GUILTY: &str = "forget ";

/// Flags to look with.
const WAYS: [&[&str]; 3] = [&["--exact"], &["--sample", "1K"], &[]];

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Leak {
    pub(super) flags: String,
    pub(super) seconds: u64,
    /// One of so many allocations.
    pub(super) one_of: u64,
    pub(super) allocations: u64,
    /// Its place among the suspects, from 1.
    pub(super) rank: Option<usize>,
    pub(super) suspects: usize,
    /// The line that names it.
    pub(super) line: Option<String>,
    pub(super) losses: Vec<String>,
}

pub(super) fn leaks(bed: &Bed<'_>) -> anyhow::Result<Vec<Leak>> {
    let mut rows = Vec::new();
    for flags in WAYS {
        if bed.stop.is_asked() {
            break;
        }
        let row = leak(bed, flags)?;
        eprintln!("leak, {}: {:?} of {} suspects", row.flags, row.rank, row.suspects);
        rows.push(row);
    }
    Ok(rows)
}

fn leak(bed: &Bed<'_>, flags: &[&str]) -> anyhow::Result<Leak> {
    let (seconds, one_of) = if bed.args.quick { (10, 100_000) } else { (60, 1_000_000) };
    let pace = Pace { rate: RATE, forget: one_of, threads: 1 };
    let target = Target::start(&bed.folder, &std::process::Command::new("env"), pace)?;
    let mut command = bed.heap();
    command.args(ANY_BUDGET).args(flags).args(["--pid", &target.pid().to_string()]);
    command.args(["-d", &format!("{seconds}s")]);
    let before = target.count();
    let mut watcher = Watcher::start(&mut command, &bed.folder.file("said"))?;
    let text = watcher.wait_for_end()?;
    let suspects = said::suspects(&text);
    let at = suspects.iter().position(|line| line.contains(GUILTY));
    Ok(Leak {
        flags: if flags.is_empty() { "--sample 512K".to_owned() } else { flags.join(" ") },
        seconds,
        one_of,
        allocations: target.count() - before,
        rank: at.map(|at| at + 1),
        suspects: suspects.len(),
        line: at.map(|at| suspects[at].split_whitespace().collect::<Vec<_>>().join(" ")),
        losses: said::losses(&text),
    })
}
