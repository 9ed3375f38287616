//! Finds the history of a report: the epoch of its branch, and the branch's start point.

use std::path::Path;

use time::Duration;

use crate::{
    git,
    model::{BranchName, Report, StartPoint},
    output::short_hash,
    store::{ReportSummary, Store, StoreError},
};

/// The user's options for the start point of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Branching {
    /// The branch it starts from. Defaults to the one named by its last report.
    pub start_point: Option<BranchName>,
    /// The commit at which it begins. Defaults to git's merge base.
    pub hash: Option<String>,
    /// Maximum number of versions of the start point.
    pub max_versions: Option<u32>,
    pub is_reset: bool,
}

/// Default maximum number of versions of a start point, as in Bencher.
const MAX_VERSIONS: u32 = 255;

/// Moves a report about an older commit than the newest of its branch back to the commit's position: a rerun of an old
/// commit's job must not become the history of the newest.
pub(crate) fn place(
    report: &mut Report,
    directory: &Path,
    store: &Store,
    remarks: &mut Vec<String>,
) -> Result<(), StoreError> {
    let Report { project, branch, testbed, .. } = &*report;
    let Some(hash) = report.hash.clone() else { return Ok(()) };
    let latest = store.latest(project, branch, Some(testbed))?.and_then(|latest| latest.hash);
    let Some(latest) = latest.filter(|it| *it != hash && git::descends(directory, it, &hash))
    else {
        return Ok(());
    };
    let older = format!("commit {} is older than {}", short_hash(&hash), short_hash(&latest));
    for commit in git::ancestors(directory, &hash) {
        let Some(last) = store.last_measured(project, branch, testbed, &commit)? else { continue };
        let took = report.end_time - report.start_time;
        report.start_time = last + Duration::NANOSECOND;
        report.end_time = report.start_time + took;
        remarks.push(format!(
            "{older}, which was measured before: the report is placed behind that of {} and compared with \
             what came before it",
            short_hash(&commit)
        ));
        return Ok(());
    }
    remarks.push(format!(
        "{older}, which was measured before, and compared with newer commits, since none before it was \
         measured; --backdate SECONDS places it"
    ));
    Ok(())
}

/// Determines the epoch and the start point of a report. Fallbacks are added as remarks. Git is queried in `directory`;
/// a server has none.
pub fn settle(
    report: &mut Report,
    asked: &Branching,
    directory: Option<&Path>,
    store: Option<&Store>,
    remarks: &mut Vec<String>,
) -> Result<(), StoreError> {
    let known = store
        .map(|store| store.branch_head(&report.project, &report.branch))
        .transpose()?
        .flatten();
    report.epoch = match &known {
        Some(head) if asked.is_reset => head.epoch.saturating_add(1),
        Some(head) => head.epoch,
        None => 0,
    };
    let start_point = asked.start_point.clone().filter(|branch| *branch != report.branch);
    let remembered = known
        .filter(|_| !asked.is_reset && asked.start_point.is_none())
        .and_then(|head| head.start_point);
    let (place, fallback) = match (start_point, remembered) {
        (Some(branch), _) => {
            let max_versions = asked.max_versions.unwrap_or(MAX_VERSIONS);
            (StartPoint { branch, hash: asked.hash.clone(), until: None, max_versions }, None)
        }
        // The branch keeps the start point of its first report. The commit may have changed since, by a rebase or
        // because the merge base has been measured by now.
        (None, Some(start)) => {
            (StartPoint { hash: None, until: None, ..start.clone() }, start.hash)
        }
        (None, None) => return Ok(()),
    };
    report.start_point = Some(find(report, directory, store, place, fallback, remarks)?);
    Ok(())
}

/// The position in the start point's history. `fallback` is the commit found by an earlier run, in case git finds none
/// any more.
fn find(
    report: &Report,
    directory: Option<&Path>,
    store: Option<&Store>,
    mut place: StartPoint,
    fallback: Option<String>,
    remarks: &mut Vec<String>,
) -> Result<StartPoint, StoreError> {
    let resolved = |hash: String| directory.and_then(|it| git::resolve(it, &hash)).unwrap_or(hash);
    let merge_base = || directory.and_then(|it| git::merge_base(it, place.branch.as_str()));
    place.hash = match place.hash.clone() {
        Some(hash) => Some(resolved(hash)),
        None => merge_base().or(fallback),
    };
    let Some(store) = store else { return Ok(place) };
    let measured =
        |hash: &str| store.last_measured(&report.project, &place.branch, &report.testbed, hash);
    let wanted = place.hash.clone();
    if let Some(hash) = &wanted {
        if let Some(last) = measured(hash)? {
            place.until = Some(last);
            return Ok(place);
        }
        let ancestors = directory.map(|it| git::ancestors(it, hash)).unwrap_or_default();
        for ancestor in ancestors.iter().skip(1) {
            if let Some(last) = measured(ancestor)? {
                remarks.push(format!(
                    "{} has no report of commit {} on testbed {}; it is compared with the nearest one \
                     before it, {}",
                    place.branch,
                    short_hash(hash),
                    report.testbed,
                    short_hash(ancestor)
                ));
                place.until = Some(last);
                return Ok(place);
            }
        }
    }
    if let Some(latest) = store.latest(&report.project, &place.branch, Some(&report.testbed))? {
        remarks.extend(why_latest(report, &place.branch, &latest, wanted.as_deref()));
        place.until = Some(latest.start_time.min(report.start_time));
    } else {
        remarks.push(format!(
            "the start point {} has no report on testbed {}: there is nothing to compare with until \
             `wingbeat run --branch {}` has been run there",
            place.branch, report.testbed, place.branch
        ));
    }
    Ok(place)
}

/// Why a report is compared with the latest one of the start point, if that is news.
fn why_latest(
    report: &Report,
    branch: &BranchName,
    latest: &ReportSummary,
    wanted: Option<&str>,
) -> Option<String> {
    if let Some(hash) = wanted {
        let which = latest.hash.as_deref().map_or("without a commit", short_hash);
        return Some(format!(
            "{branch} has no report of commit {} or of one before it on testbed {}; it is compared with \
             the latest one, {which}",
            short_hash(hash),
            report.testbed,
        ));
    }
    // Outside of a repository there is no merge base.
    report.hash.as_ref().map(|_| {
        format!(
            "git cannot find where this branch left {branch} (is {branch} fetched, with its \
             history?); it is compared with the latest report of {branch}"
        )
    })
}
