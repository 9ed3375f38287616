//! Output of a run: a table, Bencher's JSON, comments.

mod comment;
mod human;
mod json;
mod sample;
