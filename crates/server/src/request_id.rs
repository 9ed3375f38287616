//! Request IDs: in responses, errors, and the log.

use std::future::Future;

use uuid::Uuid;

tokio::task_local! {
    static CURRENT: Uuid;
}

/// Runs a request handler in the scope of its ID.
pub(crate) async fn within<T>(id: Uuid, work: impl Future<Output = T>) -> T {
    CURRENT.scope(id, work).await
}

/// ID of the current request.
pub(crate) fn current() -> Uuid {
    CURRENT.try_with(|id| *id).unwrap_or_else(|_| Uuid::now_v7())
}
