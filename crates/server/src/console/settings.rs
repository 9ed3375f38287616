//! Settings of a project, with a link to its keys.

use axum::{Form, response::Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use time::OffsetDateTime;
use wingbeat_track::model::ProjectName;

use super::{
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
};
use crate::{
    ApiError,
    access::Right,
    database::{ProjectChange, Visibility},
};

pub(super) async fn show(context: PageContext, params: Params) -> Result<Page, ApiError> {
    let project = &context.project;
    let is_public = project.visibility == Visibility::Public;
    let badge = format!("{}/perf/{}/badge.svg", context.app.settings.public_url, project.slug);
    let page = format!("{}/perf/{}", context.app.settings.public_url, project.slug);
    let content = html! {
        h1 { "Settings" }
        @if params.get("saved").is_some() { p class="note good" role="status" { "Saved." } }
        form class="fields" method="post" action=(context.at("settings")) {
            label { span { "Name" }
                input name="name" value=(project.name) required maxlength="64" autocomplete="off";
            }
            label { span { "Address of the code" }
                input name="url" type="url" value=[project.url.as_deref()]
                    placeholder="https://github.com/OWNER/NAME" pattern="https?://.*";
            }
            p class="hint" { "Commits are linked to it." }
            fieldset {
                legend { "Who may see it" }
                label class="check" {
                    input type="radio" name="visibility" value="public" checked[is_public];
                    span { "Everybody who reaches this server" }
                }
                label class="check" {
                    input type="radio" name="visibility" value="internal" checked[!is_public];
                    span { "Users of this server only" }
                }
            }
            label class="check" {
                input type="checkbox" name="judges_by_default" value="yes"
                    checked[project.judges_by_default];
                span { "Judge measures without a threshold by " code { "auto" } }
            }
            p { button { "Save" } }
        }
        h2 { "Keys and members" }
        p { a href=(context.at("keys")) { "Keys of this project" } " let CI send results. "
            @if context.may(Right::Admin) { a href="/console/users" { "Users" } " of this server read and change it." }
        }
        h2 { "Badge" }
        p { img src={ (context.at("badge.svg")) } alt="Badge of this project"; }
        pre { code { "[![benchmarks](" (badge) ")](" (page) ")" } }
        p class="hint" { "With " code { "?benchmark=NAME&measure=NAME" } " it shows the newest value." }
        @if context.may(Right::Admin) { (deletion(&context)) }
    };
    Ok(Page::of(&context, Tab::Settings, "Settings", &[], &content))
}

/// The form that deletes the project, for users with the right.
fn deletion(context: &PageContext) -> Markup {
    let slug = context.project.slug.as_str();
    html! {
        details {
            summary { "Delete this project" }
            form class="settle" method="post" action=(context.at("delete")) {
                label class="wide" { span { "Type " code { (slug) } " to delete it" }
                    input name="slug" required autocomplete="off" autocapitalize="off" spellcheck="false";
                }
                button { "Delete it" }
            }
            p class="quiet" {
                "Its keys, thresholds and plots go with it, and nothing shows its reports any more. This cannot \
                 be undone here."
            }
        }
    }
}

/// Fields of the deletion form.
#[derive(Debug, Deserialize)]
pub(super) struct Confirmation {
    slug: String,
}

pub(super) async fn delete(
    context: PageContext,
    Form(confirmation): Form<Confirmation>,
) -> Result<Redirect, ApiError> {
    let slug = context.project.slug.as_str();
    if confirmation.slug.trim() != slug {
        return Err(ApiError::bad_request(format!(
            "nothing was deleted: to delete the project, type {slug}"
        )));
    }
    let project = context.project.id;
    let write = context.write(move |database| {
        database.delete_project(project, "its project was deleted in the console")
    });
    write.await?;
    context.app.forget_profiles(context.project.uuid).await;
    Ok(Redirect::to("/"))
}

/// Fields of the settings form.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    name: String,
    #[serde(default)]
    url: String,
    visibility: Visibility,
    /// Absent if unchecked.
    judges_by_default: Option<String>,
}

pub(super) async fn save(
    context: PageContext,
    Form(form): Form<Fields>,
) -> Result<Redirect, ApiError> {
    let name = ProjectName::new(form.name.trim())
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let url = form.url.trim().to_owned();
    if !url.is_empty() && !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(ApiError::bad_request(
            "the address of the code does not begin with https:// or http://; give that of its page on the forge",
        ));
    }
    let change = ProjectChange {
        name: Some(name.as_str().to_owned()),
        slug: None,
        url: Some((!url.is_empty()).then_some(url)),
        visibility: Some(form.visibility),
        judges_by_default: Some(form.judges_by_default.is_some()),
    };
    let project = context.project.id;
    let write = context.write(move |database| {
        let now = OffsetDateTime::now_utc();
        database.change_project(project, &change, now)
    });
    match write.await? {
        Some(_) => Ok(Redirect::to(&context.at("settings?saved=yes"))),
        None => Err(ApiError::not_found("the project was deleted meanwhile")),
    }
}
