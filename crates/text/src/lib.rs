//! Text output: documents for terminals and pages, with tables, lines and numbers that fit.
//!
//! Every report formats its numbers and lines here, for a consistent look. Pure functions from values to text: nothing
//! is printed, and the terminal's width is a parameter.

mod document;
mod lines;
mod numbers;
mod paint;
pub mod share;
mod table;
mod units;
mod warning;

pub use self::{
    document::{Block, Line, Span, escaped, html, human, line, list, markdown, row},
    lines::{
        BLANK, aligned, broken, cut, first_few, glued, in_order, listed, paragraph, printable,
        shell_word, shortened, unbroken, width, wrapped,
    },
    numbers::{
        bytes, decimal, duration, duration_of, exponential, fixed, grouped, or_dash, plural,
        rounded, significant_decimals,
    },
    paint::{Look, Paint, Style},
    table::{Column, GivesWay, Side, Table},
    units::{Scale, Units},
    warning::{Warning, sentence},
};
