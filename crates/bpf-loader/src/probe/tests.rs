//! Text formats, and the probes on the running kernel.

use std::{collections::HashSet, time::Instant};

use super::*;
use crate::sys::{self, ProgramKind};

#[test]
fn reads_releases() {
    fn check(text: &str, expected: Option<(u32, u32)>) {
        assert_eq!(release(text), expected, "{text:?}");
    }
    check("6.18.44-fc-v595", Some((6, 18)));
    check("6.1.0-44-cloud-amd64", Some((6, 1)));
    check("5.15-rc1", Some((5, 15)));
    check("7.0", Some((7, 0)));
    check("6", None);
    check("", None);
    check("next-20261121", None);
}

#[test]
fn reads_lockdown() {
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(chosen(text), expected, "{text:?}");
    }
    check("none [integrity] confidentiality", Some("integrity"));
    check("[none] integrity confidentiality\n", Some("none"));
    check("none integrity [confidentiality]", Some("confidentiality"));
    check("none integrity", None);
    check("", None);
}

#[test]
fn reads_mounts() {
    let mounts = "proc /proc proc rw 0 0\nnone /sys/kernel/tracing tracefs rw 0 0\n";
    assert!(is_mounted(mounts, "tracefs"));
    assert!(!is_mounted(mounts, "securityfs"));
    assert!(!is_mounted("tracefs\n", "tracefs"));
}

#[test]
fn heap_needs_links_of_uprobes() {
    let findings = findings();
    let found = |id: &str| findings.iter().find(|finding| finding.id == id).expect("a finding");
    let link = found("uprobe_multi");
    assert_eq!(link.blocks(Verb::Heap), link.status == FindingStatus::Missing, "{link:?}");
    assert!(!link.blocks(Verb::Profile));
}

#[test]
fn sees_whether_symbols_have_addresses() {
    fn check(symbols: &str, expected: bool) {
        assert_eq!(has_addresses(symbols), expected, "{symbols:?}");
    }
    check("ffffffff81000000 T _text\n", true);
    check("0000000000000000 A fixed_percpu_data\n0000000000001000 A cpu_debug_store\n", true);
    check("0000000000000000 T _text\n0000000000000000 T _stext\n", false);
    // The head of the file may end within a line.
    check("0000000000000000 T _text\n00000000", false);
    check("", false);
}

#[test]
fn a_verb_is_blocked_only_by_what_it_needs() {
    fn check(status: FindingStatus, verb: Verb, expected: bool) {
        const SUBJECT: Subject = Subject::new("x", "x", &[Verb::Profile], &[Verb::Bench]);
        let finding = SUBJECT.finding(status, String::new(), None);
        assert_eq!(can(verb, &[finding]), expected, "{status:?} {verb:?}");
    }
    check(FindingStatus::Works, Verb::Profile, true);
    check(FindingStatus::Limited, Verb::Profile, true);
    check(FindingStatus::Missing, Verb::Profile, false);
    check(FindingStatus::Missing, Verb::Bench, true);
}

#[test]
fn a_refusal_is_blamed_on_rights_only_when_they_are_missing() {
    fn check(host: &Host, errno: i32, expected: &str) {
        const SUBJECT: Subject = Subject::new("x", "x", &[], &[]);
        let refusal = Refusal { step: "loading", error: io::Error::from_raw_os_error(errno) };
        let otherwise = advice("otherwise");
        let finding = SUBJECT.refused(host, &[Capability::Bpf], refusal, otherwise.clone());
        assert_eq!(finding.status, FindingStatus::Missing);
        assert!(finding.detail.ends_with(expected), "{}", finding.detail);
        assert_eq!(finding.next_step == Some(otherwise), !expected.starts_with("needs"));
    }
    let host = |mask| Host { rights: Ok(Rights::with(mask)), types: KernelTypes::parse(&[]) };
    check(&host("0"), libc::EPERM, "needs CAP_BPF");
    check(&host("0"), libc::EINVAL, "loading failed: Invalid argument (os error 22)");
    check(&host("8000000000"), libc::EPERM, ", although this process has the rights");
    let unknown =
        Host { rights: Err(io::ErrorKind::NotFound.into()), types: KernelTypes::parse(&[]) };
    check(&unknown, libc::EPERM, "loading failed: Operation not permitted (os error 1)");
}

#[test]
fn only_sudo_gives_the_right_to_everything() {
    fn check(mask: &str, capability: Capability, expected: &str) {
        let host = Host { rights: Ok(Rights::with(mask)), types: KernelTypes::parse(&[]) };
        let lacks = host.lacks(&[capability]);
        let next_step = (!lacks.is_empty()).then(|| host.rights_for(&lacks));
        let text = match &next_step {
            None => "",
            Some(NextStep::Command(text) | NextStep::Advice(text)) => text,
        };
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(text.is_empty(), expected.is_empty(), "{text}");
    }
    // CAP_BPF and CAP_PERFMON.
    check("000000c000000000", Capability::SysAdmin, "run it with `sudo`");
    check("0000000000000000", Capability::Bpf, "sudo setcap ");
    // CAP_SYS_ADMIN.
    check("0000000000200000", Capability::SysAdmin, "");
    check("0000000000200000", Capability::Bpf, "");
}

#[test]
fn top_needs_the_right_to_look_at_the_programs_of_others() {
    let findings = findings();
    let allowed = Rights::current().unwrap().allow(Capability::SysAdmin);
    for id in ["program_ids", "run_statistics"] {
        let found = findings.iter().find(|finding| finding.id == id).expect("a finding");
        assert_eq!(found.blocks(Verb::Top), !allowed, "{found:?}");
        assert_eq!(found.blocks(Verb::Live), !allowed, "{found:?}");
        assert!(!found.blocks(Verb::Bench), "{found:?}");
    }
}

#[test]
fn every_finding_is_complete() {
    let findings = findings();
    let ids: HashSet<_> = findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids.len(), findings.len(), "an id occurs twice");
    for finding in &findings {
        assert!(!finding.detail.is_empty(), "{finding:?}");
        assert!(finding.concerns().count() > 0, "{finding:?}");
        assert_eq!(
            finding.next_step.is_none(),
            finding.status == FindingStatus::Works,
            "{finding:?}"
        );
    }
}

/// The table and the probe must agree about each feature. Without privileges the probes know nothing of the kernel.
#[test]
fn the_kernel_has_what_the_table_says() {
    let (kernel, findings) = (Kernel::running(), findings());
    let rights = Rights::current().unwrap();
    let has_rights = rights.check_for_profile().is_ok() && rights.allow(Capability::SysAdmin);
    let for_all = ["btf", "uprobes", "kprobes", "jit"];
    for finding in findings.iter().filter(|finding| has_rights || for_all.contains(&finding.id)) {
        let expected = kernel.expects(finding.id);
        assert!(kernel.agrees(finding), "{expected:?} is expected here: {finding:?}");
    }
    assert!(!has_rights || can(Verb::Profile, &findings));
}

#[test]
fn fentry_agrees_with_an_attempt() {
    let host = Host { rights: Rights::current(), types: KernelTypes::from_kernel() };
    let types = host.types.as_ref().unwrap();
    let program = sys::load_program(ProgramKind::Fentry(types.function_id("schedule").unwrap()));
    let finding = programs::fentry(&host);
    match program {
        // It may still be rejected on attach, and then the finding says so.
        Ok(_) => assert!(!finding.detail.contains("loading failed"), "{finding:?}"),
        Err(_) => assert_eq!(finding.status, FindingStatus::Missing, "{finding:?}"),
    }
}

#[test]
fn the_kernel_gets_the_structures_that_it_wants() {
    // An unknown kind of program must be rejected for its kind, not for its layout.
    let error = sys::load_program(ProgramKind::BtfTracepoint(u32::MAX)).unwrap_err();
    let expected = [libc::EINVAL, libc::ENOENT, libc::EPERM];
    assert!(error.raw_os_error().is_some_and(|errno| expected.contains(&errno)), "{error}");
}

#[test]
fn is_quick() {
    let start = Instant::now();
    findings();
    // Half a second in a release build; the limit is for a debug build on a busy machine.
    assert!(start.elapsed().as_secs() < 5);
}
