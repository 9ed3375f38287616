//! Normalizes the two request formats, and fills in what the client leaves to the server.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    adapter::{Adapter, AdapterError},
    model::{Average, Results},
    run::Fold,
};

use crate::{
    ApiError,
    api::{
        names::check_hash,
        shapes::{
            JsonNewReport, JsonNewRun, JsonReportSettings, JsonReportThresholds, JsonRunStartPoint,
        },
    },
};

/// Languages of the client's former adapters. They mean: detect.
const LANGUAGES: [&str; 11] =
    ["c_sharp", "cpp", "dart", "go", "java", "js", "python", "ruby", "rust", "shell", "zig"];

/// The client's description of its environment.
#[derive(Debug, Clone, Default)]
pub(super) struct Context(BTreeMap<String, String>);

/// Results, and the request's statements about them.
#[derive(Debug, Clone)]
pub(super) struct Intake {
    pub(super) idempotency_key: Option<Uuid>,
    pub(super) branch: String,
    pub(super) hash: Option<String>,
    pub(super) start_point: JsonRunStartPoint,
    pub(super) testbed: String,
    pub(super) thresholds: JsonReportThresholds,
    pub(super) start_time: OffsetDateTime,
    pub(super) end_time: OffsetDateTime,
    pub(super) adapter: Adapter,
    outputs: Vec<String>,
    settings: JsonReportSettings,
}

impl Context {
    pub(super) fn of(context: Option<&BTreeMap<String, String>>) -> Self {
        Self(context.cloned().unwrap_or_default())
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.get(&format!("bencher.dev/v0/{key}"))?.trim();
        (!value.is_empty()).then_some(value)
    }
}

impl Intake {
    pub(super) fn of_run(new: JsonNewRun) -> Result<Self, ApiError> {
        if new.job.is_some() {
            return Err(ApiError::bad_request(
                "this server has no machines to run benchmarks on: run them where you are, without --image",
            ));
        }
        let context = Context::of(new.context.as_ref());
        let or_context = |given: Option<String>, key: &str| {
            given.or_else(|| context.get(key).map(str::to_owned))
        };
        let branch = or_context(new.branch, "branch/ref/name");
        let testbed = or_context(new.testbed, "testbed/os");
        Self::of_report(JsonNewReport {
            idempotency_key: new.idempotency_key,
            branch: branch.unwrap_or_else(|| "main".to_owned()),
            hash: or_context(new.hash, "branch/hash"),
            start_point: new.start_point,
            testbed: testbed.unwrap_or_else(|| "localhost".to_owned()),
            thresholds: new.thresholds,
            start_time: new.start_time,
            end_time: new.end_time,
            results: new.results,
            settings: new.settings,
        })
    }

    pub(super) fn of_report(new: JsonNewReport) -> Result<Self, ApiError> {
        if new.end_time < new.start_time {
            return Err(ApiError::bad_request(format!(
                "the report ends at {}, before it begins at {}",
                new.end_time, new.start_time
            )));
        }
        if new.results.is_empty() {
            return Err(ApiError::bad_request(
                "the report has no results: send at least one output",
            ));
        }
        check_hash(new.hash.as_deref())?;
        check_hash(new.start_point.as_ref().and_then(|start| start.hash.as_deref()))?;
        let settings = new.settings.unwrap_or_default();
        Ok(Self {
            idempotency_key: new.idempotency_key,
            branch: new.branch,
            hash: new.hash.filter(|hash| !hash.is_empty()),
            start_point: new.start_point.unwrap_or_default(),
            testbed: new.testbed,
            thresholds: new.thresholds.unwrap_or_default(),
            start_time: new.start_time,
            end_time: new.end_time,
            adapter: adapter(settings.adapter.as_deref())?,
            outputs: new.results,
            settings,
        })
    }

    /// Parsed outputs: one per iteration, or one in total if folded.
    pub(super) fn results(&self) -> Result<Vec<Results>, ApiError> {
        let average: Option<Average> = self.settings.average;
        let parse = |(number, output): (usize, &String)| {
            self.adapter.parse(output.as_bytes(), average).map_err(|error| refusal(number, &error))
        };
        let parsed = (1..).zip(&self.outputs).map(parse).collect::<Result<Vec<_>, _>>()?;
        let fold: Option<Fold> = self.settings.fold;
        Ok(match fold {
            Some(fold) => vec![fold.fold(parsed)],
            None => parsed,
        })
    }
}

fn adapter(name: Option<&str>) -> Result<Adapter, ApiError> {
    match name {
        None => Ok(Adapter::Magic),
        Some(language) if LANGUAGES.contains(&language) => Ok(Adapter::Magic),
        Some(name) => name.parse().map_err(|error: AdapterError| {
            ApiError::bad_request(format!("the results cannot be read: {error}"))
        }),
    }
}

fn refusal(number: usize, error: &AdapterError) -> ApiError {
    ApiError::bad_request(format!("the results of iteration {number} cannot be read: {error}"))
}
