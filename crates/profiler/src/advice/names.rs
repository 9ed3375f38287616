//! Warnings about code without names: of JIT compilers, and of interpreted programs.

use std::collections::BTreeMap;

use wingbeat_text::share;

use super::{
    ProfileWarning, more,
    next_step::{how_to_name, how_to_see},
};
use crate::{
    summary::jit::{Interpreted, Jit, Nameless, Runtime},
    symbolize::Refused,
};

/// Above this share of a process's samples, unnamed code hides what it does.
const NAMELESS_SHARE_MAX: f64 = 0.2;

/// Above this share of a process's samples, the interpreter hides what it does.
const INTERPRETED_SHARE_MAX: f64 = 0.5;

/// Minimum number of samples for a share to mean anything.
const NAMELESS_SAMPLES_MIN: u64 = 10;

/// Warns of rejected symbol files and of processes without one, or in an interpreter: one warning per runtime. Also
/// returns whether a warning covers the stacks that break in such code.
pub(super) fn of_names(jit: &Jit, is_unframed: bool) -> (Vec<ProfileWarning>, bool) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        advice::tests::{check_ends, texts},
        summary::Summary,
    };

    #[test]
    fn files_with_names_that_were_not_believed() {
        let file = |pid| Refused {
            pid,
            path: format!("/tmp/perf-{pid}.map"),
            reason: "it is a symbolic link".to_owned(),
        };
        let check = |pids: &[u32], expected: &[&str]| {
            let change = |summary: &mut Summary| {
                summary.jit.refused = pids.iter().copied().map(file).collect();
            };
            assert_eq!(texts(&change), expected);
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
    fn processes_whose_code_has_no_names() {
        let process = |pid, runtime, samples, nameless| Nameless {
            pid,
            process: "MainThread".to_owned(),
            runtime,
            samples,
            nameless,
        };
        let check = |processes: &[Nameless], refused: &[u32], expected: &[(&str, &str)]| {
            let file = |&pid| Refused { pid, path: String::new(), reason: String::new() };
            let mut texts = texts(&|summary| {
                summary.jit.nameless = processes.to_vec();
                summary.jit.refused = refused.iter().map(file).collect();
            });
            texts.retain(|text| text.contains("without names"));
            check_ends(texts, expected);
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
    fn advice_fits_what_was_interpreted() {
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
            check_ends(interpreted(runtime, version, 60), &[(begins, end)]);
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
        check_ends(interpreted(Runtime::Perl, None, 40), &[]);
    }
}
