//! Shared page layout: head, navigation, and content frame.

use std::borrow::Cow;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use wingbeat_text::in_order;

use super::{accounts::role_word, assets::Asset, links::encoded, page_context::PageContext};
use crate::access::{Caller, Right};

/// Policy of pages that other sites may embed. All others have the headers of the service.
const EMBEDDED_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; base-uri 'none'; frame-ancestors *";

/// A page: markup with its headers.
#[derive(Debug)]
pub(super) struct Page {
    markup: Markup,
    status: StatusCode,
    /// Overrides the default.
    policy: Option<&'static str>,
    has_secrets: bool,
}

/// A page outside projects, without the caller.
pub(super) fn page(title: &str, content: &Markup) -> Markup {
    Page::of_failure(title, content).markup
}

/// Tabs of a project's navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Series,
    Plot,
    Reports,
    Compare,
    Alerts,
    Profiles,
    Thresholds,
    Names,
    Settings,
}

const TABS: [(Tab, &str, &str); 9] = [
    (Tab::Series, "", "Series"),
    (Tab::Plot, "/plot", "Plot"),
    (Tab::Reports, "/reports", "Reports"),
    (Tab::Compare, "/compare", "Compare"),
    (Tab::Alerts, "/alerts", "Alerts"),
    (Tab::Profiles, "/profiles", "Profiles"),
    (Tab::Thresholds, "/thresholds", "Thresholds"),
    (Tab::Names, "/benchmarks", "Names"),
    (Tab::Settings, "/settings", "Settings"),
];

impl Page {
    /// A page outside projects.
    pub(super) fn of_server(caller: &Caller, address: &str, title: &str, content: &Markup) -> Self {
        let head = html! { (crumbs(None)) (account(caller, address)) };
        Self::with(title, &[], &html! { (header(&head)) main id="content" { (content) } })
    }

    /// A page outside projects, without the caller: an error, or the sign-in page.
    pub(super) fn of_failure(title: &str, content: &Markup) -> Self {
        Self::with(title, &[], &html! { (header(&crumbs(None))) main id="content" { (content) } })
    }

    /// A page of a project.
    pub(super) fn of(
        context: &PageContext,
        tab: Tab,
        title: &str,
        scripts: &[Asset],
        content: &Markup,
    ) -> Self {
        let address = context.uri.path_and_query().map_or("/", |it| it.as_str());
        let head = html! {
            (crumbs(Some((&context.project.name, &context.base))))
            (account(&context.caller, address))
        };
        let title = format!("{title} · {}", context.project.name);
        let body = html! { (header(&head)) (tabs(context, tab)) main id="content" { (content) } };
        Self::with(&title, scripts, &body)
    }

    /// A page without navigation that other sites may embed.
    pub(super) fn embedded(title: &str, scripts: &[Asset], content: &Markup) -> Self {
        let body = html! { main id="content" class="embedded" { (content) } };
        Self { policy: Some(EMBEDDED_POLICY), ..Self::with(title, scripts, &body) }
    }

    pub(super) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Disables caching, for pages with secrets.
    pub(super) fn kept_by_no_cache(self) -> Self {
        Self { has_secrets: true, ..self }
    }

    fn with(title: &str, scripts: &[Asset], body: &Markup) -> Self {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · wingbeat" }
                    link rel="icon" type="image/svg+xml" href=(Asset::Icon.address());
                    link rel="stylesheet" href=(Asset::Style.address());
                    @for script in scripts { script type="module" src=(script.address()) {} }
                }
                body { a class="skip" href="#content" { "To the content" } (body) }
            }
        };
        let markup = in_order_outside_of_tags(markup);
        Self { markup, status: StatusCode::OK, policy: None, has_secrets: false }
    }
}

/// Escapes characters that reorder text, like in a terminal. Tags keep them, because forms submit them and addresses
/// need them.
fn in_order_outside_of_tags(markup: Markup) -> Markup {
    if let Cow::Borrowed(_) = in_order(&markup.0) {
        return markup;
    }
    let mut ordered = String::with_capacity(markup.0.len());
    let mut rest = markup.0.as_str();
    // Markup escapes "<" and ">" in attributes.
    while let Some(start) = rest.find('<') {
        let (text, from) = rest.split_at(start);
        let (tag, behind) = from.split_at(from.find('>').map_or(from.len(), |end| end + 1));
        ordered += &in_order(text);
        ordered += tag;
        rest = behind;
    }
    ordered += &in_order(rest);
    PreEscaped(ordered)
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.markup).into_response();
        if let Some(policy) = self.policy {
            let policy = HeaderValue::from_static(policy);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        if self.has_secrets {
            let value = HeaderValue::from_static("no-store");
            response.headers_mut().insert(header::CACHE_CONTROL, value);
        }
        response
    }
}

fn header(content: &Markup) -> Markup {
    html! { header class="top" { (content) } }
}

fn crumbs(project: Option<(&str, &str)>) -> Markup {
    html! {
        nav class="crumbs" aria-label="Place" {
            a class="brand" href="/" {
                img src=(Asset::Icon.address()) alt="" width="20" height="20";
                "wingbeat"
            }
            @if let Some((name, base)) = project {
                span class="quiet" aria-hidden="true" { "/" }
                a class="name" href=(base) { bdi { (name) } }
            }
        }
    }
}

fn account(caller: &Caller, address: &str) -> Markup {
    html! {
        nav class="account" aria-label="Account" {
            @match caller {
                Caller::User { role, .. } => {
                    span class="quiet role" { "signed in as " (role_word(*role)) }
                    a href="/console/account" { "Account" }
                    form method="post" action="/auth/logout" { button class="link" { "Sign out" } }
                }
                _ => a href={ "/auth/login?next=" (encoded(address)) } { "Sign in" }
            }
        }
    }
}

fn tabs(context: &PageContext, current: Tab) -> Markup {
    let is_shown = |tab: Tab| tab != Tab::Settings || context.may(Right::Manage);
    html! {
        nav class="tabs" aria-label="Project" {
            @for (tab, path, name) in TABS.iter().filter(|(tab, ..)| is_shown(*tab)) {
                @let current = (*tab == current).then_some("page");
                a href={ (context.base) (path) } aria-current=[current] { (name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_in_order_and_forms_send_what_it_is() {
        let name = "a\u{202e}<b>\"";
        let page = Page::of_failure(name, &html! { p title=(name) { (name) } input value=(name); });
        let text = page.markup.into_string();
        assert!(text.contains("<title>a\\u202e&lt;b&gt;"), "{text}");
        assert!(text.contains(">a\\u202e&lt;b&gt;&quot;</p>"), "{text}");
        assert!(text.contains("value=\"a\u{202e}&lt;b&gt;&quot;\""), "{text}");
        let plain = html! { p { "a < b" } };
        assert_eq!(in_order_outside_of_tags(plain.clone()).0, plain.0);
    }
}
