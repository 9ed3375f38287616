//! What a request presents to say who asks.

use axum::http::{HeaderMap, header};

use super::Caller;
use crate::{ApiError, registry::Registry};

/// What a request presents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Presented {
    Nothing,
    /// A key or a token, of `Authorization: Bearer`.
    Bearer(String),
}

/// What the headers of a request present.
pub(super) fn presented(headers: &HeaderMap) -> Result<Presented, ApiError> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(Presented::Nothing) };
    let text = value.to_str().unwrap_or_default();
    match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") && !key.trim().is_empty() => {
            Ok(Presented::Bearer(key.trim().to_owned()))
        }
        _ => Err(ApiError::unauthorized(
            "the header Authorization is not understood: it has to be `Bearer KEY`",
        )),
    }
}

impl Presented {
    /// Who that is. An error if it is a key that is unknown, revoked or expired.
    pub(super) fn resolve(self, _registry: &Registry) -> Result<Caller, ApiError> {
        match self {
            Self::Nothing => Ok(Caller::Anonymous),
            Self::Bearer(_) => {
                Err(ApiError::unauthorized("there is no such key, or it was revoked"))
            }
        }
    }
}
