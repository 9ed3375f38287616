//! One `wingbeat run` from beginning to end: the only part of this crate that starts programs.
//!
//! `command` runs and echoes, `gather` makes results of what was printed, `fold` makes one iteration of
//! several, [`judge`] finds its history and decides, `confirm` measures again what looks bad, `in_turns` what
//! looks worse than a history that is too short. `profiles` takes the exact profiles that the command
//! [left](left_profiles), or runs all of it once more under a [`Sampler`]. [`git`](crate::git) and [`host`] tell where
//! all of this happens, and an [`Interrupt`] ends it.

mod confirm;
mod criterion;
mod filter;
mod fold;
mod gather;
mod gungraun;
pub mod host;
mod in_turns;
pub mod left_profiles;
mod profiles;

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    adapter::Adapter,
    decide::Look,
    judge::{self, Background, Judged},
    model::{
        Average, BranchName, Description, DescriptionError, Environment, MeasureName, Notice,
        Profile, ProjectName, Report, Results, Slugs, TestbedName, ThresholdModel,
    },
    store::{Retention, Store, StoreError},
};
pub use crate::{
    command::{Benchmark, CommandError, Echo},
    interrupt::Interrupt,
    judge::{Branching, ComparedWith, Rules},
};
pub use fold::Fold;
pub use gather::{GatherError, Source};
pub use profiles::{Profiling, Sampled, Sampler};

/// Years that a store has times for, in nanoseconds since 1970.
pub(crate) const YEARS: RangeInclusive<i32> = 1678..=2261;

/// What to run, and what to do with its results.
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
    /// How often the command is run, at least 1.
    pub iterations: u32,
    pub fold: Option<Fold>,
    /// Whether a command that fails is passed over, or keeps what it printed if it always fails.
    pub allow_failure: bool,
    pub backdate: Option<OffsetDateTime>,
    pub rules: Rules,
    /// What the user says of measures.
    pub measures: Vec<(MeasureName, Description)>,
    /// Slugs of the measures that the store knows.
    pub slugs: Slugs,
    /// How often suspects are measured again, if the user says so. With 0, nothing is measured in turns
    /// with the nearest commit either.
    pub confirm: Option<u32>,
    /// Whether an alert fails the job: then noisy suspects are measured again once, unless the user says how often.
    pub is_gate: bool,
    /// Folder in which git is asked.
    pub directory: PathBuf,
    /// What the user should know of how the request came about. It becomes a part of the remarks.
    pub remarks: Vec<String>,
    pub interrupt: Interrupt,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub report: Report,
    /// Reports of the runs that were to confirm its alerts.
    pub confirmations: Vec<Report>,
    pub thresholds: Vec<Option<ThresholdModel>>,
    pub notices: Vec<Notice>,
    /// Of the benchmarks of the report, if they were asked for.
    pub profiles: Vec<Profile>,
    /// Verdicts that history is too short for, and that look changed.
    pub looks: Vec<Look>,
    pub remarks: Vec<String>,
    /// The newest report of the history that it was compared with.
    pub compared_with: Option<ComparedWith>,
    /// Whether suspects stayed what they are because the command ran again without a result of them.
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

/// Results with the time that they took.
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

/// Measures, compares with the history in the store, and takes the profiles that are wanted. Nothing is stored.
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
        judge::place(&mut report, &request.directory, store, &mut remarks)?;
    }
    let directory = Some(request.directory.as_path());
    judge::settle(&mut report, &request.branching, directory, store, &mut remarks)?;
    let past = Background::read(&report, store)?;
    let judged = judge::judge(report, &request.rules, &past, &[]);
    let mut finding = Finding::of(judged, remarks);
    confirm::confirm(&mut finding, request, &past, echo);
    in_turns::settle(&mut finding, request, &past, echo);
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

/// `profiles` is where the command may leave some.
fn measure(
    request: &Request,
    profiles: Option<&Path>,
    echo: &mut Echo<'_>,
) -> Result<Measured, RunError> {
    let before = host::Moment::now();
    let questions = host::Questions::ask(&request.directory);
    let began = OffsetDateTime::now_utc();
    let mut remarks = Vec::new();
    let mut gathered = gather::gather(request, profiles, echo, &mut remarks)?;
    remarks.extend(gather::outside_of_their_spread(&gathered));
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
