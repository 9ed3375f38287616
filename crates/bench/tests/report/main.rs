//! Results as text: each form against a golden file, and what must hold of any result.

mod comparison;
mod documented;
mod formats;
#[path = "../common/golden.rs"]
mod golden;
mod human;
mod properties;
mod sample;
mod veristat;
