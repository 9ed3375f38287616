//! The library through its public interface: from the output of a tool to a decision, its plots and its messages.

mod adapters;
mod output;
mod plot;
mod remote;
mod store;
mod verdict;
