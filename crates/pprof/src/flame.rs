//! Flame graphs: of one profile, or of the difference of two.
//!
//! stacks (`around`: those of a function) → `tree` (one for both profiles, in units of the metric) → `layout` (by the
//! widths of one side) → `svg`.

mod around;
mod layout;
mod svg;
mod tree;

pub use self::tree::FunctionRow;
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
    /// The same from top to bottom, for callees below callers.
    Hanging,
}

/// Where the image is embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// In a page, with variable width and the page's heading.
    Page,
    /// In a file of its own, with a heading.
    File,
    /// Same, with a script that zooms and searches.
    InteractiveFile,
}

/// Parameters of an image.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub view: View,
    pub medium: Medium,
    /// Subject of the profiles: benchmark and measure, or the command.
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

/// An RGB colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Colour(pub u8, pub u8, pub u8);

/// One or two profiles as one tree.
#[derive(Debug, Clone)]
pub struct Flame {
    tree: Tree,
    /// Facts about the profile below the title, in place of the total.
    facts: Option<String>,
    /// Meaning of the colours, in place of the view's.
    colours: Option<String>,
}

impl View {
    pub const ALL: [Self; 4] = [Self::Difference, Self::Vanished, Self::Before, Self::After];

    /// Name in URLs; [`ALL`](Self::ALL) can be asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Difference => "difference",
            Self::Vanished => "vanished",
            Self::Before => "before",
            Self::After => "after",
            Self::Single => "single",
            Self::Hanging => "hanging",
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
    fn new(tree: Tree) -> Self {
        Self { tree, facts: None, colours: None }
    }

    /// The tree of two compared profiles.
    pub fn of(before: &Side, after: &Side, explanation: &Explanation) -> Self {
        Self::new(Tree::of(before, after, explanation))
    }

    /// The tree of a single profile with a total in units of the metric, for [`View::Single`].
    pub fn single(side: &Side, total: f64) -> Self {
        Self::new(Tree::single(side, total))
    }

    /// The callers of a function, and its callees, in units of the metric: the function is the root of both trees, and
    /// recursion counts once. `None` without a stack that has the function.
    pub fn around(side: &Side, function: &str, total: f64) -> Option<[Self; 2]> {
        let (sides, colour) = around::sides(side, function)?;
        Some(sides.map(|part| {
            let mut tree = Tree::single(&part, total * part.total() / side.total());
            tree.set_root(function, colour);
            Self::new(tree)
        }))
    }

    /// The tree of weighted stacks of named frames, outermost first, for [`View::Single`]. `colours` says what the
    /// colours of the names mean.
    pub fn of_names(
        names: Vec<(String, Colour)>,
        stacks: &[(Vec<u32>, u64)],
        colours: String,
    ) -> Self {
        Self { colours: Some(colours), ..Self::new(Tree::of_names(names, stacks)) }
    }

    /// With facts about the profile below the title of a file, in place of the total.
    #[must_use]
    pub fn with_facts(self, facts: String) -> Self {
        Self { facts: Some(facts), ..self }
    }

    /// All functions, by own cost or by change, largest first.
    pub fn functions(&self) -> Vec<FunctionRow> {
        self.tree.functions()
    }

    /// Renders an image. `write` formats values of the metric with their unit.
    pub fn draw(&self, request: Request<'_>, write: &dyn Fn(f64) -> String) -> Picture {
        let layout = Layout::of(&self.tree, request);
        svg::draw(self, &layout, request, write)
    }
}
