//! Generated C programs with maps and helpers, built by a compiler: counters and interpreter must
//! give the same counts, and all variants return the same value and leave the same packet.
//!
//! Skipped without clang; with `CI=true` that is a failure, as are missing privileges.

use std::{
    env, fs,
    process::{Command, Stdio},
};

use proptest::{prelude::*, test_runner::TestCaseError};
use wingbeat_bpf_bench::measure::confirm;
use wingbeat_bpf_loader::spec::Spec;

use crate::{
    generate,
    support::{can_load, check_property, is_at_least, plan},
};

const PRELUDE: &str = include_str!("prelude.c");

fn is_possible() -> Option<()> {
    // `bpf_csum_diff` folds its result since then.
    if !is_at_least(6, 13) || !cfg!(target_arch = "x86_64") {
        eprintln!(
            "skipped: the interpreter has helpers as Linux 6.13 on x86-64 and newer has them"
        );
        return None;
    }
    has_clang().and_then(|()| can_load())
}

/// Whether C programs can be compiled here; prints a message if not.
pub(crate) fn has_clang() -> Option<()> {
    let clang = Command::new("clang").arg("--version").stdout(Stdio::null()).status();
    if clang.is_err() {
        assert!(env::var_os("CI").is_none(), "CI must have clang");
        eprintln!("skipped: there is no clang; install the package clang");
    }
    clang.ok().map(drop)
}

pub(crate) fn compile(source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let [from, to] = ["program.c", "program.o"].map(|name| folder.path().join(name));
    fs::write(&from, source).expect("written");
    let status = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wno-everything", "-c"])
        .args(flags)
        .arg(&from)
        .arg("-o")
        .arg(&to)
        .status();
    assert!(status.expect("clang").success(), "clang failed on\n{source}");
    fs::read(to).expect("an object")
}

fn check(source: &str, flags: &[&str], packets: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let source = format!("{PRELUDE}\n{source}");
    let spec = Spec::parse("program.o", &compile(&source, flags)).expect("an object");
    let found = confirm(&spec, "program", &plan(packets)).expect("it can be counted");
    for found in found {
        match found {
            // Some programs are too complex for the verifier.
            Err(error) if error.to_string().contains("rejects") => {
                return Err(TestCaseError::reject("the verifier rejects it"));
            }
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{source}"))),
            Ok(found) => prop_assert!(found.agrees(), "{:#?}\n{}", found, source),
        }
    }
    Ok(())
}

#[test]
fn xdp_programs_with_maps_and_helpers() {
    check_all(&[], 30);
}

#[test]
fn tc_programs_with_maps_and_helpers() {
    check_all(&["-DTC"], 30);
}

#[test]
fn programs_with_a_map_of_maps() {
    check_all(&["-DOUTER"], 5);
}

fn check_all(flags: &[&str], cases: u32) {
    let Some(()) = is_possible() else { return };
    let config = ProptestConfig {
        cases,
        // Each step compiles and loads.
        max_shrink_iters: 60,
        ..ProptestConfig::default()
    };
    let packet = prop::collection::vec(any::<u8>(), 14..100);
    let packets = prop::collection::vec(packet, 3);
    check_property(config, &(generate::source(), packets), |(source, packets)| {
        check(&source, flags, &packets)
    });
}
