//! The event that triggered a workflow: its pull request and commit, and whether it comes from a fork.

use std::{fs, path::Path};

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Event {
    pub(super) number: Option<u64>,
    pub(super) is_fork: bool,
    /// The event's commit, if it is not the one checked out: for a pull request GitHub checks out its merge with the
    /// base branch.
    pub(super) commit: Option<String>,
}

/// Reads the file of an event. Without a file, the event is empty.
pub(super) fn read(path: Option<&Path>) -> Result<Event, String> {
    let Some(path) = path else { return Ok(Event::default()) };
    let failed = |error: &dyn std::fmt::Display| {
        format!("the event {} could not be read: {error}", path.display())
    };
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    Ok(parse(&json))
}

fn parse(json: &Value) -> Event {
    let pull_request = &json["pull_request"];
    let repository = |side: &str| pull_request[side]["repo"]["full_name"].as_str();
    Event {
        number: pull_request["number"].as_u64(),
        // A deleted fork has no repository.
        is_fork: !pull_request.is_null() && repository("head") != repository("base"),
        commit: [&pull_request["head"]["sha"], &json["workflow_run"]["head_sha"]]
            .into_iter()
            .find_map(|sha| sha.as_str().map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events() {
        let check = |json: Value, number, is_fork, commit: Option<&str>| {
            let commit = commit.map(str::to_owned);
            assert_eq!(parse(&json), Event { number, is_fork, commit }, "{json}");
        };
        let pull = |head: Value| {
            json!({ "pull_request": {
                "number": 7,
                "head": { "repo": head, "sha": "abc" },
                "base": { "repo": { "full_name": "o/r" } },
            }})
        };
        check(pull(json!({ "full_name": "o/r" })), Some(7), false, Some("abc"));
        check(pull(json!({ "full_name": "x/r" })), Some(7), true, Some("abc"));
        check(pull(Value::Null), Some(7), true, Some("abc"));
        check(json!({ "ref": "refs/heads/main" }), None, false, None);
        check(json!({ "workflow_run": { "head_sha": "def" } }), None, false, Some("def"));
        check(json!([]), None, false, None);
    }

    #[test]
    fn files() {
        assert_eq!(read(None), Ok(Event::default()));
        let error = read(Some(Path::new("/no/such/event.json"))).expect_err("no file");
        assert!(error.contains("/no/such/event.json"), "{error}");
    }
}
