//! What a reader has to know before believing figures.

use std::fmt;

use serde::Serialize;

/// What was found, what it does to the figures, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Name for machines, which stays the same from version to version.
    pub code: &'static str,
    pub cause: String,
    pub effect: String,
    pub next_step: String,
}

impl Warning {
    pub fn new(
        code: &'static str,
        cause: impl Into<String>,
        effect: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self { code, cause: cause.into(), effect: effect.into(), next_step: next_step.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, effect, next_step, .. } = self;
        write!(f, "{cause}: {effect}; {next_step}")
    }
}
