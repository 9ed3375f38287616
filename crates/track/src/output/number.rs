//! Numbers as people read them: units scaled, digits that mean something, thousands apart, a real minus.
//! Tables, pictures, comparisons and logs all say them this way; `plot/draw.js` and `plot/look.js` say them so once more.

mod digits;
mod share;
mod units;

pub use digits::{count, exponential, first_few, fixed, plural, rounded};
pub use share::{change, interval, size};
pub use units::{Scale, Units};
