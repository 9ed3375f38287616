//! The regression: here on purpose, and only with the feature `oops`.

use std::{
    hint::black_box,
    thread,
    time::{Duration, SystemTime},
};

/// Sleeps for as many milliseconds as have passed of the current second, from 1 to 999.
///
/// Zero would not do: a call that ends as a second begins would be followed by thousands that do not sleep, and a
/// benchmark of a few calls would measure only those.
///
/// It does two things wrong, so that two kinds of profiler have something to find: it blocks the
/// thread that drains the ring buffer, which a sampling profiler shows, and it puts the time on the
/// heap for nothing, which a heap profiler shows.
// The leading underscore is the article's, and so is the name to look for in a flame graph. Without
// `inline(never)` it would be a line of `process_sample`.
#[inline(never)]
pub(crate) fn _oops() {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let pause = Box::new(Duration::from_millis(since_epoch.subsec_millis().max(1).into()));
    // An optimized build would see through the box and do without the heap.
    thread::sleep(*black_box(pause));
}
