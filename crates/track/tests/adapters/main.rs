//! The adapters on what the tools print.

mod other;
mod rust;
