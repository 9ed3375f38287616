//! Windows on their way to a backend that behaves badly, and in a ring.

mod backend;
mod protocols;
mod push;
mod readers;
mod restart;
mod ring;
mod windows;
