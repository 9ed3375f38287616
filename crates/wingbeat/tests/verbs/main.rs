//! Unprivileged verbs, through the binary: from files and repositories to output and exit code; `serve` as a process.

mod changes;
mod compare;
mod diff;
mod docs;
#[path = "../common/ran.rs"]
mod ran;
mod repository;
/// Complete runs of `wingbeat run` and `wingbeat mock`, in separate git repositories. Needs git and no privileges,
/// except where noted.
mod run {
    mod exact;
    mod gate;
    mod github;
    mod interleaved;
    mod profiles;
    mod recorded;
    mod sources;
    mod start_point;
    mod store;
    mod thresholds;
}
/// `wingbeat serve` as a process: starts, stops, kills, backups, and disk errors.
mod serve {
    mod fleet;
    mod postgres;
    mod runs;
    mod start;
    mod support;
    mod survives;
}
mod track_views;
