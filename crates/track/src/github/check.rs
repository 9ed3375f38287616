//! A check run: the verdict beside the commit, where a branch rule can demand it.

use serde_json::json;
use ureq::http::Method;

use super::{
    Message,
    api::{Api, Refusal},
};

/// Characters of a title; GitHub shows one line.
const TITLE_MAX: usize = 200;

/// Makes a check run about the commit, which is complete at once. Gives its address.
pub(super) fn make(
    api: &Api<'_>,
    message: &Message,
    id: Option<&str>,
    commit: &str,
    is_strict: bool,
) -> Result<String, Refusal> {
    // The name does not tell the branch: a rule about checks names it once for all pull requests.
    let name = match id {
        Some(id) => format!("wingbeat: {id}"),
        None => format!("wingbeat: {} on {}", message.project, message.testbed),
    };
    let body = json!({
        "name": name,
        "head_sha": commit,
        "status": "completed",
        "conclusion": conclusion(message, is_strict),
        "output": {
            "title": message.verdict.chars().take(TITLE_MAX).collect::<String>(),
            "summary": message.markdown,
        },
    });
    let response = api.call(Method::POST, "check-runs", Some(&body), "checks: write")?;
    Ok(response["html_url"].as_str().unwrap_or_default().to_owned())
}

/// As the exit code has it: nothing is a failure without `--err`.
fn conclusion(message: &Message, is_strict: bool) -> &'static str {
    match (message.alerts > 0 || message.failures > 0, is_strict) {
        (true, true) => "failure",
        (true, false) => "neutral",
        (false, _) => "success",
    }
}
