//! The number of a request: in its answer, in its error, and in the log.

use std::future::Future;

use uuid::Uuid;

tokio::task_local! {
    static CURRENT: Uuid;
}

/// Runs what answers a request under its number.
pub(crate) async fn within<T>(id: Uuid, work: impl Future<Output = T>) -> T {
    CURRENT.scope(id, work).await
}

/// The number of the request that is being answered.
pub(crate) fn current() -> Uuid {
    CURRENT.try_with(|id| *id).unwrap_or_else(|_| Uuid::now_v7())
}
