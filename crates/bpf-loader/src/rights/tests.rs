//! Masks in the format of `/proc/self/status`, and their consequences.

use super::*;

fn rights(mask: &str, is_initial_user_namespace: bool) -> Rights {
    Rights { is_initial_user_namespace, ..Rights::with(mask) }
}

#[test]
fn reads_the_effective_set() {
    fn check(status: &str, expected: Option<&[Capability]>) {
        let all = [Capability::SysAdmin, Capability::Syslog, Capability::Perfmon, Capability::Bpf];
        let found = CapabilitySet::from_status(status).map(|set| {
            all.into_iter().filter(|&capability| set.has(capability)).collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), expected, "{status:?}");
    }
    check("CapPrm:\tffff\nCapEff:\t0000000000000000\n", Some(&[]));
    check("CapEff:\t000000c000000000\n", Some(&[Capability::Perfmon, Capability::Bpf]));
    check("CapEff:\t0000000400200000\n", Some(&[Capability::SysAdmin, Capability::Syslog]));
    check("CapEff:\tlots\n", None);
    check("CapPrm:\tffff\n", None);
    check("", None);
}

#[test]
fn tells_what_profiling_lacks() {
    fn check(rights: Rights, missing: &[Capability], extras: &[Capability]) {
        assert_eq!(rights.missing_for_profile(), missing);
        assert_eq!(rights.missing_extras_for_profile(), extras);
    }
    use Capability::{Bpf, CheckpointRestore, DacReadSearch, Perfmon, SysPtrace, Syslog};
    let extras = [SysPtrace, CheckpointRestore, DacReadSearch, Syslog];
    check(rights("000001ffffffffff", true), &[], &[]);
    check(rights("0", true), &[Bpf, Perfmon], &extras);
    check(rights("8000000000", true), &[Perfmon], &extras);
    check(rights("c000000000", true), &[], &extras);
    // CAP_SYS_ADMIN alone.
    check(rights("200000", true), &[], &[SysPtrace, DacReadSearch, Syslog]);
    check(rights("000001ffffffffff", false), &[Bpf, Perfmon], &extras);
}

#[test]
fn whose_numbers_proc_shows() {
    fn check(status: &str, expected: bool) {
        assert_eq!(is_proc_own(status), expected, "{status:?}");
    }
    check("Name:\ta\nNSpid:\t4711\nNSpgid:\t1\t2\n", true);
    check("Name:\ta\nNSpid:\t4711\t2\n", false);
    check("Name:\ta\n", true);
    let rights = Rights { is_proc_own: false, ..Rights::with("c000000000") };
    assert_eq!(rights.check_for_profile(), Err(MissingRights::ForeignProc));
}

#[test]
fn tells_how_to_run() {
    fn check(rights: Rights, expected: &[&str]) {
        let error = rights.check_for_profile().unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{error}");
        }
    }
    check(
        rights("0", true),
        &["CAP_BPF and CAP_PERFMON are missing", "`sudo`", "sudo setcap cap_bpf,cap_perfmon,"],
    );
    check(rights("8000000000", true), &["CAP_PERFMON is missing; run it with"]);
    check(rights("000001ffffffffff", false), &["rootless container"]);
    assert_eq!(rights("c000000000", true).check_for_profile(), Ok(()));
}

#[test]
fn reads_this_process() {
    let rights = Rights::current().unwrap();
    assert_eq!(rights.missing_for_profile().is_empty(), rights.check_for_profile().is_ok());
}
