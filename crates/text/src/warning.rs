//! A warning about figures, as text and as JSON.

use std::fmt;

use serde::Serialize;

/// The cause, its effect on the figures, and what to do next. In JSON every warning of wingbeat has these four fields,
/// of which some may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Machine-readable name, stable across versions.
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
        f.write_str(&sentence(&self.cause, &self.effect, &self.next_step))
    }
}

/// `cause: effect; next step`, without the empty ones.
#[must_use]
pub fn sentence(cause: &str, effect: &str, next_step: &str) -> String {
    let mut text = cause.to_owned();
    for (separator, part) in [(": ", effect), ("; ", next_step)] {
        if !part.is_empty() {
            text.push_str(separator);
            text.push_str(part);
        }
    }
    text
}
