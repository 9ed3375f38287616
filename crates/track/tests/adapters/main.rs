//! The adapters on what the tools print.

mod expected;
mod other;
mod rust;
