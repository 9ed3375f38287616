//! The loader as its users run it with packets that come through a real interface, and the programs
//! by themselves in the real kernel.

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
