//! The list at several terminal widths.

use time::OffsetDateTime;
use unicode_width::UnicodeWidthStr as _;
use uuid::Uuid;
use wingbeat_track::{adapter::Adapter, model::Environment};

use super::*;

fn entry(branch: &str, testbed: &str, start: Option<&str>) -> Entry {
    let summary = ReportSummary {
        uuid: Uuid::nil(),
        project: "p".parse().expect("a name"),
        branch: branch.parse().expect("a name"),
        hash: Some("0123456789abcdef".to_owned()),
        epoch: 0,
        testbed: testbed.parse().expect("a name"),
        start_time: OffsetDateTime::UNIX_EPOCH,
        end_time: OffsetDateTime::UNIX_EPOCH,
        adapter: Adapter::Json,
        environment: Environment::default(),
        iterations: 1,
        metrics: 12,
        failures: 0,
        alerts: 2,
        active_alerts: 1,
        confirms: None,
    };
    let start_point = start.map(|branch| StartPoint {
        branch: branch.parse().expect("a name"),
        hash: None,
        until: None,
        max_versions: 255,
    });
    Entry { summary, start_point, news: vec!["kernel Linux 6.12 → Linux 6.18".to_owned()] }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let branch = "feature/a-name-that-goes-on-for-long";
    let entries = [
        entry(branch, "ci-runner-with-a-long-name", Some("release/2026-11")),
        entry("main", "ci-runner-with-a-long-name", None),
    ];
    for width in [80, 100, 120, 160, usize::MAX] {
        let text = anstream::adapter::strip_str(&text(&entries, width)).to_string();
        assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
        assert!(text.contains("from release/2026-11") || width == 120, "{width}:\n{text}");
        assert_eq!(text.contains(branch), width >= 160, "{width}:\n{text}");
    }
}
