//! `cargo xtask peers heap`: are the sums of `wingbeat heap` right, and what does it cost the program?
//!
//! Sums of all allocations are compared with those of valgrind's DHAT, the cost with heaptrack's and memleak-bpfcc's.

use std::{env, os::unix::fs::FileExt as _};

use crate::prelude::*;

pub(crate) const COMPARISON: Comparison<Common> = Comparison { name: "heap", measure, texts };

const DHAT: &str = "valgrind";
/// The first of the watchers in data.toml.
const ALONE: usize = 0;
/// So that nothing is refused: how much slower the target becomes is what is measured.
const ANY_BUDGET: [&str; 2] = ["--budget", "100000"];
/// Allocations of a second; 0 stands for as many as it can.
const RATES: [(u32, &str); 2] = [(100_000, "at 100000 allocations/s"), (0, "at full speed")];

fn measure(_: &Common, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    results.tools = ["valgrind", "heaptrack", "memleak-bpfcc"].map(described).into();
    let watchers = chosen(&DATA.watcher, |it| &it.label, &bed.common.only)?;
    let folder = bed.fresh("programs")?;
    for program in chosen(&DATA.heap, |it| &it.name, &bed.common.case)? {
        let name = program.name.as_str();
        if let Err(error) = program.make(&folder) {
            results.add((name, WINGBEAT), 0, Err(error));
            continue;
        }
        results.add((name, WINGBEAT), 0, by_wingbeat(bed, &folder, program));
        results.add((name, DHAT), 0, by_dhat(&folder, program));
    }
    let make = "gcc -g -O2 -pthread -o calls \"$REPOSITORY/crates/peers/programs/calls.c\"";
    shell(&folder, make)?;
    for round in 0..bed.rounds {
        for (rate, case) in RATES {
            for watcher in watchers.iter().filter(|_| !is_stopped()) {
                let place = (case, watcher.label.as_str());
                let run = watched(bed, &folder, watcher, rate);
                results.add(place, round, run.map(|it| Run::new(place, round, it)));
            }
        }
    }
    Ok(())
}

fn under(mut command: Command, folder: &Path, program: &Program) -> Result<Command> {
    let words = shell(folder, &format!("echo {}", program.run))?;
    command.args(words.split_whitespace()).current_dir(folder);
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
    // As many allocations as there are objects.
    command.envs([("LC_ALL", "C"), ("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")]);
    Ok(command)
}

/// A program under `wingbeat heap`, alone as valgrind runs it.
fn by_wingbeat(bed: &Bed<'_>, folder: &Path, program: &Program) -> Result<Run> {
    let file = folder.join("wingbeat.json");
    let words = "{} heap --color never --exact --no-inherit -o {} --";
    let wingbeat = command(words, &[&bed.wingbeat, &file]);
    let said = both_outputs(&mut under(wingbeat, folder, program)?)?;
    let said = said.0 + &said.1;
    let note = said.lines().find(|line| line.contains("found no room")).map(str::to_owned);
    Ok(Run { note, ..Run::new((&program.name, WINGBEAT), 0, sums(&read_json(&file)?)) })
}

fn by_dhat(folder: &Path, program: &Program) -> Result<Run> {
    let file = folder.join("valgrind.json");
    let to = format!("--dhat-out-file={}", file.display());
    // What the C library frees at the end for valgrind, the program does not.
    let words = "{} --tool=dhat --run-libc-freeres=no --run-cxx-freeres=no {}";
    both_outputs(&mut under(command(words, &[&find(DHAT)?, &to]), folder, program)?)?;
    Ok(Run::new((&program.name, DHAT), 0, sums(&read_json(&file)?)))
}

/// Sums over a whole run, at the moment with most, and at the end; and their names in a file of DHAT.
const SUMS: [(&str, &str); 5] = [
    ("bytes", "tb"),
    ("blocks", "tbk"),
    ("peak_bytes", "gb"),
    ("end_bytes", "eb"),
    ("end_blocks", "ebk"),
];

fn sums(dhat: &Value) -> [(&'static str, f64); 5] {
    SUMS.map(|(name, member)| {
        let points = dhat["pps"].as_array().into_iter().flatten();
        (name, points.filter_map(|point| point[member].as_f64()).sum())
    })
}

struct Target {
    running: Running,
    /// Three numbers of 8 bytes: its process, its allocations, and what ends it if it is not 0.
    file: PathBuf,
}

impl Target {
    fn start(mut under: Command, folder: &Path, rate: u32) -> Result<Self> {
        let file = folder.join("numbers");
        fs::write(&file, [0; 24]).context("cannot write the target's numbers")?;
        under.arg(folder.join("calls")).arg(&file).args([&rate.to_string(), "0", "1"]);
        let messages = folder.join("target-messages");
        let running = Running::connected(&mut under, Stdio::null(), Stdio::null(), &messages)?;
        let target = Self { running, file };
        target.running.wait_until("the target allocates", || target.number(1) > 0)?;
        Ok(target)
    }

    fn number(&self, index: usize) -> u64 {
        let bytes = fs::read(&self.file).unwrap_or_default();
        let number = bytes.chunks_exact(8).nth(index).and_then(|it| it.try_into().ok());
        number.map_or(0, u64::from_ne_bytes)
    }

    fn cpu_ns(&self) -> Result<u64> {
        let text = text_of(Path::new(&format!("/proc/{}/schedstat", self.number(0))));
        let time = text.split_whitespace().next().and_then(|word| word.parse().ok());
        time.context("the target is gone")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Also where it is the child of a tool. It may have ended by itself.
        let file = File::options().write(true).open(&self.file);
        let _ = file.and_then(|file| file.write_all_at(&1_u64.to_ne_bytes(), 16));
        let _ = self.running.ends_within(Duration::from_secs(5));
    }
}

/// CPU time of an allocation and its free, and allocations of a second, under a watcher.
fn watched(
    bed: &Bed<'_>,
    folder: &Path,
    watcher: &Watcher,
    rate: u32,
) -> Result<[(&'static str, f64); 2]> {
    let is_ours = watcher.needs == WINGBEAT;
    let program = if is_ours { bed.wingbeat.clone() } else { find(&watcher.needs)? };
    let command = |pid: u64| {
        let mut command = Command::new(&program);
        command.env("PYTHONUNBUFFERED", "1").args(watcher.words.iter().map(|word| match &**word {
            "FILE" => folder.join("heaptrack").display().to_string(),
            "PID" => pid.to_string(),
            word => word.to_owned(),
        }));
        command.args(ANY_BUDGET.iter().filter(|_| is_ours));
        command
    };
    let attaches = watcher.words.iter().any(|word| word == "PID");
    let under = if attaches { Command::new("env") } else { command(0) };
    let target = Target::start(under, folder, rate)?;
    let attach = || {
        let messages = folder.join(format!("messages-{}", target.number(0)));
        let running = Running::start(&mut command(target.number(0)), &messages)?;
        running.wait_until("it watches", || {
            let is_ready = running.messages().contains(&watcher.ready);
            if is_ours { has_link(running.pid()) } else { is_ready }
        })?;
        anyhow::Ok(running)
    };
    let attached = attaches.then(attach).transpose()?;
    // What is measured first is over by then.
    thread::sleep(Duration::from_secs(1));
    let (begin, count, cpu_ns) = (Instant::now(), target.number(1), target.cpu_ns()?);
    thread::sleep(Duration::from_secs(if bed.quick { 1 } else { 4 }));
    let allocations = target.number(1).saturating_sub(count) as f64;
    let cpu_ns = target.cpu_ns()?.saturating_sub(cpu_ns) as f64;
    let per_second = allocations / begin.elapsed().as_secs_f64();
    ensure!(allocations > 0.0, "the target stands still");
    if let Some(running) = attached {
        running.interrupt()?;
        // memleak-bpfcc ends by the signal.
        running.finish().map(drop).or_else(|error| if is_ours { Err(error) } else { Ok(()) })?;
    }
    Ok([("allocation_ns", cpu_ns / allocations), ("per_second", per_second)])
}

fn has_link(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    files.map(|file| text_of(&file.path())).any(|text| text.contains("link_id:"))
}

fn texts(results: &Results) -> Vec<String> {
    let parts = [sums_table(results), costs(results), results.failures()];
    vec![results.page("", parts)]
}

fn sums_table(results: &Results) -> String {
    let both = |case: &str, sum: &str| {
        let of = |tool| results.spread(case, tool, sum).map(|it| it.median);
        of(WINGBEAT).zip(of(DHAT))
    };
    let by = |(ours, dhat): (f64, f64)| if ours == dhat { 0.0 } else { ours / dhat - 1.0 };
    let sum = |name: &'static str| {
        column(name, move |case: &&str| match both(case, name) {
            Some((ours, dhat)) if ours != dhat => {
                let percent = format!("{:+.5} %", 100.0 * by((ours, dhat))).replace('-', "−");
                format!("{ours}; DHAT {dhat} ({percent})")
            }
            both => both.map_or(NONE.to_owned(), |(ours, _)| ours.to_string()),
        })
    };
    let within = |case: &&str| {
        let gaps = SUMS.iter().filter_map(|(name, _)| Some(by(both(case, name)?).abs()));
        verdict(gaps.fold(0.0, f64::max) <= 0.001)
    };
    let has_sums = |case: &&str| both(case, "bytes").is_some();
    let program = column("program", |case: &&str| (*case).to_owned());
    let within = column("within 0.1 % of DHAT?", within);
    let columns = [program, sum("bytes"), sum("blocks"), within];
    table(results.cases().into_iter().filter(has_sums), &columns)
}

fn label(watcher: usize) -> &'static str {
    &DATA.watcher[watcher].label
}

fn added_ns(results: &Results, case: &str, tool: &str) -> Option<f64> {
    let of = |tool| results.spread(case, tool, "allocation_ns").map(|it| it.median);
    Some(of(tool)? - of(label(ALONE))?)
}

fn costs(results: &Results) -> String {
    let mut columns = vec![column("watched by", |tool: &&str| (*tool).to_owned())];
    for (_, case) in RATES {
        columns.push(column(format!("added {case}"), move |tool: &&str| {
            let added_ns = added_ns(results, case, tool).filter(|_| *tool != label(ALONE));
            added_ns.map_or(NONE.to_owned(), |ns| format!("{:.2} µs", ns / 1e3))
        }));
        columns.push(column("allocations/s", move |tool: &&str| {
            median(results.spread(case, tool, "per_second"), (1e-3, 0, " k"))
        }));
    }
    let has_figures = |tool: &&str| added_ns(results, RATES[0].1, tool).is_some();
    table(DATA.watcher.iter().map(|it| it.label.as_str()).filter(has_figures), &columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn sums_and_costs_are_judged() {
        let point = |tb| json!({"tb": tb, "tbk": 2, "gb": 60, "eb": 50, "ebk": 1, "fs": [0]});
        let found = sums(&json!({"ftbl": ["[root]"], "pps": [point(100), point(8)]}));
        assert_eq!(found.map(|it| it.1), [108.0, 4.0, 120.0, 100.0, 2.0]);
        let sums = |bytes| SUMS.map(|(name, _)| (name, if name == "bytes" { bytes } else { 7.0 }));
        let cost = |ns| [("allocation_ns", ns), ("per_second", 1e5)];
        let found = results(&[
            ("C", WINGBEAT, 0, &sums(99_999.0)),
            ("C", DHAT, 0, &sums(100_000.0)),
            ("Rust", WINGBEAT, 0, &sums(90.0)),
            ("Rust", DHAT, 0, &sums(100.0)),
            ("go", WINGBEAT, 0, &sums(90.0)),
            (RATES[0].1, label(ALONE), 0, &cost(10.0)),
            (RATES[0].1, label(1), 0, &cost(2010.0)),
        ]);
        let rows = cells_of(&sums_table(&found));
        assert_eq!(rows[0], ["C", "99999; DHAT 100000 (−0.00100 %)", "7", "reached"]);
        assert_eq!((rows.len(), &*rows[1][3]), (2, "**missed**"));
        let rows = cells_of(&costs(&found));
        assert_eq!(rows[0][1..3], [NONE, "100 k"]);
        assert_eq!(rows[1], ["`wingbeat heap`", "2.00 µs", "100 k", NONE, NONE]);
    }
}
