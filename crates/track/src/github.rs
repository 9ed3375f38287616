//! Reports a run to GitHub Actions: a job summary, annotations, one comment on the pull request, a check run.
//!
//! Nothing here fails a run. With a token that lacks write permission, as in pull requests from forks, there is a
//! warning in place of the comment, and the change is still judged.

mod api;
mod message;

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

pub use message::{Message, annotations};
use serde_json::Value;

use self::api::{Api, Refusal};
use crate::remote::{Key, Patience};

/// The default API of GitHub.
const API_URL: &str = "https://api.github.com";

/// A comment is worth only a short wait.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(5),
    attempts: 4,
    pause: Duration::from_secs(1),
    pause_max: Duration::from_secs(8),
    total: Duration::from_secs(30),
};

/// The environment of a GitHub Actions job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actions {
    /// Root of the API: `https://api.github.com`.
    pub api_url: String,
    /// `owner/name` of the repository.
    pub repository: Option<String>,
    pub commit: Option<String>,
    pub event_path: Option<PathBuf>,
    pub summary_path: Option<PathBuf>,
    pub patience: Patience,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Token with permission to write comments and check runs (`--github-actions`). `None` disables both.
    pub token: Option<String>,
    /// Comments only if a threshold applies to a metric of the report (`--ci-only-thresholds`).
    pub only_thresholds: bool,
    /// Without an alert, only updates an existing comment (`--ci-only-on-alert`).
    pub only_on_alert: bool,
    /// Name of the check run (`--ci-id`), and of the [`Message`].
    pub id: Option<String>,
    /// Number of the pull request (`--ci-number`). Defaults to the event's.
    pub number: Option<u64>,
    /// Whether alerts fail the run (`--err`): they are errors then, otherwise warnings.
    pub is_strict: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Annotation lines, to be printed on stdout, or on stderr if stdout is data: GitHub reads both.
    pub annotations: String,
    pub comment: Option<String>,
    pub check: Option<String>,
    /// What was omitted for lack of permissions, in sentences.
    pub notes: Vec<String>,
    pub warnings: Vec<String>,
}

impl Actions {
    /// From the environment; `None` outside of GitHub Actions.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        set("GITHUB_ACTIONS").filter(|value| value == "true")?;
        Some(Self {
            api_url: set("GITHUB_API_URL").unwrap_or_else(|| API_URL.to_owned()),
            repository: set("GITHUB_REPOSITORY"),
            commit: set("GITHUB_SHA"),
            event_path: set("GITHUB_EVENT_PATH").map(PathBuf::from),
            summary_path: set("GITHUB_STEP_SUMMARY").map(PathBuf::from),
            patience: PATIENCE,
        })
    }

    /// Appends the job summary, writes or updates the comment, creates the check run, and returns the annotations.
    pub fn tell(&self, message: &Message, options: &Options) -> Told {
        let mut told =
            Told { annotations: annotations(message, options.is_strict), ..Told::default() };
        told.warnings.extend(self.summarize(&message.markdown).err());
        let Some(token) = &options.token else { return told };
        let (root, key) = match self.api(token) {
            Ok(api) => api,
            Err(reason) => {
                told.warnings.push(format!("no comment and no check run: {reason}"));
                return told;
            }
        };
        let api = Api { root, key: &key, patience: self.patience };
        let event = read_event(self.event_path.as_deref()).unwrap_or_else(|warning| {
            told.warnings.push(warning);
            Event::default()
        });
        match comment(&api, message, options, &event) {
            Ok(comment) => told.comment = comment,
            Err(warning) => told.warnings.push(warning),
        }
        // The merge commit that GitHub checks out for a pull request is visible to nobody.
        let Some(commit) = event.commit.or_else(|| self.commit.clone()) else { return told };
        match api.check(message, options.id.as_deref(), &commit, options.is_strict) {
            Ok(check) => told.check = Some(check),
            // The permission is the user's switch for check runs.
            Err(Refusal { is_forbidden: true, .. }) => {
                told.notes.push("no check run: the token has no `checks: write`".to_owned());
            }
            Err(Refusal { reason, .. }) => told.warnings.push(format!("no check run: {reason}")),
        }
        told
    }

    /// Appends, because other steps and other runs of wingbeat may have written there.
    fn summarize(&self, markdown: &str) -> Result<(), String> {
        let Some(path) = &self.summary_path else { return Ok(()) };
        let append = || {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            file.write_all(format!("{markdown}\n").as_bytes())
        };
        append().map_err(|error: std::io::Error| {
            format!("the job summary {} could not be written: {error}", path.display())
        })
    }

    /// Root of the repository's API, and its key.
    fn api(&self, token: &str) -> Result<(String, Key), &'static str> {
        let key = Key::new(token).map_err(|_| "the token is empty")?;
        let repository = self.repository.as_ref().ok_or("GITHUB_REPOSITORY is not set")?;
        Ok((format!("{}/repos/{repository}", self.api_url.trim_end_matches('/')), key))
    }
}

/// Returns the address of the comment. `None` if no comment is wanted or there is no pull request.
fn comment(
    api: &Api<'_>,
    message: &Message,
    options: &Options,
    event: &Event,
) -> Result<Option<String>, String> {
    let Some(number) = options.number.or(event.number) else { return Ok(None) };
    if options.only_thresholds && !message.has_threshold {
        return Ok(None);
    }
    let may_create = !options.only_on_alert || message.alerts > 0;
    api.comment(number, message, may_create).map_err(|refusal| {
        let fork = match event.is_fork {
            true => {
                "; the pull request comes from a fork, whose jobs may not write: docs/ci.md shows how a \
                 second workflow can"
            }
            false => "",
        };
        format!("no comment on pull request {number}: {}{fork}", refusal.reason)
    })
}

/// The event that triggered a workflow: its pull request and commit, and whether it comes from a fork.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Event {
    number: Option<u64>,
    is_fork: bool,
    /// The event's commit, if it is not the one checked out: for a pull request GitHub checks out its merge with the
    /// base branch.
    commit: Option<String>,
}

/// Reads the file of an event. Without a file, the event is empty.
fn read_event(path: Option<&Path>) -> Result<Event, String> {
    let Some(path) = path else { return Ok(Event::default()) };
    let failed = |error: &dyn std::fmt::Display| {
        format!("the event {} could not be read: {error}", path.display())
    };
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    Ok(parse_event(&json))
}

fn parse_event(json: &Value) -> Event {
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
            assert_eq!(parse_event(&json), Event { number, is_fork, commit }, "{json}");
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
        assert_eq!(read_event(None), Ok(Event::default()));
        let error = read_event(Some(Path::new("/no/such/event.json"))).expect_err("no file");
        assert!(error.contains("/no/such/event.json"), "{error}");
    }
}
