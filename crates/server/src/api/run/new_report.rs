//! Validates a request to store results, and fills in what the client leaves to the server.

use std::{collections::BTreeMap, ops::Deref};

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

/// A valid request.
pub(super) struct NewReport {
    request: JsonNewReport,
    pub(super) adapter: Adapter,
}

impl Deref for NewReport {
    type Target = JsonNewReport;

    fn deref(&self) -> &JsonNewReport {
        &self.request
    }
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

impl NewReport {
    pub(super) fn of(mut request: JsonNewReport) -> Result<Self, ApiError> {
        if request.end_time < request.start_time {
            return Err(ApiError::bad_request(format!(
                "the report ends at {}, before it begins at {}",
                request.end_time, request.start_time
            )));
        }
        if request.results.is_empty() {
            return Err(ApiError::bad_request(
                "the report has no results: send at least one output",
            ));
        }
        check_hash(request.hash.as_deref())?;
        check_hash(request.start_point.as_ref().and_then(|start| start.hash.as_deref()))?;
        request.hash = request.hash.filter(|hash| !hash.is_empty());
        let settings = request.settings.as_ref();
        let adapter = adapter(settings.and_then(|settings| settings.adapter.as_deref()))?;
        Ok(Self { request, adapter })
    }

    /// Parsed outputs: one per iteration, or one in total if folded.
    pub(super) fn results(&self) -> Result<Vec<Results>, ApiError> {
        let JsonReportSettings { average, fold, .. } = self.settings.clone().unwrap_or_default();
        let parse = |(number, output): (usize, &String)| {
            self.adapter.parse(output.as_bytes(), average).map_err(|error| refusal(number, &error))
        };
        let outputs = &self.request.results;
        let parsed = (1..).zip(outputs).map(parse).collect::<Result<Vec<_>, _>>()?;
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
