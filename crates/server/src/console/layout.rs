//! What all pages have in common.

use maud::{DOCTYPE, Markup, html};

/// A page with a title and its content.
pub(super) fn page(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · wingbeat" }
            }
            body { main { (content) } }
        }
    }
}
