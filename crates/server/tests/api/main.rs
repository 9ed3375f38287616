//! The API as the `bencher` client sees it: each route's answer in its typed shape, and each refusal.

mod alerts;
mod console;
mod perf;
#[path = "../common/place.rs"]
mod place;
mod plots;
mod projects;
mod reports;
mod run;
mod support;
mod things;
mod thresholds;
