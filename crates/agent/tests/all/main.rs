//! Windows pushed to misbehaving backends, and stored in an archive.

mod backend;
mod push;
mod readers;
mod restart;
mod window_archive;
