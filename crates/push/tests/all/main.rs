//! Windows pushed to misbehaving backends, and stored in a ring.

mod backend;
mod protocols;
mod push;
mod readers;
mod restart;
mod ring;
mod windows;
