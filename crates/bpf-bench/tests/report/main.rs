//! Results as text: each format against a golden file, and properties of any result.

mod formats;
#[path = "../common/golden.rs"]
mod golden;
mod human;
mod properties;
mod sample;
mod veristat;
