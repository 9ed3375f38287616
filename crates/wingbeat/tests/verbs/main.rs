//! Unprivileged verbs, through the binary: from files and repositories to output and exit code; `serve` as a process.

mod changes;
mod compare;
mod diff;
mod docs;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod repository;
mod run;
mod serve;
mod track_views;
