//! Whole runs of `wingbeat run` and `wingbeat mock` through the binary, in git repositories of their own.
//! Needs git and no rights, except where a test says so.

mod absorbed;
mod ci;
mod confirm;
mod exact;
mod failures;
mod gate;
mod github;
mod history_branch;
mod in_turns;
mod interrupt;
mod mock;
mod profiles;
mod recorded;
mod settings;
mod sources;
mod start_point;
mod store;
mod thresholds;
