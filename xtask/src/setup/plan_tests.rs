//! Decisions of setup for various machines.

use std::{collections::BTreeMap, path::PathBuf, slice};

use super::plan::*;

const WEB: RustPackages =
    RustPackages { names: ["rustc-web", "cargo-web", "rust-web-src"], llvm: 22 };

fn compiler(path: &str, llvm: u32) -> Compiler {
    Compiler {
        cargo: format!("{path}/cargo").into(),
        rustc: format!("{path}/rustc").into(),
        release: "1.96.0".into(),
        llvm,
    }
}

fn apt(rusts: &[RustPackages], llvm: &[u32]) -> Option<Apt> {
    Some(Apt { rusts: rusts.to_vec(), llvm: llvm.iter().copied().collect() })
}

fn install(packages: &str) -> Step {
    Step::AptInstall(packages.split(' ').map(String::from).collect())
}

fn link(llvm: u32) -> Step {
    Step::BuildLinker { llvm, prefix: format!("/llvm{llvm}").into() }
}

fn prefixes(majors: &[u32]) -> BTreeMap<u32, PathBuf> {
    majors.iter().map(|major| (*major, format!("/llvm{major}").into())).collect()
}

/// A Debian machine with gcc and rustup, its package lists fetched, and root.
fn debian() -> Machine {
    Machine {
        cxx: true,
        apt: apt(&[WEB], &[14, 22]),
        rustup: true,
        root: true,
        ..Machine::default()
    }
}

fn history(lists_fetched: bool, failed: &[Step]) -> History {
    History { lists_fetched, failed: failed.iter().cloned().collect(), ..History::default() }
}

#[track_caller]
fn check(machine: Machine, history: History, expected: Next) {
    assert_eq!(next(&machine, &history), expected);
}

#[track_caller]
fn check_first(machine: Machine, expected: Step) {
    check(machine, History::default(), Next::Do(expected));
}

#[track_caller]
fn stuck(machine: Machine, history: History) -> Vec<String> {
    match next(&machine, &history) {
        Next::Stuck(obstacles) => obstacles,
        other => panic!("expected to be stuck, got {other:?}"),
    }
}

#[test]
fn nothing_to_do_when_compiler_and_linker_fit() {
    let compilers = vec![compiler("/a", 21), compiler("/b", 22)];
    let linkers = [22].into();
    let machine = Machine { compilers: compilers.clone(), linkers, ..Machine::default() };
    check(machine, History::default(), Next::Ready(compilers[1].clone()));
}

#[test]
fn a_complete_compiler_only_gets_what_it_lacks() {
    let complete = || Machine { compilers: vec![compiler("/n", 22)], ..debian() };
    check_first(Machine { llvm: prefixes(&[22]), ..complete() }, link(22));
    check_first(Machine { llvm: prefixes(&[22]), cxx: false, ..complete() }, install("g++"));
    check_first(Machine { llvm: prefixes(&[14]), ..complete() }, install("llvm-22-dev"));
    // Built for another LLVM, so useless.
    check_first(Machine { llvm: prefixes(&[22]), linkers: [23].into(), ..complete() }, link(22));
    // An unavailable LLVM: falls back to the distribution's Rust.
    let foreign = Machine { compilers: vec![compiler("/n", 23)], ..debian() };
    let lists = history(true, &[]);
    let packages = install("rustc-web cargo-web rust-web-src llvm-22-dev");
    check(foreign, lists, Next::Do(packages));
}

#[test]
fn packages_come_before_rustup_for_root() {
    check_first(debian(), install("rustc-web cargo-web rust-web-src llvm-22-dev"));
    let packages = "rustc-web cargo-web rust-web-src llvm-22-dev g++";
    check_first(Machine { cxx: false, ..debian() }, install(packages));
    let linked = Machine { linkers: [22].into(), ..debian() };
    check_first(linked, install("rustc-web cargo-web rust-web-src"));
}

#[test]
fn what_needs_no_root_comes_first_for_others() {
    let user = || Machine { root: false, sudo: true, llvm: prefixes(&[23]), ..debian() };
    check_first(user(), Step::RustupInstall("nightly-2026-10-01"));
    // Without any LLVM rustup needs root too.
    let packages = install("rustc-web cargo-web rust-web-src llvm-22-dev");
    check_first(Machine { llvm: prefixes(&[]), ..user() }, packages);
}

#[test]
fn lists_are_fetched_only_when_something_is_missing_from_them() {
    check_first(Machine { apt: apt(&[], &[]), ..debian() }, Step::AptUpdate);
    // A nightly is possible without them.
    let llvm = prefixes(&[22]);
    let nightly = Step::RustupInstall("nightly-2026-05-19");
    check_first(Machine { apt: apt(&[], &[]), llvm, ..debian() }, nightly);
}

#[test]
fn stale_lists_are_fetched_before_packages_are_given_up() {
    let packages = install("rustc-web cargo-web rust-web-src llvm-22-dev");
    let mut past = History::default();
    past.note(packages.clone(), false);
    check(debian(), past.clone(), Next::Do(Step::AptUpdate));
    past.note(Step::AptUpdate, true);
    check(debian(), past.clone(), Next::Do(packages.clone()));
    // Retries only once.
    past.note(packages, false);
    check(debian(), past, Next::Do(install("llvm-22-dev")));
}

#[test]
fn a_step_that_brings_nothing_is_not_repeated() {
    let mut past = history(true, &[]);
    past.note(install("rustc-web cargo-web rust-web-src llvm-22-dev"), true);
    past.note(install("llvm-22-dev"), true);
    let reasons = stuck(debian(), past);
    assert!(reasons[0].contains("is not found where it should be"), "{reasons:?}");
}

#[test]
fn a_failed_download_leads_to_the_next_way() {
    let machine = || Machine { llvm: prefixes(&[22]), ..debian() };
    let packages = install("rustc-web cargo-web rust-web-src");
    let nightly = Step::RustupInstall("nightly-2026-05-19");
    check(machine(), history(true, slice::from_ref(&packages)), Next::Do(nightly.clone()));
    let reasons = stuck(machine(), history(true, &[packages, nightly]));
    assert_eq!(reasons[0], "the distribution's Rust: a step of it failed, see above");
    assert_eq!(reasons[1], "rustup with nightly-2026-05-19: a step of it failed, see above");
    assert_eq!(reasons[2], "rustup with nightly-2026-10-01: apt has no llvm-23-dev");
}

#[test]
fn lists_that_cannot_be_fetched_end_the_search() {
    let machine = || Machine { apt: apt(&[], &[]), ..debian() };
    let mut past = History::default();
    past.note(Step::AptUpdate, false);
    let reasons = stuck(machine(), past);
    assert!(reasons[0].contains("no Rust that is new enough"), "{reasons:?}");
}

#[test]
fn without_rights_the_command_is_named() {
    let reasons = stuck(Machine { root: false, ..debian() }, History::default());
    let command = "`apt-get install rustc-web cargo-web rust-web-src llvm-22-dev`";
    assert!(reasons[0].contains(command), "{reasons:?}");
}

#[test]
fn without_a_package_manager_the_missing_parts_are_named() {
    let machine = || Machine { apt: None, ..debian() };
    let reasons = stuck(machine(), History::default());
    assert!(reasons[0].contains("no apt-get"), "{reasons:?}");
    assert!(reasons[1].contains("(llvm-22-dev)"), "{reasons:?}");
    let reasons = stuck(Machine { rustup: false, ..machine() }, History::default());
    assert!(reasons[1].ends_with("there is no rustup"), "{reasons:?}");
    // With an LLVM from elsewhere, rustup is enough.
    let llvm = prefixes(&[23]);
    check_first(Machine { llvm, ..machine() }, Step::RustupInstall("nightly-2026-10-01"));
}

#[test]
fn an_llvm_that_the_linker_does_not_know_is_refused() {
    let compilers = vec![compiler("/old", 19)];
    let reasons = stuck(Machine { compilers, ..Machine::default() }, History::default());
    assert!(reasons[0].contains("does not know its LLVM 19"), "{reasons:?}");
}

/// The loop terminates for any outcomes: the machine here never changes.
#[test]
fn the_search_ends_whatever_fails() {
    for outcomes in 0_u32..1 << 8 {
        let mut past = History::default();
        let stuck = (0..16).any(|round| match next(&debian(), &past) {
            Next::Do(step) => {
                past.note(step, outcomes >> (round % 8) & 1 == 1);
                false
            }
            Next::Stuck(_) => true,
            Next::Ready(compiler) => panic!("ready from nothing: {compiler:?}"),
        });
        assert!(stuck, "outcomes {outcomes:08b}: still searching after 16 rounds: {past:?}");
    }
}
