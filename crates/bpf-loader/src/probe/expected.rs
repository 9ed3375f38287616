//! Expected results of the probes, by kernel version and configuration.
//!
//! A probe reports what works; this table says what should. A difference is a bug in the probe or
//! the table, or a modified kernel. The tests check it on each kernel they run on, so that no test
//! is skipped for a feature that should be available.

use std::{
    fs::{self, File},
    io::{self, Read as _},
};

use flate2::read::GzDecoder;
use serde::Serialize;

use super::{Finding, FindingStatus, findings};

/// Expected state of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// Available with the privileges, perhaps at a cost.
    Works,
    /// Unavailable, regardless of privileges.
    Missing,
    /// Depends on the kernel's configuration, which cannot be read.
    Unknown,
}

/// A kernel feature that a probe looks for.
struct Feature {
    id: &'static str,
    /// First version that has it (major, minor).
    since: (u32, u32),
    option: &'static str,
    /// Whether it needs a program attached by a trampoline.
    takes_trampoline: bool,
}

const fn feature(id: &'static str, since: (u32, u32), option: &'static str) -> Feature {
    Feature { id, since, option, takes_trampoline: false }
}

/// Versions are those of the commits that introduced the feature in the form that the probe tries.
/// Hardware, privileges, mounts and switches are not kernel features and not listed.
const FEATURES: &[Feature] = &[
    feature("btf", (5, 4), "CONFIG_DEBUG_INFO_BTF"),
    feature("ring_buffer", (5, 8), "CONFIG_BPF_SYSCALL"),
    feature("cpu_clock", (3, 0), "CONFIG_PERF_EVENTS"),
    // Perf event links were added in 5.15.
    feature("perf_event", (5, 15), "CONFIG_BPF_EVENTS"),
    feature("raw_tp", (4, 17), "CONFIG_BPF_EVENTS"),
    feature("tp_btf", (5, 5), "CONFIG_DEBUG_INFO_BTF"),
    Feature {
        takes_trampoline: true,
        ..feature("fentry", (5, 5), "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS")
    },
    feature("program_ids", (4, 13), "CONFIG_BPF_SYSCALL"),
    feature("run_statistics", (5, 8), "CONFIG_BPF_SYSCALL"),
    feature("uprobes", (4, 17), "CONFIG_UPROBE_EVENTS"),
    feature("uprobe_multi", (6, 6), "CONFIG_UPROBE_EVENTS"),
    feature("kprobes", (4, 17), "CONFIG_KPROBE_EVENTS"),
    feature("jit", (3, 0), "CONFIG_BPF_JIT"),
];

/// Releases with this in their names reject programs that are attached by trampolines, regardless
/// of configuration: kernels for Firecracker guests, used by some clouds (seen on 6.18).
const WITHOUT_TRAMPOLINES: &str = "-fc-";

/// Properties of a kernel that the table uses.
#[derive(Debug, Clone)]
pub struct Kernel {
    release: String,
    /// Lines `CONFIG_X=y`; `None` if the configuration cannot be read.
    configuration: Option<String>,
}

impl Kernel {
    /// The running kernel.
    pub fn running() -> Self {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let configuration = configuration(&release).ok();
        Self { release, configuration }
    }

    /// Whether it has at least this version (major, minor); false if its release cannot be parsed.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        super::release(&self.release).is_some_and(|version| version >= (major, minor))
    }

    /// Expected state of the feature with this [`Finding`] id; `None` if unknown: because it is not
    /// a kernel feature, or the kernel has no version.
    pub fn expects(&self, id: &str) -> Option<Expected> {
        let feature = FEATURES.iter().find(|feature| feature.id == id)?;
        let version = super::release(&self.release)?;
        if version < feature.since {
            return Some(Expected::Missing);
        }
        if feature.takes_trampoline && self.release.contains(WITHOUT_TRAMPOLINES) {
            return Some(Expected::Missing);
        }
        let Some(configuration) = &self.configuration else { return Some(Expected::Unknown) };
        let line = format!("{}=y", feature.option);
        let is_set = configuration.lines().any(|found| found == line);
        Some(if is_set { Expected::Works } else { Expected::Missing })
    }

    /// Whether a finding matches the table, or the table has no entry for it.
    pub fn agrees(&self, finding: &Finding) -> bool {
        self.expects(finding.id).is_none_or(|expected| {
            expected == Expected::Unknown
                || (expected == Expected::Missing) == (finding.status == FindingStatus::Missing)
        })
    }

    fn denial(&self, finding: &Finding) -> Option<Denial> {
        (finding.status == FindingStatus::Missing).then(|| Denial {
            is_expected: matches!(
                self.expects(finding.id),
                Some(Expected::Missing | Expected::Unknown)
            ),
            reason: format!("{}: {}", finding.name, finding.detail),
        })
    }
}

/// Why a feature is unavailable here; `None` if it works, at least in part. For tests that depend
/// on it: they are skipped, with this message, if the table agrees, and fail otherwise.
///
/// # Panics
///
/// If no finding has this id.
pub fn denied(id: &str) -> Option<Denial> {
    let finding = findings().into_iter().find(|finding| finding.id == id);
    let finding = finding.unwrap_or_else(|| panic!("no probe is called {id}"));
    Kernel::running().denial(&finding)
}

/// A feature that a probe reports as missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Whether the table agrees, or is undecided.
    pub is_expected: bool,
    pub reason: String,
}

/// The kernel's configuration: from the distribution's file, or from the kernel itself.
pub(crate) fn configuration(release: &str) -> io::Result<String> {
    /// Maximum size of a configuration in bytes; they have some 300,000.
    const LEN_MAX: u64 = 16 << 20;
    let at = |path: String| fs::read_to_string(path);
    let in_boot = at(format!("/boot/config-{release}"));
    in_boot.or_else(|_| at(format!("/lib/modules/{release}/config"))).or_else(|_| {
        let mut text = String::new();
        let packed = GzDecoder::new(File::open("/proc/config.gz")?);
        packed.take(LEN_MAX).read_to_string(&mut text).map(|_| text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_answers_by_version_and_option() {
        #[track_caller]
        fn check(release: &str, configuration: Option<&str>, id: &str, expected: Option<Expected>) {
            let release = release.to_owned();
            let kernel = Kernel { release, configuration: configuration.map(String::from) };
            assert_eq!(kernel.expects(id), expected, "{id} on {kernel:?}");
        }
        let direct = Some("CONFIG_A=y\nCONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y\n");
        check("6.1.0-44-cloud-amd64", direct, "fentry", Some(Expected::Works));
        check("5.4.0-1", direct, "fentry", Some(Expected::Missing));
        check("6.18.44-fc-v595", direct, "fentry", Some(Expected::Missing));
        check("6.1.0", Some("CONFIG_BPF=y"), "fentry", Some(Expected::Missing));
        check(
            "6.1.0",
            Some("CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=m"),
            "fentry",
            Some(Expected::Missing),
        );
        check("6.1.0", None, "fentry", Some(Expected::Unknown));
        check("4.4.0", None, "fentry", Some(Expected::Missing));
        check("unknown", direct, "fentry", None);
        check("6.1.0", direct, "hardware_counters", None);
    }

    #[test]
    fn versions_compare_as_numbers() {
        let check = |release: &str, expected| {
            let kernel = Kernel { release: release.to_owned(), configuration: None };
            assert_eq!(kernel.is_at_least(6, 4), expected, "{release}");
        };
        check("6.12.1", true);
        check("6.4", true);
        check("7.0-rc1", true);
        check("6.3.13", false);
        check("5.15.0-91-generic", false);
        check("unknown", false);
    }

    #[test]
    fn every_feature_has_a_probe() {
        let findings = findings();
        for feature in FEATURES {
            assert!(findings.iter().any(|finding| finding.id == feature.id), "{}", feature.id);
        }
    }

    #[test]
    fn a_denial_says_what_was_found() {
        let kernel = Kernel::running();
        for finding in findings() {
            let denial = kernel.denial(&finding);
            assert_eq!(denial.is_some(), finding.status == FindingStatus::Missing, "{finding:?}");
            if let Some(denial) = denial {
                assert!(denial.reason.starts_with(finding.name), "{denial:?}");
                let is_expected =
                    kernel.expects(finding.id).is_some_and(|it| it != Expected::Works);
                assert_eq!(denial.is_expected, is_expected, "{finding:?}");
            }
        }
    }
}
