//! A team's server: stores benchmark results, judges them, and shows them.
//!
//! ```text
//! request → route → right → handler → registry, results
//!                                       ↑ one writer, many readers
//! ```
//!
//! - [`settings`]: the server's options.
//! - [`storage`]: the folder with two databases. `results.db` is a store of [`wingbeat_track`], as on a laptop;
//!   `server.db` is the [`registry`]. One thread writes both.
//! - [`registry`]: everything besides results: users, keys, entities with names that may change, thresholds, pinned
//!   plots.
//! - [`access`]: authentication, and the rights of routes.
//! - [`profiles`]: profiles pushed by agents: pprof files next to the databases.
//! - [`api`]: the API of the `bencher` client.
//! - [`console`]: HTML pages.
//! - [`service`]: listens, and shuts down gracefully; logs and counts requests ([`metrics`]).
//!
//! Each route declares the right it requires; no handler runs before the check.

pub mod access;
pub mod api;
mod app;
pub mod console;
mod error;
pub mod metrics;
mod names;
pub mod profiles;
pub mod registry;
pub mod series;
pub mod service;
pub mod settings;
pub mod storage;
mod stream;

pub use app::App;
pub use error::ApiError;
pub use service::router;
