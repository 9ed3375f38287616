//! UUIDs and slugs derived from names, so that the same name identifies the same entity in every report.

use uuid::Uuid;

use super::ReportRow;
use crate::model::{BenchmarkName, Measure, Report, Slug, ThresholdModel};

/// Namespace of all derived UUIDs. Arbitrary.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f4f_1d2a_58c3_4d3e_9a0b_77e1_64c2_b05d);

const SLUG_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) organization: Uuid,
    pub(super) project: Uuid,
    pub(super) branch: Uuid,
    pub(super) head: Uuid,
    pub(super) testbed: Uuid,
    report: Uuid,
}

impl Ids {
    pub(super) fn of(report: &Report) -> Self {
        let project = below(NAMESPACE, "project", report.project.as_str());
        let branch = below(project, "branch", report.branch.as_str());
        Self {
            organization: below(NAMESPACE, "organization", ""),
            project,
            branch,
            head: below(branch, "head", &report.epoch.to_string()),
            testbed: below(project, "testbed", report.testbed.as_str()),
            report: report.uuid,
        }
    }

    pub(super) fn other_branch(&self, name: &str) -> (Uuid, Uuid) {
        let branch = below(self.project, "branch", name);
        (branch, below(branch, "head", "0"))
    }

    pub(super) fn benchmark(&self, name: &BenchmarkName) -> Uuid {
        below(self.project, "benchmark", name.as_str())
    }

    pub(super) fn measure(&self, measure: &Measure) -> Uuid {
        below(self.project, "measure", measure.slug.as_str())
    }

    pub(super) fn threshold(&self, measure: &Measure) -> Uuid {
        below(self.branch, "threshold", &format!("{}/{}", self.testbed, measure.slug))
    }

    pub(super) fn model(&self, measure: &Measure, model: &ThresholdModel) -> Uuid {
        // The debug format contains all settings, and numbers without loss.
        below(self.threshold(measure), "model", &format!("{model:?}"))
    }

    pub(super) fn metric(&self, row: &ReportRow<'_>) -> Uuid {
        let place = format!("{}/{}/{}", row.iteration, row.measure.slug, row.benchmark.name);
        below(self.report, "metric", &place)
    }
}

fn below(parent: Uuid, kind: &str, name: &str) -> Uuid {
    Uuid::new_v5(&parent, format!("{kind}/{name}").as_bytes())
}

/// A slug of a name. A truncated one ends in a part of the UUID, so that names with a common prefix stay distinct.
pub(super) fn slug(name: &str, uuid: Uuid) -> String {
    let slug = Slug::of(name).as_str().to_owned();
    if name.len() <= SLUG_MAX {
        return slug;
    }
    let tail = &uuid.simple().to_string()[..7];
    let head = slug.get(..SLUG_MAX - 8).unwrap_or(&slug).trim_end_matches('-');
    format!("{head}-{tail}")
}

/// A commit hash that Bencher accepts: the 40 digits of SHA-1.
pub fn sha1(hash: Option<&str>) -> Option<&str> {
    hash.filter(|hash| hash.len() == 40 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()))
}
