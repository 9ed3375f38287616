//! Implements `wingbeat run`: the only part of this crate that starts programs.
//!
//! `command` runs and echoes the command, `collect_results` parses its output, `fold` merges iterations, [`evaluate`] finds the
//! history and decides, `confirm` repeats suspicious measurements, and `interleaved` those with too short a history.
//! `profiles` reads the exact profiles that the command [left](left_profiles), or runs it again under a [`Sampler`].
//! [`git`](crate::git) and [`host`] describe the environment, and an [`Interrupt`] stops everything.

mod collect_results;
mod confirm;
mod filter;
mod fold;
pub mod host;
mod interleaved;
pub mod left_profiles;
mod profiles;
mod tool_files;

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    adapter::Adapter,
    evaluate::{self, Background, Judged},
    model::{
        Average, BranchName, Description, DescriptionError, Environment, MeasureName, Notice,
        Profile, ProjectName, Report, Results, Slugs, TestbedName, ThresholdModel,
    },
    store::{Retention, Store, StoreError},
    verdict::Look,
};
pub use crate::{
    command::{Benchmark, CommandError, Echo, Interrupt},
    evaluate::{Branching, ComparedWith, Rules},
};
pub use collect_results::{GatherError, Source};
pub use fold::Fold;
pub use profiles::{Profiling, Sampled, Sampler};

/// Years whose times a store can represent, as nanoseconds since 1970.
pub(crate) const YEARS: RangeInclusive<i32> = 1678..=2261;

/// What to run, and how to process the results.
#[derive(Debug, Clone)]
pub struct Request {
    pub project: ProjectName,
    pub branch: BranchName,
    pub hash: Option<String>,
    pub branching: Branching,
    pub testbed: TestbedName,
    pub source: Source,
    pub adapter: Adapter,
    pub average: Option<Average>,
    /// Number of runs of the command, at least 1.
    pub iterations: u32,
    pub fold: Option<Fold>,
    /// Whether to tolerate a failing command. If it always fails, the output that it printed is used.
    pub allow_failure: bool,
    pub backdate: Option<OffsetDateTime>,
    pub rules: Rules,
    /// The user's descriptions of measures.
    pub measures: Vec<(MeasureName, Description)>,
    /// Slugs of the measures in the store.
    pub slugs: Slugs,
    /// How often to repeat suspects, if set by the user. 0 also disables comparing with the nearest commit.
    pub confirm: Option<u32>,
    /// Whether an alert fails the job: then noisy suspects are repeated once, unless the user sets a number.
    pub is_gate: bool,
    /// Folder for git queries.
    pub directory: PathBuf,
    /// Remarks about the request, which are added to those of the report.
    pub remarks: Vec<String>,
    pub interrupt: Interrupt,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub report: Report,
    /// Reports of the repeated runs to confirm alerts.
    pub confirmations: Vec<Report>,
    pub thresholds: Vec<Option<ThresholdModel>>,
    pub notices: Vec<Notice>,
    /// Profiles of the report's benchmarks, if requested.
    pub profiles: Vec<Profile>,
    /// Metrics with too short a history that look changed.
    pub looks: Vec<Look>,
    pub remarks: Vec<String>,
    /// The newest report of the history used.
    pub compared_with: Option<ComparedWith>,
    /// Whether suspects are unconfirmed because the command ran again without a result for them.
    pub failed_again: bool,
}

/// Why a run has no result. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Gather(#[from] GatherError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Measure(#[from] DescriptionError),
    #[error(
        "the report would begin at {0}, and only times between the years 1678 and 2261 can be stored; \
         --backdate takes seconds since 1970"
    )]
    Time(OffsetDateTime),
}

/// Results and the time they took.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) iterations: Vec<Results>,
    pub(crate) start_time: OffsetDateTime,
    pub(crate) end_time: OffsetDateTime,
    pub(crate) environment: Environment,
    pub(crate) remarks: Vec<String>,
}

impl Finding {
    fn of(judged: Judged, remarks: Vec<String>) -> Self {
        let Judged { report, thresholds, notices, looks, compared_with } = judged;
        let (confirmations, profiles) = (Vec::new(), Vec::new());
        Self {
            report,
            confirmations,
            thresholds,
            notices,
            profiles,
            looks,
            remarks,
            compared_with,
            failed_again: false,
        }
    }
}

/// Measures, compares with the history in the store, and takes the requested profiles. Stores nothing.
pub fn run(
    request: &Request,
    store: Option<&Store>,
    profiling: Profiling<'_>,
    echo: &mut Echo<'_>,
) -> Result<Finding, RunError> {
    if let Some(time) = request.backdate.filter(|time| !YEARS.contains(&time.year())) {
        return Err(RunError::Time(time));
    }
    let mut request = request.clone();
    if let Some(store) = store {
        request.slugs = store.slugs(&request.project)?;
    }
    let folder = profiling.folder();
    let measured = measure(&request, folder.path(), echo)?;
    request.rules.follow(&measured.iterations);
    let request = &request;
    let Request { project, branch, testbed, hash, adapter, .. } = request.clone();
    let uuid = Uuid::now_v7();
    let mut report = Report {
        hash,
        end_time: measured.end_time,
        adapter,
        environment: measured.environment,
        iterations: measured.iterations,
        ..Report::new(uuid, project, branch, testbed, measured.start_time)
    };
    let mut remarks = request.remarks.clone();
    remarks.extend(measured.remarks);
    if let Some(store) = store.filter(|_| request.backdate.is_none()) {
        evaluate::place(&mut report, &request.directory, store, &mut remarks)?;
    }
    let directory = Some(request.directory.as_path());
    evaluate::settle(&mut report, &request.branching, directory, store, &mut remarks)?;
    let past = Background::read(&report, &request.rules, store)?;
    let judged = evaluate::evaluate(report, &request.rules, &past, &[]);
    let mut finding = Finding::of(judged, remarks);
    confirm::confirm(&mut finding, request, &past, echo);
    interleaved::settle(&mut finding, request, &past, echo);
    profiles::take(&mut finding, request, (profiling, &folder), echo);
    Ok(finding)
}

pub fn store(finding: &Finding, store: &mut Store) -> Result<(), StoreError> {
    store.insert(&finding.report)?;
    for report in &finding.confirmations {
        store.insert(report)?;
    }
    if !finding.profiles.is_empty() {
        store.insert_profiles(&finding.profiles)?;
        store.tidy_profiles(&finding.report.project, Retention::default())?;
    }
    Ok(())
}

/// `profiles` is the folder for the command's profiles.
fn measure(
    request: &Request,
    profiles: Option<&Path>,
    echo: &mut Echo<'_>,
) -> Result<Measured, RunError> {
    let before = host::Moment::now();
    let questions = host::Questions::ask(&request.directory);
    let began = OffsetDateTime::now_utc();
    let mut remarks = Vec::new();
    let mut gathered = collect_results::gather(request, profiles, echo, &mut remarks)?;
    remarks.extend(collect_results::outside_of_their_spread(&gathered));
    let took = OffsetDateTime::now_utc() - began;
    let start_time = request.backdate.unwrap_or(began);
    let end_time = start_time.checked_add(took).ok_or(RunError::Time(start_time))?;
    let mut slugs = request.slugs.clone();
    for results in &mut gathered {
        results.describe(&request.measures)?;
        results.tell_apart(&mut slugs);
    }
    let iterations = match request.fold {
        Some(fold) => vec![fold.fold(gathered)],
        None => gathered,
    };
    let environment = questions.environment(&before);
    Ok(Measured { iterations, start_time, end_time, environment, remarks })
}
