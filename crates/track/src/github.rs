//! What a run tells GitHub Actions: a job summary, annotations, and one comment on the pull request.
//!
//! Nothing here can fail a run. A token that may not write, as that of a pull request from a fork, costs
//! the comment and a warning, for the change is judged all the same.

mod annotations;
mod comment;
mod event;

use std::{fs::OpenOptions, io::Write as _, path::PathBuf, time::Duration};

use crate::{
    model::{Alert, Status},
    output::{self, Page},
    remote::{Key, Patience},
};

pub use annotations::annotations;

/// GitHub's own API, where the environment names no other.
const API_URL: &str = "https://api.github.com";

/// A comment is worth some waiting, and not much.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(5),
    attempts: 4,
    pause: Duration::from_secs(1),
    pause_max: Duration::from_secs(8),
    total: Duration::from_secs(30),
};

/// Where a job of GitHub Actions runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actions {
    /// Root of the API: `https://api.github.com`.
    pub api_url: String,
    /// `owner/name` of the repository.
    pub repository: Option<String>,
    /// File that describes the event, as JSON.
    pub event_path: Option<PathBuf>,
    /// File to which the job summary is appended.
    pub summary_path: Option<PathBuf>,
    /// How long to go on trying, for each request.
    pub patience: Patience,
}

/// What the user wants of it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Token that may write comments (`--github-actions`). Without it there is no comment.
    pub token: Option<String>,
    /// No comment unless a threshold judges a metric of the report (`--ci-only-thresholds`).
    pub only_thresholds: bool,
    /// A comment is made only when there is an alert; one that exists is updated all the same
    /// (`--ci-only-on-alert`).
    pub only_on_alert: bool,
    /// Name that stands for branch, testbed and adapter where comments are told apart (`--ci-id`).
    pub id: Option<String>,
    /// Number of the pull request (`--ci-number`); else that of the event.
    pub number: Option<u64>,
    /// Whether alerts fail the run (`--err`): they are errors then, else warnings.
    pub is_strict: bool,
}

/// What was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Lines with annotations, to be printed on stdout, or on stderr if stdout is data: GitHub reads both.
    pub annotations: String,
    /// Address of the comment, if one was made or updated.
    pub comment: Option<String>,
    /// What did not work, in sentences.
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
            event_path: set("GITHUB_EVENT_PATH").map(PathBuf::from),
            summary_path: set("GITHUB_STEP_SUMMARY").map(PathBuf::from),
            patience: PATIENCE,
        })
    }

    /// Appends the job summary, writes or updates the comment, and gives the annotations.
    #[must_use]
    pub fn tell(&self, page: &Page<'_>, options: &Options) -> Told {
        let markdown = output::markdown(page, options.id.as_deref());
        let mut told =
            Told { annotations: annotations(page, options.is_strict), ..Told::default() };
        told.warnings.extend(self.summarize(&markdown).err());
        match self.comment(page, options, &markdown) {
            Ok(comment) => told.comment = comment,
            Err(warning) => told.warnings.push(warning),
        }
        told
    }

    /// Other steps and other runs of wingbeat may have written there, so it is appended.
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

    /// The address of the comment; nothing where none is wanted or there is no pull request.
    fn comment(
        &self,
        page: &Page<'_>,
        options: &Options,
        markdown: &str,
    ) -> Result<Option<String>, String> {
        let Some(token) = &options.token else { return Ok(None) };
        if options.only_thresholds && page.thresholds.iter().all(Option::is_none) {
            return Ok(None);
        }
        let event = event::read(self.event_path.as_deref());
        let Some(number) = options.number.or_else(|| event.as_ref().ok()?.number) else {
            // A push has no pull request; an event that cannot be read may have had one.
            return event.map(|_| None);
        };
        let is_fork = event.is_ok_and(|event| event.is_fork);
        let refuse = |reason: String| {
            let fork = match is_fork {
                true => {
                    "; the pull request comes from a fork, whose jobs may not write: docs/ci.md tells \
                     how a second workflow can"
                }
                false => "",
            };
            format!("no comment on pull request {number}: {reason}{fork}")
        };
        let key = Key::new(token).map_err(|_| refuse("the token is empty".to_owned()))?;
        let Some(repository) = &self.repository else {
            return Err(refuse("GITHUB_REPOSITORY is not set".to_owned()));
        };
        let is_active = |alert: &Alert| alert.status == Status::Active;
        let place = comment::Place {
            root: format!("{}/repos/{repository}/issues", self.api_url.trim_end_matches('/')),
            number,
            marker: output::marker(page.report, options.id.as_deref()),
            key: &key,
            patience: self.patience,
        };
        let may_create = !options.only_on_alert || page.report.alerts.iter().any(is_active);
        place.put(markdown, may_create).map_err(refuse)
    }
}
