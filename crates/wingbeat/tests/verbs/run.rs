//! Complete runs of `wingbeat run` and `wingbeat mock` through the binary, in separate git repositories. Needs git and
//! no privileges, except where noted.

mod absorbed;
mod ci;
mod confirm;
mod exact;
mod failures;
mod gate;
mod github;
mod history_branch;
mod interleaved;
mod interrupt;
mod mock;
mod profiles;
mod recorded;
mod settings;
mod sources;
mod start_point;
mod store;
mod thresholds;
