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
mod tests;
