//! Complete runs of `wingbeat run` and `wingbeat mock` through the binary, in separate git repositories. Needs git and
//! no privileges, except where noted.

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
