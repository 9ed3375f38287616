//! Windows pushed to misbehaving backends, and stored in an archive.

mod backend;
mod protocols;
mod push;
mod readers;
mod restart;
mod window_archive;
mod windows;
