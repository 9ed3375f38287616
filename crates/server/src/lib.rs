//! A team's server: keeps the results of benchmarks, judges them, and shows them.
//!
//! ```text
//! request → route → right → handler → registry, results
//!                                       ↑ one writer, many readers
//! ```
//!
//! - [`settings`]: what the server is told at its start.
//! - [`storage`]: the folder with two databases. `results.db` is a store of [`wingbeat_track`], as it is on a
//!   laptop; `server.db` is the [`registry`]. One thread writes both.
//! - [`registry`]: what the server knows besides results: users, keys, things with names that may change, kept
//!   thresholds, pinned plots.
//! - [`access`]: who asks, and what a route demands.
//! - [`profiles`]: what agents push: files of pprof beside the databases.
//! - [`api`]: the API that the `bencher` client uses.
//! - [`console`]: pages for people.
//! - [`service`]: listens, and stops in order; logs and counts requests ([`metrics`]).
//!
//! Each route says what right it needs; no handler runs before that is checked.

pub mod access;
pub mod api;
mod app;
pub mod console;
mod error;
pub mod metrics;
mod names;
pub mod profiles;
pub mod registry;
mod request_id;
pub mod series;
pub mod service;
pub mod settings;
pub mod storage;
mod stream;

pub use app::App;
pub use error::ApiError;
pub use service::router;
