//! The loader, with packets from a real interface, and the programs alone in the real kernel.

mod arguments;
#[path = "../../testbed/counters.rs"]
mod counters;
mod counting;
#[path = "../../testbed/network.rs"]
mod network;
mod packets;
#[path = "../../../../testbed/program.rs"]
mod program;
mod programs;
mod run;
