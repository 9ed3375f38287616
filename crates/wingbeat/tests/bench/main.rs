//! `wingbeat bench` and `wingbeat annotate` on the real kernel, with an object of the tests' own.
//!
//! Tests run one at a time, because they measure. They are skipped only when the rights are missing;
//! with `CI=true` that is a failure. Bad files need no rights, so that those tests are never skipped.

mod against;
mod annotate;
mod bad_input;
mod measure;
mod object;
mod support;
