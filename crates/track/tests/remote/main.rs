//! Network output: reports for a Bencher server, and messages for GitHub, tested against stub servers on loopback that
//! behave like the real ones.

mod github;
mod names;
mod sample;
mod send;
mod stub;
