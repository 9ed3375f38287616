//! The API as the `bencher` client sees it: typed responses and errors of each route.

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
