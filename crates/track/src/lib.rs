//! Continuous benchmarking without a server: turns the output of benchmark tools into metrics, keeps their history, and
//! decides by it whether a change made something slower.
//!
//! The data flow:
//!
//! ```text
//! output → adapter → model → store → decision → alerts
//! ```
//!
//! - [`adapter`]: parses the output of one tool into [`model::Results`]. Pure.
//! - [`model`]: the domain's data types, most notably reports.
//! - [`store`]: reports in an embedded database, or in files that merge.
//! - [`verdict`]: computes a verdict per metric from a report and its history. Pure.
//! - [`evaluate`]: finds the history of a report in a store, and passes both to the decision.
//! - [`explain`]: compares the profiles before and after an alert, and names the functions that explain the change.
//! - [`plot`]: draws series. Pure.
//! - [`output`]: formats results as text for people and JSON for machines. Pure.
//! - [`github`], [`remote`]: report to GitHub Actions, and send to a Bencher server.
//! - [`bencher`]: Bencher's JSON, for these and for a server.
//!
//! [`import`] reads the histories of other tools. [`compare`] is separate: it runs two revisions alternately, without a
//! history.
//!
//! [`verdict`] implements `docs/judging-appendix.md`.

pub mod adapter;
pub mod bencher;
mod command;
pub mod compare;
pub mod config;
pub mod evaluate;
pub mod explain;
pub mod git;
pub mod github;
pub mod import;
pub mod mock;
pub mod model;
pub mod output;
pub mod plot;
pub mod remote;
pub mod run;
pub mod store;
pub mod verdict;
