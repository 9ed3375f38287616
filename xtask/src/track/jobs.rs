//! The benchmarks, and the limits of each measure: arguments of `wingbeat run`.

use super::{CONTEXT, Conditions, WINGBEAT};
use wingbeat_steps::command::Rights;

/// Instruction-counting benchmarks: package and name.
const COUNTED: [(&str, &str); 5] = [
    ("wingbeat-stats", "stats_exact"),
    ("wingbeat-bpf-loader", "spec_exact"),
    ("wingbeat-track", "track_exact"),
    ("wingbeat-profiler", "profile_exact"),
    ("fun-xdp", "source_addr_instructions"),
];

/// Timed benchmarks, short ones.
const TIMED: [(&str, &str); 2] = [("wingbeat-stats", "bootstrap"), ("wingbeat-track", "detect")];

/// Objects with kernel programs, and their context; a packet by default. All programs are loaded, and run if the kernel
/// can. At least one of each object runs: otherwise `wingbeat bench` fails.
const OBJECTS: [(&str, Option<&str>); 2] = [
    ("target/ebpf/bpfel-unknown-none/release/fun-xdp", None),
    ("crates/profiler/kernel-half/profile-ebpf.x86_64.o", Some(CONTEXT)),
];

/// Limits in user space: compiler updates may cost this share of instructions.
const USER_LIMITS: &[(&str, &str)] = &[("instructions", "0.01")];

/// Limits in the kernel. Executed instructions must not grow at all; verified ones change with every branch, and only
/// their magnitude matters.
const KERNEL_LIMITS: &[(&str, &str)] =
    &[("instructions", "0"), ("verified-instructions", "0.05"), ("xlated-size", "0.05")];

/// Branch of a report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    /// The current branch if none.
    pub(super) branch: Option<&'a str>,
    /// Start point of a candidate.
    pub(super) start_point: Option<&'a str>,
}

/// One call of `wingbeat run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    /// Short name.
    pub(super) name: String,
    testbed: String,
    adapter: &'static str,
    /// Measures that fail the job, each with its allowed growth. Without any, all are judged, but nothing fails.
    limits: &'static [(&'static str, &'static str)],
    command: Vec<String>,
}

impl Job {
    pub(super) fn arguments(&self, side: &Side<'_>) -> Vec<String> {
        let mut words = vec!["run", "--project", "wingbeat"];
        words.extend(side.branch.iter().flat_map(|branch| ["--branch", branch]));
        words.extend(side.start_point.iter().flat_map(|branch| ["--start-point", branch]));
        words.extend(["--testbed", &self.testbed, "--adapter", self.adapter]);
        for (measure, share) in self.limits {
            words.extend(["--threshold-measure", measure, "--threshold-upper-boundary", share]);
        }
        words.extend((!self.limits.is_empty()).then_some("--err"));
        words.extend(self.command.iter().map(String::as_str));
        words.into_iter().map(str::to_owned).collect()
    }
}

/// All jobs; purely timed ones on request.
pub(super) fn all(conditions: &Conditions, rights: Rights, with_times: bool) -> Vec<Job> {
    let Conditions { compiler, kernel, machine } = conditions;
    let counted = Job {
        name: "instructions of user space".to_owned(),
        testbed: format!("{compiler} {machine}"),
        adapter: "rust_gungraun",
        limits: USER_LIMITS,
        command: cargo_bench(&COUNTED),
    };
    let kernel_programs = OBJECTS.map(|(object, context)| Job {
        name: format!("programs of {object}"),
        testbed: format!("{kernel} {machine}"),
        adapter: "wingbeat_bench",
        limits: KERNEL_LIMITS,
        command: bench(object, context, rights),
    });
    let timed = Job {
        name: "times".to_owned(),
        testbed: format!("{machine} times"),
        adapter: "rust_criterion",
        limits: &[],
        command: cargo_bench(&TIMED),
    };
    let timed = with_times.then_some(timed);
    [counted].into_iter().chain(kernel_programs).chain(timed).collect()
}

fn cargo_bench(benches: &[(&str, &str)]) -> Vec<String> {
    let mut words = vec!["cargo", "bench"];
    for (package, name) in benches {
        words.extend(["-p", package, "--bench", name]);
    }
    words.into_iter().map(str::to_owned).collect()
}

fn bench(object: &str, context: Option<&str>, rights: Rights) -> Vec<String> {
    let mut words = match rights {
        Rights::Root | Rights::None => Vec::new(),
        Rights::Sudo => vec!["sudo", "-E"],
    };
    words.extend([WINGBEAT, "bench", object, "--format", "json"]);
    words.extend(context.iter().flat_map(|context| ["--ctx", context]));
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command};

    use super::*;
    use wingbeat_steps::command::repository;

    fn jobs(rights: Rights, with_times: bool) -> Vec<Job> {
        let conditions = Conditions {
            compiler: "rustc 1.95.0".to_owned(),
            kernel: "Linux 6.18.44".to_owned(),
            machine: "x86_64".to_owned(),
        };
        all(&conditions, rights, with_times)
    }

    #[test]
    fn main_and_candidate_differ_in_their_start_point_alone() {
        let check = |branch, start_point, expected: &str| {
            let side = Side { branch, start_point };
            let line = jobs(Rights::Root, false)[1].arguments(&side).join(" ");
            assert_eq!(
                line,
                format!(
                    "run --project wingbeat {expected}--testbed Linux 6.18.44 \
                x86_64 --adapter wingbeat_bench \
                --threshold-measure instructions --threshold-upper-boundary 0 \
                --threshold-measure verified-instructions --threshold-upper-boundary 0.05 \
                --threshold-measure xlated-size --threshold-upper-boundary 0.05 --err \
                target/quick/wingbeat bench target/ebpf/bpfel-unknown-none/release/fun-xdp \
                --format json"
                )
            );
        };
        check(None, None, "");
        check(Some("main"), None, "--branch main ");
        check(Some("candidate"), Some("main"), "--branch candidate --start-point main ");
    }

    #[test]
    fn times_fail_nothing() {
        let side = Side { branch: None, start_point: None };
        let exact = jobs(Rights::Root, false);
        let all = jobs(Rights::Root, true);
        let [exact_again @ .., times] = all.as_slice() else { panic!("no jobs") };
        assert_eq!(exact_again, exact);
        let fails = |job: &Job| job.arguments(&side).iter().any(|word| word == "--err");
        assert!(exact.iter().all(fails));
        assert!(!fails(times));
    }

    #[test]
    fn root_is_asked_for_by_kernel_programs_alone() {
        let check = |index: usize, expected: &str| {
            assert_eq!(jobs(Rights::Sudo, false)[index].command[0], expected);
        };
        check(0, "cargo");
        check(1, "sudo");
        check(2, "sudo");
    }

    /// Unused benchmarks would rot.
    #[test]
    fn every_exact_bench_is_called() {
        let listed = Command::new("git")
            .args(["ls-files", "crates/**/benches/*.rs"])
            .current_dir(repository())
            .output()
            .expect("git's answer");
        let listed = String::from_utf8(listed.stdout).expect("names");
        let mut found: Vec<_> = listed
            .lines()
            .filter_map(|path| Some(Path::new(path).file_stem()?.to_string_lossy().into_owned()))
            .collect();
        found.retain(|name| name.ends_with("_exact"));
        let mut called: Vec<_> = COUNTED.iter().map(|(_, name)| (*name).to_owned()).collect();
        called.retain(|name| name.ends_with("_exact"));
        found.sort();
        called.sort();
        assert_eq!(called, found);
    }

    #[test]
    fn ci_runs_this_command() {
        let path = repository().join(".github/workflows/benchmarks.yml");
        let workflow = fs::read_to_string(path).expect("the workflow");
        assert!(workflow.contains("cargo xtask track --branch main "));
        assert!(workflow.contains("cargo xtask track --candidate "));
    }
}
