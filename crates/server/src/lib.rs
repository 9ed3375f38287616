//! A team's server: stores benchmark results, judges them, and shows them.
//!
//! ```text
//! request → route → right → handler → database
//!                                       ↑ one writer, many readers
//! ```
//!
//! - [`settings`]: the server's options.
//! - [`storage`]: where the database is, one thread that writes it, and others that read.
//! - [`database`]: a store of [`wingbeat_track`], as on a laptop, and what a server adds: users, keys, entities with names
//!   that may change, thresholds, pinned plots.
//! - [`access`]: authentication, and the rights of routes.
//! - [`profiles`]: profiles pushed by agents: pprof files next to the database.
//! - [`api`]: the API of the `bencher` client.
//! - [`console`]: HTML pages.
//! - [`service`]: listens, and shuts down gracefully; logs and counts requests ([`metrics`]).
//!
//! Each route declares the right it requires; no handler runs before the check.

pub mod access;
pub mod api;
mod app;
pub mod console;
pub mod database;
mod error;
pub mod metrics;
mod names;
pub mod profiles;
pub mod series;
pub mod service;
pub mod settings;
pub mod storage;
mod stream;

pub use app::App;
pub use error::ApiError;
pub use service::router;
