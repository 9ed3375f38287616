//! The findings for scripts. Fields are added, never renamed or removed, as long as `schema_version` stays the same.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use wingbeat_bpf::{
    Finding, Verb,
    probe::{Expected, Kernel, can},
};

/// 2: `mend` became `next_step`.
const SCHEMA_VERSION: u32 = 2;

/// A finding, and what this kernel should have answered.
#[derive(Debug, Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    expected: Option<Expected>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema_version: u32,
    wingbeat: &'static str,
    can: serde_json::Value,
    findings: Vec<Row<'a>>,
}

/// Writes one object, with a line break at its end.
pub(super) fn write(findings: &[Finding], kernel: &Kernel, mut out: impl Write) -> io::Result<()> {
    let row = |finding| Row { finding, expected: kernel.expects(finding.id) };
    let rows: Vec<_> = findings.iter().map(row).collect();
    let report = Report {
        schema_version: SCHEMA_VERSION,
        wingbeat: env!("CARGO_PKG_VERSION"),
        can: json!({ "profile": can(Verb::Profile, findings) }),
        findings: rows,
    };
    serde_json::to_writer_pretty(&mut out, &report)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use wingbeat_bpf::{Status, probe::NextStep};

    use super::*;

    #[test]
    fn has_the_documented_form() {
        let finding = Finding {
            id: "open_files",
            name: "open files",
            status: Status::Limited,
            detail: "off".to_owned(),
            needed_by: &[],
            helps: &[Verb::Profile],
            next_step: Some(NextStep::Command("sudo sysctl x=1".to_owned())),
        };
        let mut bytes = Vec::new();
        write(&[finding], &Kernel::running(), &mut bytes).unwrap();
        let found: Value = serde_json::from_slice(&bytes).unwrap();
        let expected = json!({
            "schema_version": 2,
            "wingbeat": env!("CARGO_PKG_VERSION"),
            "can": { "profile": true },
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
