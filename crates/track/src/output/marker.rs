//! The hidden element by which a comment is found again, so that it is updated instead of repeated.

use super::html::escaped;
use crate::model::Report;

/// The hidden element by which a comment is found again. `id` stands for branch, testbed and adapter if the
/// user names one (`--ci-id`).
pub fn marker(report: &Report, id: Option<&str>) -> String {
    let project = whole(report.project.as_str());
    let rest = match id {
        Some(id) => format!("id/{}", whole(id)),
        None => {
            let testbed = whole(report.testbed.as_str());
            format!("{}/{testbed}/{}", report.branch, report.adapter)
        }
    };
    format!("<div id=\"{}\"></div>", escaped(&format!("wingbeat/{project}/{rest}")))
}

/// Without slashes, so that different names never give the same path. Branches keep theirs: they stand
/// between parts that have none.
fn whole(part: &str) -> String {
    part.replace('%', "%25").replace('/', "%2F")
}
