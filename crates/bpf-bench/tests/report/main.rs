//! Results as text: each format against a golden file, and properties of any result.

mod comparison;
mod documented;
mod formats;
#[path = "../common/golden.rs"]
mod golden;
mod human;
mod properties;
mod sample;
mod veristat;
