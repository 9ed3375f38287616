//! Plots of a history: as SVG, as an interactive page, and in the terminal. Pure: series go in, bytes come out, and the
//! same series give the same bytes.
//!
//! ```text
//! store::Plot → Chart → svg, html, terminal
//! ```
//!
//! The horizontal axis spaces reports or commits evenly, since results come in bursts and a change belongs to a report
//! rather than to a time.

mod axis;
pub mod chart;
mod html;
mod layout;
mod page_data;
mod stamps;
mod svg;
mod terminal;

pub use chart::{CHART_LINES_MAX, Chart, LINES_MAX, Line, Look, Panel, Rank, Scale, Step};
pub use html::{Figures, SCRIPT, TOOLS, html};
pub use stamps::{Column, Stamp};
pub use svg::{STYLE, colour_class, svg};
pub use terminal::terminal;
