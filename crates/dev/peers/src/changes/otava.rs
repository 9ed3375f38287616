//! Apache Otava on the same series, through its Python interface.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::Context as _;
use serde::Deserialize;

use wingbeat_steps::command::run_logged;

use super::Reported;
use crate::tools;

/// The version that the tables are made with.
const PACKAGE: &str = "apache-otava==0.8.0";

/// Settings that are tried: how they are called, the p-value, the window, the least magnitude.
///
/// The first are Otava's own; the last gave the best F1 on project-like series of other seeds.
const VARIANTS: [(&str, f64, usize, f64); 3] = [
    ("otava, its defaults", 0.001, 50, 0.0),
    ("otava, 5 % at least", 0.001, 50, 0.05),
    ("otava, p 0.00001, 0.5 % at least", 0.00001, 50, 0.005),
];

/// Searches a file of series. Gaps are filled with the value before, as Otava's importers do.
const SCRIPT: &str = r#"
import importlib.metadata, json, os, sys
from concurrent.futures import ProcessPoolExecutor
from otava.analysis import compute_change_points

def search(task):
    values, p, window, magnitude = task
    last = next((v for v in values if v is not None), 0.0)
    filled = []
    for value in values:
        last = last if value is None else value
        filled.append(last)
    points, _ = compute_change_points(
        filled, window_len=window, max_pvalue=p, min_magnitude=magnitude)
    return [int(point.index) for point in points]

if __name__ == "__main__":
    series = json.load(open(sys.argv[1]))
    series = [series[str(at)] for at in range(len(series))]
    found = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, p, window, magnitude in json.loads(sys.argv[3]):
            tasks = [(values, p, window, magnitude) for values in series]
            found[name] = list(pool.map(search, tasks, chunksize=50))
    version = importlib.metadata.version("apache-otava")
    json.dump({"version": version, "found": found}, open(sys.argv[2], "w"))
"#;

/// The version, and the changes by variant.
pub(super) type Found = (String, Vec<(String, Reported)>);

#[derive(Deserialize)]
struct Answer {
    version: String,
    found: BTreeMap<String, Reported>,
}

/// Installs Otava below `folder` unless it is there, and has it search the series; or why it cannot.
pub(super) fn find(
    folder: &Path,
    series: &Path,
    count: usize,
) -> anyhow::Result<Result<Found, String>> {
    let log = folder.join("otava.log");
    if let Err(why) = install(folder, &log) {
        return Ok(Err(why));
    }
    let (script, answer) = (folder.join("otava_changes.py"), folder.join("otava.json"));
    fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    let variants =
        serde_json::to_string(&VARIANTS).context("cannot turn the settings into JSON")?;
    eprintln!("otava searches {count} series, {} times; some minutes", VARIANTS.len());
    let mut command = Command::new(folder.join("venv/bin/python"));
    run_logged(command.arg(&script).arg(series).arg(&answer).arg(variants), &log)?;
    let text = fs::read(&answer).with_context(|| format!("cannot read {}", answer.display()))?;
    let Answer { version, mut found } = serde_json::from_slice(&text)
        .with_context(|| format!("{} holds something else", answer.display()))?;
    let variants = VARIANTS.into_iter().map(|(name, ..)| {
        let reported = found.remove(name).filter(|reported| reported.len() == count);
        Ok((name.to_owned(), reported.with_context(|| format!("no answer of {name}"))?))
    });
    Ok(Ok((version, variants.collect::<anyhow::Result<_>>()?)))
}

/// An environment with Otava, or how to make it possible.
fn install(folder: &Path, log: &Path) -> Result<(), String> {
    let python = tools::find("python3").map_err(|error| error.to_string())?;
    let venv = folder.join("venv");
    let installed = venv.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|found| found == PACKAGE) {
        return Ok(());
    }
    eprintln!("installing {PACKAGE} into {}", venv.display());
    run_logged(Command::new(python).args(["-m", "venv", "--clear"]).arg(&venv), log)
        .map_err(|failure| format!("{failure}\nTry `apt-get install python3-venv`."))?;
    let mut pip = Command::new(venv.join("bin/python"));
    run_logged(pip.args(["-m", "pip", "install", "--disable-pip-version-check", PACKAGE]), log)
        .map_err(|failure| failure.to_string())?;
    fs::write(&installed, PACKAGE)
        .map_err(|error| format!("cannot write {}: {error}", installed.display()))
}
