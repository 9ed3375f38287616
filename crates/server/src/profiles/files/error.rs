//! Why files cannot be read or written.

use std::{fmt, io};

use object_store::{
    Error,
    client::{HttpError, HttpErrorKind},
};

/// Why files cannot be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing} in {place} failed: {reason}")]
pub struct FilesError {
    place: String,
    doing: &'static str,
    reason: String,
    pub(in crate::profiles) is_missing: bool,
    /// Whether the store cannot be reached, rather than refusing.
    pub(super) is_down: bool,
}

impl FilesError {
    pub(super) fn of(place: &dyn fmt::Display, doing: &'static str, error: &dyn Reason) -> Self {
        let (reason, is_missing, is_down) = (error.reason(), error.is_missing(), error.is_down());
        Self { place: place.to_string(), doing, reason, is_missing, is_down }
    }
}

/// Causes of a [`FilesError`].
pub(super) trait Reason {
    fn reason(&self) -> String;

    fn is_missing(&self) -> bool {
        false
    }

    fn is_down(&self) -> bool {
        false
    }
}

impl Reason for &str {
    fn reason(&self) -> String {
        (*self).to_owned()
    }
}

impl Reason for io::Error {
    fn reason(&self) -> String {
        self.to_string()
    }
}

impl Reason for Error {
    fn reason(&self) -> String {
        let text = self.to_string();
        let mut lines = text.lines();
        wingbeat_text::shortened(lines.next().unwrap_or_default(), 300)
    }

    fn is_missing(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    fn is_down(&self) -> bool {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<HttpError>() {
                return matches!(error.kind(), HttpErrorKind::Connect | HttpErrorKind::Timeout);
            }
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return error.kind() == io::ErrorKind::TimedOut;
            }
            next = error.source();
        }
        false
    }
}

pub(super) fn late() -> Error {
    let source = io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time");
    Error::Generic { store: "store", source: Box::new(source) }
}
