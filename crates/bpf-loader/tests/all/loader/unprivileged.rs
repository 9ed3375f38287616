//! Without privileges, or with some of them: errors say what to do next, and nothing panics.

use std::{env, io::ErrorKind, process::Command, thread};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use wingbeat_bpf_loader::{
    ProgramType, attachments,
    empty_baseline::Baseline,
    loader::{LoadError, LoadedMap, Loader},
    program::{self, StatisticsOn},
};
use wingbeat_bpf_testing::object::typed::TypedObject;

use super::support::{can_load, give, is_refusal, load as load_program, program as program_spec};

/// Set in the process that drops its privileges.
const MARK: &str = "WINGBEAT_TEST_WITHOUT_RIGHTS";

/// Error of loading a program.
const PROGRAM_HINT: &str = "cannot load by_hand: the kernel refuses (Operation not permitted (os \
                            error 1)) before verifying it; this needs CAP_BPF, CAP_PERFMON for \
                            tracing and CAP_NET_ADMIN for the network: run it with sudo. See \
                            `wingbeat doctor`";
/// Error of creating a map.
const MAP_HINT: &str = "cannot create map results (array): Operation not permitted (os error 1); it needs CAP_BPF, and \
                        CAP_NET_ADMIN for maps of the network: run it with sudo";

#[test]
fn a_process_of_nobody() {
    const NOBODY: u32 = 65534;
    if env::var_os(MARK).is_some() {
        // SAFETY: these calls have no conditions.
        let results = unsafe {
            [libc::setgroups(0, std::ptr::null()), libc::setgid(NOBODY), libc::setuid(NOBODY)]
        };
        assert_eq!(results, [0; 3]);
        return without_rights();
    }
    let Some(()) = can_load() else { return };
    // Privileges belong to the whole process here, so this needs another one.
    let output = Command::new(env::current_exe().expect("this program"))
        .args(["loader::unprivileged::a_process_of_nobody", "--exact", "--nocapture"])
        .env(MARK, "1")
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

/// All privileged operations, in a process without privileges.
fn without_rights() {
    for r#type in [ProgramType::XDP, ProgramType::SYSCALL, ProgramType::RAW_TRACEPOINT] {
        let error = load_program(&program_spec(r#type), &give(0), &[]).expect_err("no rights");
        assert!(matches!(error, LoadError::Refused { .. }), "{type}: {error:?}");
        assert_eq!(error.to_string(), PROGRAM_HINT, "{type}");
    }
    let error = LoadedMap::results(8).expect_err("no rights");
    assert_eq!(error.to_string(), MAP_HINT);

    // An object with types: their rejection is reported with the program.
    let mut file = TypedObject::new();
    file.program("xdp", "by_hand", &give(0));
    let spec = file.spec();
    let loader = Loader::new(&spec).expect("a loader");
    assert!(!loader.has_types());
    let linked = spec.link_program("by_hand", None).expect("linking takes no rights");
    let error = loader.load(&linked.program, &linked.code, &[]).expect_err("no rights");
    assert_eq!(error.to_string(), PROGRAM_HINT);

    let check = |what: &str, error: std::io::Error| {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
        assert!(is_refusal(&error), "{what}: {error}");
    };
    check("statistics", StatisticsOn::new().expect_err("no rights"));
    check("a baseline", Baseline::load().map(drop).expect_err("no rights"));
    check("programs", program::ids().expect_err("no rights"));
    check("a program", program::open(1).expect_err("no rights"));
    check("links", attachments::links().expect_err("no rights"));
}

/// Restricts this thread to these capabilities, and tries to load programs of some types.
fn with_only(held: CapabilitySet) -> Vec<(ProgramType, Result<(), LoadError>)> {
    let types = [ProgramType::SOCKET_FILTER, ProgramType::XDP, ProgramType::RAW_TRACEPOINT];
    let tries = move || {
        let sets = CapabilitySets {
            effective: held,
            permitted: held,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets).expect("fewer capabilities");
        let load = |r#type| {
            // The return value of a socket filter is unrestricted.
            (r#type, load_program(&program_spec(r#type), &give(0), &[]).map(drop))
        };
        types.map(load).into()
    };
    thread::spawn(tries).join().expect("nothing panics")
}

#[test]
fn some_capabilities() {
    let Some(()) = can_load() else { return };
    let check = |held, expected: [bool; 3]| {
        let found = with_only(held);
        let loaded: Vec<bool> = found.iter().map(|(_, result)| result.is_ok()).collect();
        assert_eq!(loaded, expected, "with {held:?}: {found:?}");
        for (r#type, result) in found {
            let Err(error) = result else { continue };
            assert!(matches!(error, LoadError::Refused { .. }), "{type}: {error:?}");
            // It is still root, so `sudo` does not help.
            let (before, _) = PROGRAM_HINT.split_once("run it").expect("a hint");
            let expected = format!("{before}this process is root, but has no CAP_");
            assert!(error.to_string().starts_with(&expected), "{type}: {error}");
        }
    };
    // Socket filters, XDP, tracing.
    check(CapabilitySet::empty(), [false, false, false]);
    check(CapabilitySet::NET_ADMIN, [false, false, false]);
    check(CapabilitySet::BPF, [true, false, false]);
    check(CapabilitySet::BPF | CapabilitySet::NET_ADMIN, [true, true, false]);
    check(CapabilitySet::BPF | CapabilitySet::PERFMON, [true, false, true]);
    check(CapabilitySet::SYS_ADMIN, [true, true, true]);
}
