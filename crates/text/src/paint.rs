//! Colours and other properties of the terminal.

use owo_colors::{OwoColorize as _, Style as Colours};

/// How text for a terminal looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to emit ANSI colour sequences.
    pub has_colours: bool,
    /// Whether to show everything, rather than the essentials.
    pub is_verbose: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Style {
    /// The colours, or none if disabled.
    #[must_use]
    pub fn paint(self) -> Paint {
        Paint { has_colours: self.has_colours }
    }
}

impl Default for Style {
    fn default() -> Self {
        Self { has_colours: false, is_verbose: false, width: 100 }
    }
}

/// How a span of text looks. Names, links and lines without a meaning have no colour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Look {
    #[default]
    Plain,
    /// A heading.
    Strong,
    /// A name, shown verbatim.
    Code,
    /// Less important text.
    Dim,
    /// An improvement, or success.
    Good,
    /// A possible problem.
    Warning,
    /// A regression, or a failure.
    Bad,
    /// A link to this address, on pages.
    Link(String),
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    pub has_colours: bool,
}

impl Paint {
    #[must_use]
    pub fn look(self, look: &Look, text: &str) -> String {
        let colours = match look {
            Look::Plain | Look::Code | Look::Link(_) => return text.to_owned(),
            Look::Strong => Colours::new().bold(),
            Look::Dim => Colours::new().dimmed(),
            Look::Good => Colours::new().green(),
            Look::Warning => Colours::new().yellow().bold(),
            Look::Bad => Colours::new().red().bold(),
        };
        match self.has_colours && !text.is_empty() {
            true => text.style(colours).to_string(),
            false => text.to_owned(),
        }
    }

    /// A heading.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.look(&Look::Strong, text)
    }

    /// Less important text.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.look(&Look::Dim, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_where_wanted() {
        let paint = |has_colours| Paint { has_colours };
        assert_eq!(paint(false).look(&Look::Bad, "x"), "x");
        assert!(paint(true).look(&Look::Bad, "x").contains("\u{1b}["));
        assert_eq!(paint(true).look(&Look::Bad, ""), "");
    }
}
