//! Resolves a user's reference: a branch such as `main`, a commit or a report.

use uuid::Uuid;
use wingbeat_track::{
    model::{BranchName, ProjectName, StartPoint, TestbedName, short_id},
    store::{ReportFilter, ReportSummary, Store, StoreError},
};

use crate::{
    ApiError,
    database::{Database, Kind, Project},
    names::Names,
};

/// Reports searched for a commit.
const SEARCHED_MAX: usize = 20_000;

/// Maximum length of a chain of confirming reports.
const CONFIRMING_MAX: usize = 100;

/// Minimum digits of a commit or report.
const DIGITS_MIN: usize = 6;

/// The report at which a branch started, if it started from the branch of `before`: later results of that branch are
/// unrelated to this one.
pub(crate) fn start_of(
    database: &Database,
    names: &Names,
    before: &str,
    after: &ReportSummary,
) -> Result<Option<ReportSummary>, ApiError> {
    let results = &database.results;
    let head = results.branch_head(&after.project, &after.branch)?;
    let is_named = |start: &StartPoint| branches(names, before).any(|name| name == start.branch);
    let start = head.and_then(|head| head.start_point).filter(is_named);
    let Some(start) = start else { return Ok(None) };
    let until = start.until.map_or(after.start_time, |until| until.min(after.start_time));
    let filter = ReportFilter {
        branch: Some(start.branch),
        testbed: Some(after.testbed.clone()),
        until: Some(until),
        ..ReportFilter::of(&after.project)
    };
    let found = results.reports(&filter, CONFIRMING_MAX)?;
    Ok(found.into_iter().find(|report| report.confirms.is_none()))
}

/// Branches that a text may refer to: by name in the results, or by current name.
fn branches(names: &Names, text: &str) -> impl Iterator<Item = BranchName> {
    let renamed = names.stored(Kind::Branch, text).and_then(|it| BranchName::new(it).ok());
    BranchName::new(text).ok().into_iter().chain(renamed)
}

/// The newest report of a branch or of a commit hash prefix, or the report with that UUID or UUID suffix.
pub(crate) fn find(
    database: &Database,
    project: &Project,
    names: &Names,
    text: &str,
    testbed: Option<&TestbedName>,
) -> Result<ReportSummary, ApiError> {
    let results = &database.results;
    for branch in branches(names, text) {
        if let Some(report) = results.latest(&project.stored, &branch, testbed)? {
            return Ok(report);
        }
    }
    let found = meant(results, &project.stored, &text.to_ascii_lowercase())?;
    let mut found = found.into_iter().filter(|report| report.confirms.is_none());
    let first = found.next();
    let better = match (&first, testbed) {
        (Some(first), Some(testbed)) if first.testbed != *testbed => {
            found.find(|report| report.testbed == *testbed)
        }
        _ => None,
    };
    better.or(first).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        ApiError::not_found(format!(
            "{shown:?} is neither a branch with reports, nor a measured commit, nor a report of this project; a commit \
             needs the first {DIGITS_MIN} digits of its hash"
        ))
    })
}

/// Reports that match a UUID, a commit hash prefix, or a UUID suffix, newest first.
fn meant(
    results: &Store,
    project: &ProjectName,
    text: &str,
) -> Result<Vec<ReportSummary>, StoreError> {
    let all = ReportFilter::of(project);
    if let Ok(uuid) = Uuid::try_parse(text) {
        let found = results.reports(&ReportFilter { uuid: Some(uuid), ..all.clone() }, 1)?;
        // 32 digits may also be a commit's.
        if !found.is_empty() {
            return Ok(found);
        }
    }
    if text.len() >= DIGITS_MIN {
        let of_commit = ReportFilter { hash_prefix: Some(text.to_owned()), ..all.clone() };
        let found = results.reports(&of_commit, SEARCHED_MAX)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let mut found = results.reports(&all, SEARCHED_MAX)?;
    found.retain(|report| short_id(report.uuid) == text);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};
    use wingbeat_track::model::{BenchmarkName, Measure, Metric, Report, Results};

    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn report(number: u8, hash: Option<&str>) -> Report {
        let parse = |text: &str| text.to_owned();
        let mut results = Results::default();
        let name = BenchmarkName::new("parse").expect("a name");
        results.add(name, Measure::latency(), Metric::new(1.0)).expect("added");
        let mut report = Report::new(
            Uuid::from_bytes([number; 16]),
            parse("project").parse().expect("a name"),
            parse("main").parse().expect("a name"),
            parse("box").parse().expect("a name"),
            OffsetDateTime::UNIX_EPOCH + Duration::days(number.into()),
        );
        report.hash = hash.map(str::to_owned);
        report.iterations = vec![results];
        report
    }

    #[test]
    fn what_a_text_means() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("results.db")).expect("a store");
        for report in [report(1, Some(COMMIT)), report(2, None), report(3, Some(COMMIT))] {
            store.insert(&report).expect("stored");
        }
        let check = |project: &str, text: &str, expected: &[u8]| {
            let project = ProjectName::new(project).expect("a name");
            let found = meant(&store, &project, text).expect("read");
            let numbers: Vec<u8> = found.iter().map(|report| report.uuid.as_bytes()[0]).collect();
            assert_eq!(numbers, expected, "{text}");
        };
        let second = Uuid::from_bytes([2; 16]);
        check("project", &second.to_string(), &[2]);
        check("project", &short_id(second), &[2]);
        check("elsewhere", &second.to_string(), &[]);
        // Newest first.
        check("project", COMMIT, &[3, 1]);
        check("project", &COMMIT[..DIGITS_MIN], &[3, 1]);
        check("project", &COMMIT[..DIGITS_MIN - 1], &[]);
        // As long as a UUID.
        check("project", &COMMIT[..32], &[3, 1]);
        check("project", "123456", &[]);
        check("project", "%", &[]);
    }
}
