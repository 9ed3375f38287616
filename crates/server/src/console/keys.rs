//! Keys of a project, with which CI uploads results, and keys of a user. A new key is shown once.

use axum::{
    Extension, Form,
    extract::{Path, State},
    http::StatusCode,
    response::{Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    accounts::{role_word, secret_page},
    components::{day, name},
    layout::{Page, Tab},
    page_context::PageContext,
};
use crate::{
    ApiError, App,
    access::{Caller, KeyKind, KeyText, Role},
    database::{Database, Key, KeyOwner, NewKey, User, key_name_fault},
    storage::StorageError,
};

/// Lifetimes to choose from, in days. The last counts as unlimited.
const LIFETIMES: [(u32, &str); 5] = [
    (30, "30 days"),
    (90, "90 days"),
    (365, "a year"),
    (730, "two years"),
    (36_500, "until it is revoked"),
];

/// A key to create.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    name: String,
    days: u32,
}

pub(super) async fn list(context: PageContext) -> Result<Page, ApiError> {
    let owner = KeyOwner::Project(context.project.id);
    let keys = context.app.storage.ask(move |database| database.keys(owner)).await?;
    let path = context.at("keys");
    let content = html! {
        h1 { "Keys" }
        p { "A key lets CI send results to this project and change its names and thresholds. It cannot delete \
             anything, and reads no other internal project." }
        (table(&path, &keys))
        (form(&path))
    };
    Ok(Page::of(&context, Tab::Settings, "Keys", &[], &content))
}

pub(super) async fn create(
    context: PageContext,
    Form(fields): Form<Fields>,
) -> Result<Page, ApiError> {
    let owner = KeyOwner::Project(context.project.id);
    let (key, text) = store(&context.app, owner, context.caller.user(), fields).await?;
    let (url, project) = (&context.app.settings.public_url, context.project.slug.as_str());
    let usage = html! {
        p { "Store it as a secret of CI, and pass it on:" }
        pre { code { "bencher run --host " (url) " --project " (project) " --key \"$KEY\" 'cargo bench'" } }
    };
    let content = shown_once(&key, &text, &usage, &context.at("keys"));
    Ok(Page::of(&context, Tab::Settings, "New key", &[], &content).kept_by_no_cache())
}

pub(super) async fn revoke(
    context: PageContext,
    Path((_, key)): Path<(String, Uuid)>,
) -> Result<Redirect, ApiError> {
    end(&context.app, KeyOwner::Project(context.project.id), key).await?;
    Ok(Redirect::to(&context.at("keys")))
}

pub(super) async fn list_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
) -> Result<Response, ApiError> {
    let user = visible_user(&app, &caller, user).await?;
    let owner = KeyOwner::User(user.id);
    let keys = app.storage.ask(move |database| database.keys(owner)).await?;
    let path = path_of(&user);
    let content = html! {
        h1 { "Keys of " (user.name) }
        p {
            "A key acts for " (user.name) " with the role " (role_word(user.role))
            ". For CI, a project's key is the better choice: it has fewer rights."
        }
        (table(&path, &keys))
        @if caller.user() == Some(user.id) { (form(&path)) }
    };
    Ok(secret_page(StatusCode::OK, "Keys", &content))
}

/// Keys cannot create keys: a leaked one could renew itself forever.
pub(super) async fn create_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
    Form(fields): Form<Fields>,
) -> Result<Response, ApiError> {
    let user = visible_user(&app, &caller, user).await?;
    if !caller.is_signed_in_as(user.id) {
        return Err(ApiError::forbidden(
            "a user's keys are created by that user, signed in; admins can only revoke them",
        ));
    }
    let (key, text) = store(&app, KeyOwner::User(user.id), None, fields).await?;
    let usage = html! {
        p { "Pass it as " code { "bencher run --key KEY" } " or " code { "wingbeat run --key KEY" }
            ", or in the variable " code { "BENCHER_API_KEY" } "." }
    };
    let content = shown_once(&key, &text, &usage, &path_of(&user));
    Ok(secret_page(StatusCode::OK, "New key", &content))
}

pub(super) async fn revoke_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((user, key)): Path<(String, Uuid)>,
) -> Result<Redirect, ApiError> {
    let user = visible_user(&app, &caller, user).await?;
    end(&app, KeyOwner::User(user.id), key).await?;
    Ok(Redirect::to(&path_of(&user)))
}

/// The user of a path, for that user and for admins.
async fn visible_user(app: &App, caller: &Caller, id: String) -> Result<User, ApiError> {
    let found = app.storage.ask(move |database| database.user(&id)).await?;
    let may_see = |user: &User| caller.user() == Some(user.id) || caller.has_role(Role::Admin);
    let none = || ApiError::not_found("there is no such user, or you are another user");
    found.filter(may_see).ok_or_else(none)
}

fn path_of(user: &User) -> String {
    format!("/console/users/{}/keys", user.slug)
}

async fn store(
    app: &App,
    owner: KeyOwner,
    creator: Option<i64>,
    Fields { name, days }: Fields,
) -> Result<(Key, KeyText), ApiError> {
    if let Some(fault) = key_name_fault(&name) {
        return Err(ApiError::bad_request(fault));
    }
    if !LIFETIMES.iter().any(|(known, _)| *known == days) {
        return Err(ApiError::bad_request("choose one of the listed lifetimes"));
    }
    let kind = match owner {
        KeyOwner::User(_) => KeyKind::User,
        KeyOwner::Project(_) => KeyKind::Project,
    };
    let (text, now) = (KeyText::random(kind)?, OffsetDateTime::now_utc());
    let (hash, expires) = (text.digest(), now + Duration::days(days.into()));
    let new = NewKey { owner, name, hash, creator, expires };
    let create =
        move |database: &mut Database| Ok::<_, StorageError>(database.create_key(&new, now)?);
    Ok((app.storage.write(create).await?, text))
}

async fn end(app: &App, owner: KeyOwner, key: Uuid) -> Result<(), ApiError> {
    let revoke = move |database: &mut Database| {
        let now = OffsetDateTime::now_utc();
        Ok::<_, StorageError>(database.revoke_key(owner, key, now)?)
    };
    match app.storage.write(revoke).await? {
        true => Ok(()),
        false => Err(ApiError::not_found("there is no such key")),
    }
}

fn table(path: &str, keys: &[Key]) -> Markup {
    let now = OffsetDateTime::now_utc();
    let expiry = |key: &Key| match key.end() {
        Some(end) if end <= now => format!("expired {}", day(end)),
        Some(end) => day(end),
        None => "never".to_owned(),
    };
    html! {
        @if !keys.is_empty() {
            div class="scroll fit" tabindex="0" role="region" aria-label="Keys" {
                table {
                    thead { tr { th { "Name" } th { "Created" } th { "Expires" } td {} } }
                    tbody { @for key in keys {
                        tr {
                            th scope="row" { (name(&key.name)) }
                            td { (day(key.created)) }
                            td { (expiry(key)) }
                            td {
                                @if let Some(revoked) = key.revoked {
                                    span class="quiet" { "revoked " (day(revoked)) }
                                } @else {
                                    form method="post" action={ (path) "/" (key.uuid) "/revoke" } {
                                        button aria-label={ "Revoke " (key.name) } { "Revoke" }
                                    }
                                }
                            }
                        }
                    } }
                }
            }
        }
    }
}

/// The form that creates a key.
fn form(path: &str) -> Markup {
    html! {
        h2 { "Create a key" }
        form class="filter" method="post" action=(path) {
            label class="wide" { span { "Name" }
                input name="name" required maxlength="64" autocomplete="off" placeholder="ci";
            }
            label { span { "Valid for" } select name="days" {
                @for (days, words) in LIFETIMES { option value=(days) selected[days == 365] { (words) } }
            } }
            button { "Create" }
        }
    }
}

fn shown_once(key: &Key, text: &KeyText, usage: &Markup, back: &str) -> Markup {
    html! {
        h1 { "Key " (name(&key.name)) }
        p { "Copy it now: it is not shown again. The server stores only its hash." }
        pre { code { (text.as_str()) } }
        (usage)
        details {
            summary { "As a token, for " code { "bencher" } " before 0.6.5" }
            pre { code { (text.token()) } }
        }
        p { a href=(back) { "Back to the keys" } }
    }
}
