//! What leaves the machine: reports for a Bencher server, and what GitHub is told. Against servers on
//! loopback that follow the facts.

mod github;
mod names;
mod sample;
mod send;
mod stub;
