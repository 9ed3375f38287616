//! `cargo xtask peers run`: how often does `wingbeat run --err` fail with code that did not change?
//!
//! Real benchmarks run while neighbours come and go. Each round begins with an empty store, and the same
//! code is measured five times, each time as a new commit. So that this cannot be reached by never
//! failing, code that does twice the work has to be found. `crates/track/examples/how_often` simulates
//! more.

use std::sync::atomic::{AtomicBool, Ordering};

use wingbeat_stats::random::Random;
use xtask::command::{captured, cargo, repository};

use crate::prelude::*;

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// Failures of code that did not change, from an empty store to the fourth report of history; without root
    Aa(Common),
}

pub(crate) const AA: Comparison<Common> = Comparison { name: "run aa", measure, texts };

/// Reports of history with which nothing is decided by them.
const HISTORY_MAX: u32 = 4;
/// In every n-th round code that does twice the work is measured, too.
const DOUBLED_EACH: u32 = 4;
const FALSE_MAX: f64 = 0.005;
const SAME: &str = "the same code";
const DOUBLED: &str = "twice the work";

fn measure(_: &Common, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let bench = built()?;
    let stop = AtomicBool::new(false);
    let stop = &stop;
    thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        (0..cpus).for_each(|number| _ = scope.spawn(move || neighbour(number, stop)));
        let mut rounds = (0..bed.rounds).take_while(|_| !is_stopped());
        let done = rounds.try_for_each(|round| {
            let begin = Instant::now();
            self::round([&bed.wingbeat, &bench], round, results)?;
            if let Some(last) = results.rows.last_mut() {
                last.values.insert("round_s".to_owned(), begin.elapsed().as_secs_f64());
            }
            anyhow::Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        done
    })
}

fn built() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["bench", "--no-run", "-p", "wingbeat-stats", "--bench", "aa"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let lines = captured(&mut command)?;
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = |message: Value| message["executable"].as_str().map(PathBuf::from);
    messages.filter_map(executable).next_back().context("cargo built no benchmark")
}

/// A neighbour that comes and goes, as on a machine that several jobs share: busy for a while, and resting for a while.
/// So two runs of the same program may differ by a factor of two.
fn neighbour(number: usize, stop: &AtomicBool) {
    const SPELL_MAX_S: f64 = 4.0;
    let mut random = Random::new(number as u64);
    let mut is_busy = number.is_multiple_of(2);
    while !stop.load(Ordering::Relaxed) {
        let until = Instant::now() + Duration::from_secs_f64(SPELL_MAX_S * random.unit());
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            if is_busy {
                std::hint::spin_loop();
            } else {
                thread::sleep(Duration::from_millis(20));
            }
        }
        is_busy = !is_busy;
    }
}

/// One round: a report without history, four with one to four, and perhaps one that has to be found.
fn round(paths: [&Path; 2], round: u32, results: &mut Results) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let script = |words: &[&str], paths: &[&Path]| {
        let script = repository().join("crates/peers/programs/aa.sh");
        let mut command = command("sh {} {}", &[&script, &folder.path()]);
        output(command.arg(words[0]).args(paths).args(&words[1..]))
    };
    let measure = |flags: &[&str]| {
        let said = script(&[&["measure"], flags].concat(), &paths)?;
        verdict_of(&parse_json(&said)?).context("`wingbeat run` gave no report")
    };
    let doubled_after =
        round.is_multiple_of(DOUBLED_EACH).then_some(round / DOUBLED_EACH % HISTORY_MAX + 1);
    let mut add = |history: u32, tool, verdict: [(&str, f64); 3]| {
        let case = history.to_string();
        results.add((&case, tool), round, Ok(Run::new((&case, tool), round, verdict)));
    };
    script(&["new"], &[])?;
    for history in 0..=HISTORY_MAX {
        if doubled_after == Some(history) {
            script(&["commit", "2", "Do twice the work"], &[])?;
            add(history, DOUBLED, measure(&["--dry-run"])?);
            script(&["reset"], &[])?;
        }
        script(&["commit", "1", &format!("Change nothing, {history}")], &[])?;
        let verdict = measure(&[])?;
        if history > 0 {
            add(history, SAME, verdict);
        }
    }
    Ok(())
}

/// Whether a report failed, for which an alert has to be active; whether something looked worse by its samples; and
/// whether that was left open. The exit code would not do: with `--err` it is also that of benchmarks that failed.
fn verdict_of(report: &Value) -> Option<[(&'static str, f64); 3]> {
    let active = report["counts"]["alerts"]["active"].as_u64()?;
    let list = |name: &str| report["wingbeat"][name].as_array().map_or(&[][..], Vec::as_slice);
    let is_worse = |it: &Value| it["code"] == "looks-changed" && it["outcome"] == "worse";
    let is_open = list("notices").iter().any(is_worse);
    let again = "measured again, alternating with";
    let mut remarks = list("remarks").iter().filter_map(Value::as_str);
    let looked_worse = is_open || remarks.any(|remark| remark.starts_with(again));
    let flag = |name, is_so: bool| (name, f64::from(u8::from(is_so)));
    Some([flag("failed", active > 0), flag("looked_worse", looked_worse), flag("open", is_open)])
}

fn texts(results: &Results) -> Vec<String> {
    let count = |tool: &str, figure: &str, case: Option<&str>| {
        let rows = results.rows.iter().filter(|run| run.tool == tool);
        let rows = rows.filter(|run| case.is_none_or(|case| run.case == case));
        let values = rows.filter_map(|run| run.get(figure));
        values.fold((0, 0), |(hits, of), value| (hits + usize::from(value > 0.0), of + 1))
    };
    let share = |tool| {
        let (hits, of) = count(tool, "failed", None);
        Share { hits, of }
    };
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let (same, doubled) = (share(SAME), share(DOUBLED));
    let bounds = same.interval().map(|(_, high)| format!(" (95 %: at most {})", percent(high)));
    let reports = |tool| move |case: &String| count(tool, "failed", Some(case)).1;
    let hits = |tool, figure| move |case: &String| count(tool, figure, Some(case)).0;
    let rows = table(
        (1..=HISTORY_MAX).map(|history| history.to_string()),
        &[
            column("reports of history", |case: &String| case.clone()),
            column("same code: reports", reports(SAME)),
            column("looked worse by samples", hits(SAME, "looked_worse")),
            column("left open", hits(SAME, "open")),
            column("failed", hits(SAME, "failed")),
            column("twice the work: reports", reports(DOUBLED)),
            column("found", hits(DOUBLED, "failed")),
        ],
    );
    let took_s: f64 = results.rows.iter().filter_map(|run| run.get("round_s")).sum();
    let sentence = format!(
        "{} rounds in {:.0} minutes. The same code failed {} of {} times{}; the goal is at most {}: {}. Twice the work \
         was found {} of {} times.\n",
        results.rounds(),
        took_s / 60.0,
        same.hits,
        same.of,
        bounds.unwrap_or_default(),
        percent(FALSE_MAX),
        same.at_most(FALSE_MAX),
        doubled.hits,
        doubled.of,
    );
    vec![results.page("", [sentence, rows])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn reports_are_understood() {
        let check = |notices: Value, remarks: Value, looked_worse, is_open| {
            for active in [0, 2] {
                let report = json!({
                    "counts": {"alerts": {"total": 3, "active": active}},
                    "wingbeat": {"notices": notices, "remarks": remarks},
                });
                let expected = [f64::from(active) / 2.0, looked_worse, is_open];
                let found = verdict_of(&report).map(|it| it.map(|(_, value)| value));
                assert_eq!(found, Some(expected), "{report}");
            }
        };
        let looks = |outcome| json!([{"code": "looks-changed", "outcome": outcome}]);
        check(json!([]), json!([]), 0.0, 0.0);
        check(looks("worse"), json!([]), 1.0, 1.0);
        check(looks("better"), json!(["something else"]), 0.0, 0.0);
        check(json!([]), json!(["measured again, alternating with 0a: …"]), 1.0, 0.0);
        assert_eq!(verdict_of(&json!({})), None, "no report");
    }

    #[test]
    fn both_kinds_are_counted() {
        let verdict = |failed| [("failed", failed), ("looked_worse", failed), ("open", 0.0)];
        let found = results(&[
            ("1", SAME, 0, &verdict(0.0)),
            ("1", SAME, 0, &verdict(1.0)),
            ("2", SAME, 0, &verdict(0.0)),
            ("2", DOUBLED, 0, &verdict(1.0)),
        ]);
        let text = &texts(&found)[0];
        let failed = "The same code failed 1 of 3 times (95 %: at most 79.23 %)";
        assert!(text.contains(failed) && text.contains("was found 1 of 1 times."), "{text}");
        let cells: Vec<String> = cells_of(text).iter().map(|row| row.join(" ")).collect();
        assert_eq!(cells[..2], ["1 2 1 0 1 0 0", "2 1 0 0 0 1 1"]);
    }
}
