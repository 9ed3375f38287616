//! `wingbeat bench` and `wingbeat annotate` on the real kernel, with a generated object.
//!
//! Tests run one at a time, because they measure. They are skipped only without privileges; with `CI=true` that is a
//! failure. Tests of invalid files need no privileges and are never skipped.

mod against;
mod annotate;
mod bad_input;
mod measure;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod support;
