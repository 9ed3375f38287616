//! A differential flame graph: what a frame and what it calls cost before and after, as one picture.
//!
//! both sides → `tree` (one for both, in units of the metric) → `layout` (by the widths of one side) → `svg`.

mod functions;
mod layout;
mod svg;
mod tree;

pub use self::functions::FunctionRow;
use self::{layout::Layout, tree::Tree};
use crate::{Explanation, Side};

/// What a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Widths of after, coloured by the difference.
    Difference,
    /// Widths of before, coloured by the difference: what is gone has a width here.
    Vanished,
    /// The profile before alone, coloured by who wrote the code.
    Before,
    /// The profile after alone.
    After,
    /// A profile that is compared with none.
    Single,
}

/// Where a picture is to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// In a page, as wide as there is room; the page says what it shows.
    Page,
    /// In a file of its own, with a heading.
    File,
}

/// What is to be drawn.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub view: View,
    pub medium: Medium,
    /// What the profiles are of: a benchmark and a measure.
    pub title: &'a str,
    /// Frames whose names hold this text stand out, whatever its case.
    pub search: Option<&'a str>,
}

/// A picture, and what it says in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// All names in it are escaped.
    pub svg: String,
    /// What the colours mean, and what is not drawn.
    pub legend: String,
    /// Frames that the search found, and their part of the width; `None` if nothing was looked for.
    pub found: Option<(usize, f64)>,
}

/// Both profiles as one tree.
#[derive(Debug, Clone)]
pub struct Flame {
    tree: Tree,
}

impl View {
    pub const ALL: [Self; 4] = [Self::Difference, Self::Vanished, Self::Before, Self::After];

    /// As in addresses; a single profile has no other view.
    pub fn name(self) -> &'static str {
        match self {
            Self::Difference => "difference",
            Self::Vanished => "vanished",
            Self::Before => "before",
            Self::After => "after",
            Self::Single => "single",
        }
    }

    /// The view of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.name() == name)
    }

    /// Whether it tells what changed.
    fn compares(self) -> bool {
        matches!(self, Self::Difference | Self::Vanished)
    }

    fn has_widths_of_before(self) -> bool {
        matches!(self, Self::Vanished | Self::Before)
    }
}

impl Flame {
    /// The tree of two profiles that were compared.
    pub fn of(before: &Side, after: &Side, explanation: &Explanation) -> Self {
        Self { tree: Tree::of(before, after, explanation) }
    }

    /// The tree of a profile alone, whose total is that in units of the metric. It has [`View::Single`].
    pub fn single(side: &Side, total: f64) -> Self {
        Self { tree: Tree::single(side, total) }
    }

    /// All functions, those first that take most by themselves, or changed most.
    pub fn functions(&self) -> Vec<FunctionRow> {
        functions::of(&self.tree)
    }

    /// Draws it. `write` writes values of the metric, with their unit.
    pub fn draw(&self, request: Request<'_>, write: &dyn Fn(f64) -> String) -> Picture {
        let layout = Layout::of(&self.tree, request.view);
        svg::draw(&self.tree, &layout, request, write)
    }
}
