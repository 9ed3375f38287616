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

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    pub has_colours: bool,
}

impl Paint {
    /// A heading.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.with(text, Colours::new().bold())
    }

    /// Less important text.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.with(text, Colours::new().dimmed())
    }

    /// An improvement, or success.
    #[must_use]
    pub fn good(self, text: &str) -> String {
        self.with(text, Colours::new().green())
    }

    /// A possible problem.
    #[must_use]
    pub fn warning(self, text: &str) -> String {
        self.with(text, Colours::new().yellow().bold())
    }

    /// A regression, or a failure.
    #[must_use]
    pub fn bad(self, text: &str) -> String {
        self.with(text, Colours::new().red().bold())
    }

    fn with(self, text: &str, colours: Colours) -> String {
        if self.has_colours && !text.is_empty() {
            text.style(colours).to_string()
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_where_wanted() {
        let paint = |has_colours| Paint { has_colours };
        assert_eq!(paint(false).bad("x"), "x");
        assert!(paint(true).bad("x").contains("\u{1b}["));
        assert_eq!(paint(true).bad(""), "");
    }
}
