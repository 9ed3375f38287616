//! Renders errors as pages for browsers.

use axum::{
    extract::Request,
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use maud::html;

use super::{
    components::{name, shortened},
    layout::Page,
    links::encoded,
};
use crate::{ApiError, database::Project};

/// Path prefixes of machine clients.
const MACHINES: [&str; 5] = ["/v0/", "/v1/", "/push.v1.", "/healthz", "/metrics"];

/// Renders an error as a page, except for machine clients.
pub(crate) async fn as_pages(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let status = response.status();
    let is_failure = status.is_client_error() || status.is_server_error();
    if !is_failure || is_for_machines(&path) || is_page(&response) {
        return response;
    }
    let error = response.extensions().get::<ApiError>().cloned();
    let message = error.map_or_else(|| status.to_string(), |error| error.message);
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => "Not allowed",
        StatusCode::SERVICE_UNAVAILABLE => "Unavailable",
        status if status.is_client_error() => "This cannot be done",
        _ => "The server failed",
    };
    let content = html! {
        article class="failure" {
            h1 { (title) }
            p { (sentence(&message)) }
            p class="actions" {
                @if let Some(project) = response.extensions().get::<Project>() {
                    a class="button" href={ "/perf/" (encoded(project.slug.as_str())) } {
                        "To " (name(&shortened(&project.name)))
                    }
                    " "
                }
                a class="button" href="/" { "To the projects" }
            }
        }
    };
    let mut page = Page::of_failure(title, &content).status(status).into_response();
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        page.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    page
}

fn is_for_machines(path: &str) -> bool {
    MACHINES.iter().any(|beginning| path.starts_with(beginning))
}

fn is_page(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

/// Formats a message as a sentence.
pub(super) fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first = chars.next().map(char::to_uppercase);
    let text: String = first.into_iter().flatten().chain(chars).collect();
    if text.ends_with(['.', '!', '?']) { text } else { format!("{text}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_sentences() {
        let check = |message, expected| assert_eq!(sentence(message), expected);
        check("there is none", "There is none.");
        check("é fails; try again.", "É fails; try again.");
        check("", ".");
    }
}
