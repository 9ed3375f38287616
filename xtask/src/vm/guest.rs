//! Programs inside the guest: its first two, and the script of a run's tests.

use std::path::{Path, PathBuf};

use super::{
    boot::Accelerator,
    suites::{Suites, smoke, too_long},
};
use xtask::command::repository;

/// The second one, on the disk.
pub(super) const RUN: &str = include_str!("run.sh");

/// Its path on the disk.
pub(super) const RUN_PATH: &str = "/wingbeat-vm";

/// Output file of `wingbeat doctor --json`.
pub(super) const DOCTOR: &str = "doctor.json";

/// Prefix of output files with verifier statistics of our programs.
pub(super) const VERIFIED: &str = "verified/";

/// Timing suites, and those of their tests that need several CPUs: under emulation the others run with one. QEMU 7.2
/// alternates between its CPUs, but a CPU that computes without a pause keeps running until the next timer, and when
/// two timers fire at once the same CPU always runs. The other one then stalls, for milliseconds or for seconds.
const OF_TIMES: &[(&str, &str)] = &[
    ("wingbeat/profile", "accuracy::eight_busy_threads accuracy::every_tick"),
    ("wingbeat/off_cpu", "everybody::"),
];

/// Work of a guest.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    Command(String),
    /// Run the test programs with these arguments.
    Suites {
        words: Vec<String>,
    },
    /// Run the tests of the smoke list.
    Smoke,
}

impl Plan {
    /// The script for `run.sh`; records only if nothing ran before.
    pub(super) fn script(
        &self,
        suites: &Suites,
        accelerator: Accelerator,
        is_first: bool,
    ) -> String {
        let mut script = String::from("export CI=true\n");
        if accelerator == Accelerator::Emulation {
            // A CPU stalls at times, see `OF_TIMES`, and a slow one needs wider limits.
            script += "TWICE=yes\nexport WINGBEAT_TEST_EMULATED=yes\n";
        }
        if let Some(program) = suites.plain() {
            script += &format!("export WINGBEAT_TEST_PLAIN='{}'\n", program.display());
        }
        match self {
            Self::Command(command) => {
                if let Some(folder) = suites.wingbeat().and_then(Path::parent) {
                    script += &format!("export PATH='{}':$PATH\n", folder.display());
                }
                let folder = repository();
                let words = ["suite", "command", &folder.to_string_lossy(), "sh", "-c", command];
                script += &line(words);
            }
            Self::Suites { .. } | Self::Smoke => {
                let recorded = if is_first { records(suites) } else { Vec::new() };
                for (name, command) in recorded {
                    let words = command.iter().map(String::as_str);
                    script += &line(["file", &name].into_iter().chain(words));
                }
                for suite in &suites.tests {
                    let words: Vec<&str> = match self {
                        Self::Suites { words } => words.iter().map(String::as_str).collect(),
                        _ => smoke(&suite.name).to_vec(),
                    };
                    let of_times = OF_TIMES.iter().find(|(name, _)| *name == suite.name);
                    let (online, on_all) = match of_times {
                        // The arguments select its tests.
                        Some(_) if !words.is_empty() => ("one", ""),
                        Some((_, on_all)) => ("all", *on_all),
                        None => ("all", ""),
                    };
                    if accelerator == Accelerator::Emulation {
                        script += &format!("cpus {online}\nON_ALL_CPUS='{on_all}'\n");
                    }
                    let folder = suite.folder.to_string_lossy();
                    let program = suite.program.to_string_lossy();
                    let mut all = vec!["suite", &suite.name, &folder, &program];
                    // Shows output of passing tests, too: messages about skipped ones.
                    all.extend(["--test-threads", "1", "--show-output"]);
                    let others = suite.others();
                    all.extend(others.iter().flat_map(|part| ["--skip", part]));
                    if accelerator == Accelerator::Emulation {
                        all.extend(too_long(&suite.name).flat_map(|test| ["--skip", test]));
                    }
                    all.extend(words);
                    script += &line(all);
                }
            }
        }
        script
    }
}

/// Files for [`super::record`] with the commands that print them.
pub(super) fn records(suites: &Suites) -> Vec<(String, Vec<String>)> {
    let path = |paths: &[PathBuf], name: &str| {
        let found = paths.iter().find(|path| path.ends_with(name));
        found.map(|path| path.to_string_lossy().into_owned())
    };
    let mut records = Vec::new();
    let Some(wingbeat) = path(&suites.programs, "wingbeat") else { return records };
    let mut add = |name: &str, words: &[&str]| {
        records.push((name.to_owned(), words.iter().map(|&word| word.to_owned()).collect()));
    };
    add(DOCTOR, &[&wingbeat, "doctor", "--json"]);
    if let Some(watch) = path(&suites.programs, "watch-programs") {
        for mode in ["on-cpu", "wall"] {
            let name = format!("{VERIFIED}profile --mode {mode}");
            let watch = [&*watch, &*wingbeat, "profile", "-q"];
            let wakers: &[&str] = if mode == "wall" { &["--wakers"] } else { &[] };
            let rest = ["--mode", mode, "-o", "/tmp/watched.folded", "--", "sleep", "2"];
            add(&name, &[&watch[..], wakers, &rest].concat());
        }
        // Kernels without uprobe links refuse: their column stays empty.
        let heap = ["heap", "-q", "--exact", "-o", "/tmp/watched.json", "--", "sleep", "2"];
        add(&format!("{VERIFIED}heap"), &[&[&*watch, &*wingbeat], &heap[..]].concat());
    }
    for name in ["fun-xdp", "fun-xdp-log", "profiler-ebpf"] {
        if let Some(object) = path(&suites.objects, name) {
            let bench = [&*wingbeat, "bench", "--format", "csv", "--samples", "1"];
            let rest = ["--time", "60s", &*object];
            add(&format!("{VERIFIED}{name}"), &[&bench[..], &rest].concat());
        }
    }
    records
}

/// A shell command, each argument quoted.
fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = words.into_iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::suites::Suite;

    #[test]
    fn the_script_names_what_is_to_run() {
        #[track_caller]
        fn check(suite: &str, words: &[&str], accelerator: Accelerator, expected: &[&str]) {
            let suite = Suite {
                name: suite.to_owned(),
                folder: "/r/crates".into(),
                program: "/r/target/test".into(),
                part: "",
            };
            let suites = Suites { tests: vec![suite], ..Suites::default() };
            let words = words.iter().map(|&word| word.to_owned()).collect();
            let script = Plan::Suites { words }.script(&suites, accelerator, true);
            assert_eq!(script.lines().collect::<Vec<_>>(), expected);
        }
        let run = r"'suite' 'b/it' '/r/crates' '/r/target/test' '--test-threads' '1' '--show-output' 'it'\''s'";
        check("b/it", &["it's"], Accelerator::Kvm, &["export CI=true", run]);
        let emulated = ["export CI=true", "TWICE=yes", "export WINGBEAT_TEST_EMULATED=yes"];
        let expect = |lines: &[&'static str]| [&emulated[..], lines].concat();
        let lines = expect(&["cpus all", "ON_ALL_CPUS=''", run]);
        check("b/it", &["it's"], Accelerator::Emulation, &lines);
        let start = "'suite' 'wingbeat/off_cpu' '/r/crates' '/r/target/test' '--test-threads' '1' '--show-output'";
        let skips = too_long("wingbeat/off_cpu").map(|test| format!(" '--skip' '{test}'"));
        let start = &*[start.to_owned()].into_iter().chain(skips).collect::<String>().leak();
        let lines = expect(&["cpus all", "ON_ALL_CPUS='everybody::'", start]);
        check("wingbeat/off_cpu", &[], Accelerator::Emulation, &lines);
        let run = &*format!("{start} 'x'").leak();
        let lines = expect(&["cpus one", "ON_ALL_CPUS=''", run]);
        check("wingbeat/off_cpu", &["x"], Accelerator::Emulation, &lines);
    }

    #[test]
    fn a_command_finds_wingbeat() {
        let programs = vec!["/r/target/debug/wingbeat".into(), "/r/target/debug/work".into()];
        let suites = Suites { programs, ..Suites::default() };
        let plan = Plan::Command("wingbeat doctor".to_owned());
        let script = plan.script(&suites, Accelerator::Kvm, true);
        let lines: Vec<_> = script.lines().collect();
        assert!(lines.contains(&"export PATH='/r/target/debug':$PATH"), "{script}");
        let last = lines.last().copied().unwrap_or_default();
        assert!(last.starts_with("'suite' 'command' '"), "{script}");
        assert!(last.ends_with("' 'sh' '-c' 'wingbeat doctor'"), "{script}");
    }

    #[test]
    fn what_is_missing_is_not_recorded() {
        let check = |programs: &[&str], expected: &[&str]| {
            let programs = programs.iter().map(PathBuf::from).collect();
            let records = records(&Suites { programs, ..Suites::default() });
            let names: Vec<_> = records.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, expected);
        };
        check(&[], &[]);
        check(&["/t/debug/wingbeat"], &["doctor.json"]);
        let modes = ["profile --mode on-cpu", "profile --mode wall", "heap"];
        let modes = modes.map(|mode| format!("verified/{mode}"));
        let names: Vec<_> =
            ["doctor.json"].into_iter().chain(modes.iter().map(String::as_str)).collect();
        check(&["/t/watch-programs", "/t/wingbeat"], &names);
    }
}
