//! What a run tells: a table, Bencher's JSON, comments.

mod comment;
mod human;
mod json;
mod sample;
