//! The findings as JSON. Within a `schema_version`, fields are added, but never renamed or removed.

use serde::Serialize;
use serde_json::json;
use wingbeat_bpf_loader::{
    Finding, Verb,
    probe::{Expected, Kernel, can},
};

/// 2: `mend` became `next_step`.
pub(super) const SCHEMA_VERSION: u32 = 2;

/// A finding, and the kernel's expected answer.
#[derive(Debug, Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    expected: Option<Expected>,
}

#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    wingbeat: &'static str,
    can: serde_json::Value,
    findings: Vec<Row<'a>>,
}

impl<'a> Report<'a> {
    pub(super) fn of(findings: &'a [Finding], kernel: &Kernel) -> Self {
        let row = |finding: &'a Finding| Row { finding, expected: kernel.expects(finding.id) };
        Self {
            wingbeat: env!("CARGO_PKG_VERSION"),
            can: json!({
                "profile": can(Verb::Profile, findings),
                "heap": can(Verb::Heap, findings),
            }),
            findings: findings.iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use wingbeat_bpf_loader::{FindingStatus, probe::NextStep};

    use super::*;

    #[test]
    fn has_the_documented_form() {
        let finding = Finding {
            id: "open_files",
            name: "open files",
            status: FindingStatus::Limited,
            detail: "off".to_owned(),
            needed_by: &[],
            helps: &[Verb::Profile],
            next_step: Some(NextStep::Command("sudo sysctl x=1".to_owned())),
        };
        let findings = [finding];
        let report = Report::of(&findings, &Kernel::running());
        let text = crate::shell::json_text(SCHEMA_VERSION, &report).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "schema_version": 2,
            "wingbeat": env!("CARGO_PKG_VERSION"),
            "can": { "profile": true, "heap": true },
            "findings": [{
                "id": "open_files",
                "name": "open files",
                "status": "limited",
                "detail": "off",
                "needed_by": [],
                "helps": ["profile"],
                "next_step": { "command": "sudo sysctl x=1" },
                "expected": null,
            }],
        });
        assert_eq!(found, expected);
    }
}
