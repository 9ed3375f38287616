//! Operations that other servers do by mail and this one does not support: answers with a pointer to the alternative.

use axum::extract::State;

use crate::{ApiError, App};

/// Answers `bencher auth …`.
pub(super) async fn auth(State(app): State<App>) -> ApiError {
    ApiError::forbidden(format!(
        "nobody signs up or in by the command line here: an admin invites users at {0}/console/users, and \
         users make keys at {0}/console/account; then pass `--key KEY`",
        app.settings.public_url
    ))
}

/// Answers `bencher token create`, like Bencher's servers since 0.6.7.
pub(super) async fn tokens(State(app): State<App>) -> ApiError {
    ApiError::forbidden(format!(
        "tokens are not made by themselves: each new key is shown as a token too, for clients before 0.6.5; \
         make one at {}/console/account",
        app.settings.public_url
    ))
}
