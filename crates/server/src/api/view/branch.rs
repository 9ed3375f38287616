//! Branches with their heads: a head is an epoch of the results.

use uuid::Uuid;
use wingbeat_track::{
    model::{BranchName, Report, StartPoint},
    output::sha1,
    store::{ReportFilter, ReportSummary},
};

use super::{View, branch_name};
use crate::{
    ApiError,
    api::shapes::{JsonBranch, JsonHead, JsonStartPoint, JsonVersion},
    database::{Entity, Kind},
};

impl View<'_> {
    /// The current branch.
    pub(in crate::api) fn branch(&self, entity: &Entity) -> Result<JsonBranch, ApiError> {
        let results = &self.database.results;
        let name = branch_name(entity)?;
        let stored = &self.project.stored;
        let latest = results.latest(stored, &name, None)?;
        let start = results.branch_head(stored, &name)?.and_then(|head| head.start_point);
        let (epoch, version) = match &latest {
            Some(latest) => {
                (latest.epoch, self.version(&name, latest.uuid, latest.hash.as_deref())?)
            }
            None => (0, None),
        };
        self.branch_at(entity, epoch, version, start.as_ref())
    }

    /// The branch of a report at its time.
    pub(in crate::api) fn branch_of(&self, report: &Report) -> Result<JsonBranch, ApiError> {
        let entity = self.named(Kind::Branch, report.branch.as_str())?;
        let version = self.version(&report.branch, report.uuid, report.hash.as_deref())?;
        self.branch_at(&entity, report.epoch, version, report.start_point.as_ref())
    }

    /// The same for a report without its content.
    pub(in crate::api) fn branch_of_summary(
        &self,
        report: &ReportSummary,
    ) -> Result<JsonBranch, ApiError> {
        let entity = self.named(Kind::Branch, report.branch.as_str())?;
        let version = self.version(&report.branch, report.uuid, report.hash.as_deref())?;
        let head = self.database.results.branch_head(&report.project, &report.branch)?;
        let start = head.filter(|head| head.epoch == report.epoch);
        let start = start.and_then(|head| head.start_point);
        self.branch_at(&entity, report.epoch, version, start.as_ref())
    }

    /// The branch of a report at its time, given by UUID and commit.
    pub(in crate::api) fn branch_of_report(
        &self,
        report: Uuid,
        branch: &BranchName,
        hash: Option<&str>,
    ) -> Result<JsonBranch, ApiError> {
        let entity = self.named(Kind::Branch, branch.as_str())?;
        let head = self.database.results.branch_head(&self.project.stored, branch)?;
        let version = self.version(branch, report, hash)?;
        let (epoch, start) = head.map_or((0, None), |head| (head.epoch, head.start_point));
        self.branch_at(&entity, epoch, version, start.as_ref())
    }

    /// The version of a report. A single one is counted; for more, all of the branch are.
    fn version(
        &self,
        branch: &BranchName,
        report: Uuid,
        hash: Option<&str>,
    ) -> Result<Option<JsonVersion>, ApiError> {
        let results = &self.database.results;
        let mut numbers = self.numbers.borrow_mut();
        let of_all = match numbers.get_mut(branch) {
            None => {
                numbers.insert(branch.clone(), None);
                None
            }
            Some(known) => {
                if known.is_none() {
                    *known = Some(results.version_numbers(&self.project.stored, branch)?);
                }
                known.as_ref().and_then(|known| known.get(&report).copied())
            }
        };
        let number = match of_all {
            None => results.version_number(report)?,
            known => known,
        };
        Ok(number.map(|number| version(number, hash)))
    }

    fn branch_at(
        &self,
        entity: &Entity,
        epoch: u32,
        version: Option<JsonVersion>,
        start: Option<&StartPoint>,
    ) -> Result<JsonBranch, ApiError> {
        let start_point = match start {
            Some(start) => self.start_point(start)?,
            None => None,
        };
        Ok(JsonBranch {
            entity: self.entity(entity),
            head: JsonHead {
                uuid: head(entity, epoch),
                start_point,
                version,
                created: entity.created,
                replaced: None,
            },
        })
    }

    /// The start point, if measured.
    fn start_point(&self, start: &StartPoint) -> Result<Option<JsonStartPoint>, ApiError> {
        let entity = self.named(Kind::Branch, start.branch.as_str())?;
        let filter = ReportFilter {
            branch: Some(start.branch.clone()),
            until: start.until,
            ..ReportFilter::of(&self.project.stored)
        };
        let Some(last) = self.database.results.reports(&filter, 1)?.pop() else { return Ok(None) };
        let version = self.version(&start.branch, last.uuid, last.hash.as_deref())?;
        let head = head(&entity, last.epoch);
        Ok(version.map(|version| JsonStartPoint {
            branch: entity.uuid,
            head,
            version,
            wingbeat: None,
        }))
    }
}

/// UUID of a branch's epoch.
fn head(branch: &Entity, epoch: u32) -> Uuid {
    Uuid::new_v5(&branch.uuid, format!("head/{epoch}").as_bytes())
}

pub(super) fn version(number: u64, hash: Option<&str>) -> JsonVersion {
    JsonVersion { number, hash: sha1(hash).map(str::to_owned) }
}
