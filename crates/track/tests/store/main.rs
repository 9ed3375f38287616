//! The store through its public interface: what goes in comes out, whatever happens in between.

mod alerts;
mod copy;
mod engines;
mod exchange;
mod explain;
mod flips;
mod growth;
mod history;
mod import;
mod log;
mod mounts;
mod names;
mod opening;
mod processes;
mod profiles;
mod properties;
mod rename;
mod round_trip;
mod support;
mod withdrawals;
