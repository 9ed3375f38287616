//! Keys of a project, with which CI uploads results.

use axum::{Form, extract::Path, response::Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    layout::{Page, Tab},
    parts::{day, name},
    visit::Visit,
};
use crate::{
    ApiError,
    access::{KeyKind, KeyText},
    registry::{Key, KeyOwner, NewKey, key_name_fault},
    storage::StorageError,
};

/// Lifetimes to choose from, in days.
const LIFETIMES: [(u32, &str); 4] =
    [(90, "90 days"), (365, "a year"), (730, "two years"), (36_500, "until it is revoked")];

/// A key with a longer lifetime counts as valid until revoked.
const ENDLESS: Duration = Duration::days(365 * 50);

pub(super) async fn list(visit: Visit) -> Result<Page, ApiError> {
    let read = visit.read(|databases, project| {
        let keys = databases.registry.keys(KeyOwner::Project(project.id));
        Ok(keys.map_err(StorageError::from)?)
    });
    let keys = read.await?;
    let place = visit.at("keys");
    let content = html! {
        h1 { "Keys" }
        p { "A key lets CI send results to this project and change its names and thresholds. It cannot delete \
             anything, and reads no other internal project." }
        @if !keys.is_empty() { (table(&place, &keys)) }
        h2 { "Make a key" }
        form class="filter" method="post" action=(place) {
            label class="wide" { span { "Name of what uses it" }
                input name="name" required maxlength="64" autocomplete="off" placeholder="ci";
            }
            label { span { "It lasts" } select name="days" {
                @for (days, words) in LIFETIMES { option value=(days) selected[days == 365] { (words) } }
            } }
            button { "Make it" }
        }
    };
    Ok(Page::of(&visit, Tab::Settings, "Keys", &[], &content))
}

fn table(place: &str, keys: &[Key]) -> Markup {
    let now = OffsetDateTime::now_utc();
    html! {
        div class="scroll fit" tabindex="0" role="region" aria-label="Keys" {
            table {
                thead { tr { th { "Name" } th { "Made" } th { "Expires" } th {} } }
                tbody { @for key in keys {
                    tr {
                        th scope="row" { (name(&key.name)) }
                        td { (day(key.created)) }
                        td { (expiry(key.expires, now)) }
                        td {
                            @if let Some(revoked) = key.revoked {
                                span class="quiet" { "revoked " (day(revoked)) }
                            } @else {
                                form method="post" action={ (place) "/" (key.uuid) "/revoke" } {
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

/// Expiry of a key, as text.
fn expiry(expires: OffsetDateTime, now: OffsetDateTime) -> String {
    match expires {
        past if past <= now => format!("{}, so it works no more", day(past)),
        far if far - now > ENDLESS => "never".to_owned(),
        near => day(near).to_string(),
    }
}

/// A key to create.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    name: String,
    days: u32,
}

pub(super) async fn create(visit: Visit, Form(form): Form<Fields>) -> Result<Page, ApiError> {
    if let Some(fault) = key_name_fault(&form.name) {
        return Err(ApiError::bad_request(fault));
    }
    let days = LIFETIMES.iter().map(|(days, _)| *days).find(|days| *days == form.days);
    let days = days.ok_or_else(|| ApiError::bad_request("choose one of the times of the list"))?;
    let (text, now) = (KeyText::random(KeyKind::Project)?, OffsetDateTime::now_utc());
    let new = NewKey {
        owner: KeyOwner::Project(visit.project.id),
        name: form.name,
        hash: text.digest(),
        creator: visit.caller.user(),
        expires: now + Duration::days(days.into()),
    };
    let write = visit.write(move |databases| {
        databases.registry.create_key(&new, now).map_err(StorageError::from)
    });
    let key = write.await?;
    let (url, project) = (&visit.app.settings.public_url, visit.project.slug.as_str());
    let content = html! {
        h1 { "Key " (name(&key.name)) }
        p { "Copy it now: it is not shown again, and only its hash is kept." }
        pre { code { (text.as_str()) } }
        p { "Keep it as a secret of CI, and pass it on:" }
        pre { code { "bencher run --host " (url) " --project " (project) " --key \"$KEY\" 'cargo bench'" } }
        details {
            summary { "As a token, for " code { "bencher" } " before 0.6.5" }
            pre { code { (text.token()) } }
        }
        p { a href=(visit.at("keys")) { "Back to the keys" } }
    };
    Ok(Page::of(&visit, Tab::Settings, "New key", &[], &content).kept_by_no_cache())
}

pub(super) async fn revoke(
    visit: Visit,
    Path((_, key)): Path<(String, Uuid)>,
) -> Result<Redirect, ApiError> {
    let (owner, now) = (KeyOwner::Project(visit.project.id), OffsetDateTime::now_utc());
    let write = visit.write(move |databases| {
        databases.registry.revoke_key(owner, key, now).map_err(StorageError::from)
    });
    match write.await? {
        true => Ok(Redirect::to(&visit.at("keys"))),
        false => Err(ApiError::not_found("this project has no such key, or it is revoked already")),
    }
}
