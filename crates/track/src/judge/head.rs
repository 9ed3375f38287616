//! Finds the history that a report belongs to: the epoch of its branch, and where the branch comes from.

use std::path::Path;

use time::Duration;

use crate::{
    git,
    model::{BranchName, Report, StartPoint},
    output::short_hash,
    store::{ReportSummary, Store, StoreError},
};

/// What the user says about where a branch comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Branching {
    /// The branch that it comes from. Without it the one counts that its last report names.
    pub start_point: Option<BranchName>,
    /// The commit at which it begins. Without it git is asked.
    pub hash: Option<String>,
    /// Versions of the start point that count at most.
    pub max_versions: Option<u32>,
    pub is_reset: bool,
}

/// Versions of a start point that count at most, unless the user says otherwise: Bencher's default.
const MAX_VERSIONS: u32 = 255;

/// Places a report of an older commit than the newest one of its branch where the commit belongs: the job of
/// an old commit that runs again says nothing about the newest, whose history it would become.
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

/// Settles the epoch and the start point of a report. What stands in for something missing is remarked. Git is
/// asked in `directory`; a server has none.
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
        // The branch came from somewhere when it was measured first, and still does. Where it parts may
        // have changed since: it may have been rebased, or the merge base measured.
        (None, Some(start)) => {
            (StartPoint { hash: None, until: None, ..start.clone() }, start.hash)
        }
        (None, None) => return Ok(()),
    };
    report.start_point = Some(find(report, directory, store, place, fallback, remarks)?);
    Ok(())
}

/// The place in the start point's history. `fallback` is the commit that an earlier run found, for when git
/// knows none any more.
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

/// Why a report is compared with the latest one of the start point, where that is news.
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
    // Outside of a repository there is nothing that could part.
    report.hash.as_ref().map(|_| {
        format!(
            "git cannot find where this branch left {branch} (is {branch} fetched, with its \
             history?); it is compared with the latest report of {branch}"
        )
    })
}
