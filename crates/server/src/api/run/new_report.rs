//! Validates a request to store results, and fills in what the client leaves to the server.

use std::collections::BTreeMap;

use wingbeat_track::{
    adapter::{Adapter, AdapterError},
    model::Results,
};

use crate::{
    ApiError,
    api::{
        names::check_hash,
        shapes::{JsonNewReport, JsonNewRun, JsonReportSettings},
    },
};

/// Languages of the client's former adapters. They mean: detect.
const LANGUAGES: [&str; 11] =
    ["c_sharp", "cpp", "dart", "go", "java", "js", "python", "ruby", "rust", "shell", "zig"];

/// The client's description of its environment.
#[derive(Debug, Clone, Default)]
pub(super) struct Context(BTreeMap<String, String>);

impl Context {
    pub(super) fn of(context: Option<&BTreeMap<String, String>>) -> Self {
        Self(context.cloned().unwrap_or_default())
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.get(&format!("bencher.dev/v0/{key}"))?.trim();
        (!value.is_empty()).then_some(value)
    }
}

/// The report of a run. What the request does not state comes from the context.
pub(super) fn of_run(new: JsonNewRun) -> Result<JsonNewReport, ApiError> {
    if new.job.is_some() {
        return Err(ApiError::bad_request(
            "this server has no machines to run benchmarks on: run them where you are, without --image",
        ));
    }
    let context = Context::of(new.context.as_ref());
    let or_context =
        |given: Option<String>, key: &str| given.or_else(|| context.get(key).map(str::to_owned));
    let branch = or_context(new.branch, "branch/ref/name");
    let testbed = or_context(new.testbed, "testbed/os");
    Ok(JsonNewReport {
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

/// Rejects an invalid request. Returns the adapter of its results.
pub(super) fn check(new: &JsonNewReport) -> Result<Adapter, ApiError> {
    if new.end_time < new.start_time {
        return Err(ApiError::bad_request(format!(
            "the report ends at {}, before it begins at {}",
            new.end_time, new.start_time
        )));
    }
    if new.results.is_empty() {
        return Err(ApiError::bad_request("the report has no results: send at least one output"));
    }
    check_hash(new.hash.as_deref())?;
    check_hash(new.start_point.as_ref().and_then(|start| start.hash.as_deref()))?;
    adapter(new.settings.as_ref().and_then(|settings| settings.adapter.as_deref()))
}

/// Parsed outputs: one per iteration, or one in total if folded.
pub(super) fn results(new: &JsonNewReport, adapter: Adapter) -> Result<Vec<Results>, ApiError> {
    let JsonReportSettings { average, fold, .. } = new.settings.clone().unwrap_or_default();
    let parse = |(number, output): (usize, &String)| {
        adapter.parse(output.as_bytes(), average).map_err(|error| refusal(number, &error))
    };
    let parsed = (1..).zip(&new.results).map(parse).collect::<Result<Vec<_>, _>>()?;
    Ok(match fold {
        Some(fold) => vec![fold.fold(parsed)],
        None => parsed,
    })
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
