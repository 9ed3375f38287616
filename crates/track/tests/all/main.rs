//! The library through its public interface: from the output of a tool to a decision, its plots and its messages.

mod adapters;
mod detect;
mod output;
mod plot;
mod remote;
mod store;
