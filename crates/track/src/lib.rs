//! Continuous benchmarking without a server: what a benchmark tool prints becomes metrics, metrics
//! become a history, and the history decides whether a change made something slower.
//!
//! A result travels one way:
//!
//! ```text
//! output → adapter → model → store → decision → alerts
//! ```
//!
//! - [`adapter`]: bytes of one tool in, [`model::Results`] out. Pure.
//! - [`model`]: the words of the field as types; what a report is.
//! - [`store`]: reports in an embedded database, or in files that merge.
//! - [`decide`]: a report and its history in, a verdict for each metric out. Pure.
//! - [`judge`]: finds the history of a report in a store, and puts both before the decision.
//! - [`explain`]: the profiles behind an alert, before and after, and the functions that explain the change.
//! - [`plot`]: series as pictures. Pure.
//! - [`output`]: what was found, as text for people and JSON for machines. Pure.
//! - [`github`], [`remote`]: the same told to GitHub Actions, and sent to a Bencher server.
//!
//! [`import`] reads what other tools kept. Beside that way stands [`compare`]: two revisions, run by turns here and now, without a history.
//!
//! `docs/judging-appendix.md` is the rule that [`decide`] follows.

pub mod adapter;
mod command;
pub mod compare;
pub mod config;
pub mod decide;
pub mod explain;
pub mod git;
pub mod github;
pub mod import;
mod interrupt;
pub mod judge;
pub mod mock;
pub mod model;
pub mod output;
pub mod plot;
pub mod remote;
pub mod run;
pub mod store;
