//! Differential flame graph: the cost of a frame and its callees before and after, in one image.
//!
//! both sides → `tree` (one for both, in units of the metric) → `layout` (by the widths of one side) → `svg`.

mod functions;
mod layout;
mod svg;
mod tree;

pub use self::functions::FunctionRow;
use self::{layout::Layout, tree::Tree};
use crate::{Explanation, Side};

/// Contents of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Widths of the later profile, coloured by difference.
    Difference,
    /// Widths of the earlier profile, coloured by difference: shows removed code.
    Vanished,
    /// The earlier profile alone, coloured by the code's origin.
    Before,
    /// The later profile alone.
    After,
    /// A profile without a comparison.
    Single,
}

/// Where the image is embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// In a page, with variable width and the page's heading.
    Page,
    /// In a file of its own, with a heading.
    File,
}

/// Parameters of an image.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub view: View,
    pub medium: Medium,
    /// Benchmark and measure of the profiles.
    pub title: &'a str,
    /// Highlights frames whose names contain this text, case-insensitively.
    pub search: Option<&'a str>,
}

/// An image and its description.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// All names are escaped.
    pub svg: String,
    /// Meaning of the colours, and what is omitted.
    pub legend: String,
    /// Number of matching frames and their part of the width; `None` without a search.
    pub found: Option<(usize, f64)>,
}

/// Both profiles as one tree.
#[derive(Debug, Clone)]
pub struct Flame {
    tree: Tree,
}

impl View {
    pub const ALL: [Self; 4] = [Self::Difference, Self::Vanished, Self::Before, Self::After];

    /// Name in URLs; a single profile has no other view.
    pub fn name(self) -> &'static str {
        match self {
            Self::Difference => "difference",
            Self::Vanished => "vanished",
            Self::Before => "before",
            Self::After => "after",
            Self::Single => "single",
        }
    }

    /// Parses a view's name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.name() == name)
    }

    /// Whether it compares two profiles.
    fn compares(self) -> bool {
        matches!(self, Self::Difference | Self::Vanished)
    }

    fn has_widths_of_before(self) -> bool {
        matches!(self, Self::Vanished | Self::Before)
    }
}

impl Flame {
    /// The tree of two compared profiles.
    pub fn of(before: &Side, after: &Side, explanation: &Explanation) -> Self {
        Self { tree: Tree::of(before, after, explanation) }
    }

    /// The tree of a single profile with a total in units of the metric, for [`View::Single`].
    pub fn single(side: &Side, total: f64) -> Self {
        Self { tree: Tree::single(side, total) }
    }

    /// All functions, by own cost or by change, largest first.
    pub fn functions(&self) -> Vec<FunctionRow> {
        functions::of(&self.tree)
    }

    /// Renders an image. `write` formats values of the metric with their unit.
    pub fn draw(&self, request: Request<'_>, write: &dyn Fn(f64) -> String) -> Picture {
        let layout = Layout::of(&self.tree, request.view);
        svg::draw(&self.tree, &layout, request, write)
    }
}
