//! Probes which features are available with this kernel, these privileges and this hardware.
//!
//! Each probe is a small function that returns one [`Finding`]. It leaves nothing behind: programs
//! do nothing and are unloaded at once, events are never enabled. Without privileges every probe
//! still returns a finding, which then names the missing privilege.

mod expected;
mod host;
mod kernel;
mod programs;

use std::{fmt, fs, io};

use serde::Serialize;

use crate::{
    btf::{BtfError, KernelTypes},
    rights::{Capability, Rights, how_to_grant},
};

pub(crate) use self::expected::configuration;
pub use self::{
    expected::{Denial, Expected, Kernel, denied},
    kernel::TooOld,
};

/// How far a feature works here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    Works,
    /// In part, or at a cost; or unknown.
    Limited,
    /// Not at all, here and for this user.
    Missing,
}

/// A verb of `wingbeat` that a finding concerns, or building it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    Profile,
    Heap,
    Bench,
    Live,
    Annotate,
    Top,
    /// Building wingbeat itself from source.
    Build,
}

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NextStep {
    /// A shell command that fixes it.
    Command(String),
    /// Advice if no command can fix it: an alternative, or why there is none.
    Advice(String),
}

fn command(text: impl Into<String>) -> NextStep {
    NextStep::Command(text.into())
}

fn advice(text: impl Into<String>) -> NextStep {
    NextStep::Advice(text.into())
}

/// Result of one probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable identifier for scripts, e.g. `ring_buffer`.
    pub id: &'static str,
    pub name: &'static str,
    pub status: FindingStatus,
    pub detail: String,
    /// Verbs that cannot run if this is missing.
    pub needed_by: &'static [Verb],
    /// Verbs that run without it, but do more or better with it.
    pub helps: &'static [Verb],
    /// What to do; `None` if nothing needs to be done.
    pub next_step: Option<NextStep>,
}

impl Finding {
    /// Whether this prevents `verb` from running.
    pub fn blocks(&self, verb: Verb) -> bool {
        self.status == FindingStatus::Missing && self.needed_by.contains(&verb)
    }

    /// Verbs concerned, those that need it first.
    pub fn concerns(&self) -> impl Iterator<Item = Verb> {
        self.needed_by.iter().chain(self.helps).copied()
    }
}

/// Whether no finding prevents `verb` from running.
pub fn can(verb: Verb, findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| finding.blocks(verb))
}

/// Runs all probes. Takes some tens of milliseconds and needs no privileges.
pub fn findings() -> Vec<Finding> {
    let host = Host { rights: Rights::current(), types: KernelTypes::from_kernel() };
    vec![
        kernel::version(),
        kernel::architecture(),
        kernel::btf(&host),
        host::capabilities(&host),
        host::pid_namespace(),
        programs::ring_buffer(&host),
        host::cpu_clock(&host),
        programs::perf_event(&host),
        programs::raw_tracepoint(&host),
        programs::btf_tracepoint(&host),
        programs::fentry(&host),
        programs::by_id(&host),
        programs::run_statistics(&host),
        programs::uprobes(),
        programs::uprobe_multi(&host),
        programs::kprobes(),
        host::cycles(&host),
        host::kernel_symbols(&host),
        kernel::jit(),
        kernel::statistics(),
        kernel::unprivileged_bpf(),
        kernel::lockdown(),
        kernel::tracefs(),
        host::open_files(),
        host::toolchain(),
    ]
}

/// Data used by several probes, read once.
struct Host {
    rights: io::Result<Rights>,
    types: Result<KernelTypes, BtfError>,
}

impl Host {
    /// Capabilities of `wanted` that this process lacks. Empty if unknown: then the kernel's reply decides.
    fn lacks(&self, wanted: &[Capability]) -> Vec<Capability> {
        self.rights.as_ref().map_or_else(
            |_| Vec::new(),
            |rights| wanted.iter().copied().filter(|&one| !rights.allow(one)).collect(),
        )
    }

    /// How to give this process the privileges that `wingbeat profile` uses.
    fn more_rights(&self) -> NextStep {
        self.rights_for(&[])
    }

    /// How to give this process the capabilities that it lacks.
    fn rights_for(&self, lacks: &[Capability]) -> NextStep {
        match self.outside_of_namespace() {
            Some(next_step) => next_step,
            None if lacks.contains(&Capability::SysAdmin) => {
                advice("run it with `sudo`; a binary with CAP_SYS_ADMIN can do what root can")
            }
            None => command(how_to_grant()),
        }
    }

    /// Capabilities are useless in a user namespace.
    fn outside_of_namespace(&self) -> Option<NextStep> {
        let is_inside = self.rights.as_ref().is_ok_and(|rights| !rights.count());
        is_inside.then(|| {
            advice(
                "leave the user namespace: run on the host, or in a container that is not rootless",
            )
        })
    }
}

/// Static part of a finding.
struct Subject {
    id: &'static str,
    name: &'static str,
    needed_by: &'static [Verb],
    helps: &'static [Verb],
}

impl Subject {
    const fn new(
        id: &'static str,
        name: &'static str,
        needed_by: &'static [Verb],
        helps: &'static [Verb],
    ) -> Self {
        Self { id, name, needed_by, helps }
    }

    fn works(&self, detail: impl Into<String>) -> Finding {
        self.finding(FindingStatus::Works, detail.into(), None)
    }

    fn limited(&self, detail: impl Into<String>, next_step: NextStep) -> Finding {
        self.finding(FindingStatus::Limited, detail.into(), Some(next_step))
    }

    fn missing(&self, detail: impl Into<String>, next_step: NextStep) -> Finding {
        self.finding(FindingStatus::Missing, detail.into(), Some(next_step))
    }

    /// The kernel rejected an attempt that needs the privileges `wanted`. Without them nothing is
    /// known about the kernel; with them `otherwise` is the advice.
    fn refused(
        &self,
        host: &Host,
        wanted: &[Capability],
        refusal: Refusal,
        otherwise: NextStep,
    ) -> Finding {
        let lacks = host.lacks(wanted);
        let is_for_rights =
            matches!(refusal.error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
        if is_for_rights && !lacks.is_empty() {
            let names: Vec<_> = lacks.iter().map(ToString::to_string).collect();
            let next_step = host.rights_for(&lacks);
            return self.missing(format!("needs {}", names.join(" and ")), next_step);
        }
        let despite = match is_for_rights && host.rights.is_ok() {
            true => ", although this process has the rights",
            false => "",
        };
        self.missing(format!("{refusal}{despite}"), otherwise)
    }

    fn finding(
        &self,
        status: FindingStatus,
        detail: String,
        next_step: Option<NextStep>,
    ) -> Finding {
        let &Self { id, name, needed_by, helps } = self;
        Finding { id, name, status, detail, needed_by, helps, next_step }
    }
}

/// A step that the kernel rejected.
struct Refusal {
    /// The attempted step, e.g. `loading`.
    step: &'static str,
    error: io::Error,
}

impl Refusal {
    fn at(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { step, error }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.step, self.error)
    }
}

/// Trimmed content of a one-line file.
fn line(path: &str) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

/// Major and minor version of a kernel release such as `6.1.0-44-cloud-amd64`.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// The selected value in `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// Whether a file system of type `kind` is listed in the text of `/proc/self/mounts`.
fn is_mounted(mounts: &str, kind: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind))
}

/// Whether any line of `/proc/kallsyms` has an address. Without the privilege all are 0.
fn has_addresses(symbols: &str) -> bool {
    symbols.lines().any(|line| {
        line.split(' ').next().is_some_and(|address| {
            address.len() == 16 && address.bytes().any(|digit| digit != b'0')
        })
    })
}

#[cfg(test)]
mod tests {
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
        for finding in findings.iter().filter(|finding| has_rights || for_all.contains(&finding.id))
        {
            let expected = kernel.expects(finding.id);
            assert!(kernel.agrees(finding), "{expected:?} is expected here: {finding:?}");
        }
        assert!(!has_rights || can(Verb::Profile, &findings));
    }

    #[test]
    fn fentry_agrees_with_an_attempt() {
        let host = Host { rights: Rights::current(), types: KernelTypes::from_kernel() };
        let types = host.types.as_ref().unwrap();
        let program =
            sys::load_program(ProgramKind::Fentry(types.function_id("schedule").unwrap()));
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
}
