//! Surroundings of a flame graph on every page: search field, details of the hovered frame, and colour legend. The
//! script depends on these elements.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, PreEscaped, html};
use wingbeat_pprof::Picture;
use wingbeat_text::{plural, share};

use super::{components::kept, links::Params};

/// Parameters of the frame that fills the width, of the picture and of one below it. Only the script uses them.
pub(super) const FRAME: &str = "frame";
pub(super) const CALLEE: &str = "callee";

/// Maximum characters of a search.
pub(super) const SEARCH_CHARS_MAX: usize = 200;

/// The search text.
pub(super) fn search(params: &Params) -> Option<String> {
    params.get("search").map(|text| text.chars().take(SEARCH_CHARS_MAX).collect())
}

/// The picture in a page at this path, with a view selector. `anchor` is the target of a search.
pub(super) fn section(
    picture: &Picture,
    (path, params): (&str, &Params),
    anchor: &str,
    views: &Markup,
) -> Markup {
    html! {
        (tools((path, params), anchor, views))
        (graph(picture, FRAME))
        p class="quiet" { (picture.legend) }
    }
}

/// The search field, with a view selector.
pub(super) fn tools((path, params): (&str, &Params), anchor: &str, views: &Markup) -> Markup {
    html! {
        div class="flame-tools" {
            (views)
            form class="filter" method="get" action={ (path) "#" (anchor) } role="search" {
                label { span { "Search functions" }
                    input type="search" name="search" value=[params.get("search")] maxlength=(SEARCH_CHARS_MAX)
                        autocomplete="off" spellcheck="false" placeholder="part of a function's name";
                }
                (kept(params, &["search", FRAME, CALLEE]))
                button { "Search" }
            }
        }
    }
}

/// A picture. The parameter has the frame that the script fills the width with.
pub(super) fn graph(picture: &Picture, parameter: &str) -> Markup {
    let found = picture.found.map(|(count, part)| {
        format!("{} found, {} of the width", plural(count, "frame"), share::size(part))
    });
    html! {
        div class="flame-graph" data-flame=(parameter) {
            div class="flame-tools" {
                button type="button" data-whole hidden { "Show all frames" }
                a class="button" data-around hidden href="" { "Callers and callees" }
                output data-found { (found.unwrap_or_default()) }
            }
            (PreEscaped(&picture.svg))
            p class="flame-words" data-words hidden {}
        }
    }
}

/// The standalone picture. It has no script, and its headers would prevent one.
pub(super) fn file(svg: String) -> Response {
    let mut response = svg.into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
