//! Colours of text, and what else a terminal decides.

use owo_colors::{OwoColorize as _, Style as Colours};

/// How text for a terminal looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it has colours: escape sequences of ANSI terminals.
    pub has_colours: bool,
    /// Whether everything is shown, rather than what matters most.
    pub is_verbose: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Style {
    /// Colours, if it has any.
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

    /// What matters less than the rest.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.with(text, Colours::new().dimmed())
    }

    /// What is better, and that nothing is wrong.
    #[must_use]
    pub fn good(self, text: &str) -> String {
        self.with(text, Colours::new().green())
    }

    /// What may be wrong.
    #[must_use]
    pub fn warning(self, text: &str) -> String {
        self.with(text, Colours::new().yellow().bold())
    }

    /// What is worse, or failed.
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
