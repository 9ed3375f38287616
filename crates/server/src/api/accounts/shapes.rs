//! Users and keys in the API.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    access::{KeyText, Role},
    api::shapes::whole,
    registry::{Key, User},
};

/// A user.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct JsonUser {
    uuid: Uuid,
    name: String,
    slug: String,
    email: String,
    admin: bool,
    locked: bool,
    #[serde(with = "time::serde::rfc3339")]
    created: OffsetDateTime,
    /// What `admin` does not tell: `reader`, `member` or `admin`.
    #[schema(value_type = String)]
    role: Role,
}

/// A key, without its text.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct JsonKey {
    uuid: Uuid,
    /// Of a key of a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<Uuid>,
    /// Of a key of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Uuid>,
    /// Who made a key of a project, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    creator: Option<Uuid>,
    name: String,
    #[serde(with = "time::serde::rfc3339")]
    creation: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    expiration: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    revoked: Option<OffsetDateTime>,
}

/// A key that was just made: its text is shown this once.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct JsonKeyCreated {
    #[serde(flatten)]
    about: JsonKey,
    key: String,
    /// The same key for clients before 0.6.5, which know only `--token`.
    token: String,
}

/// A key that is wanted.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(super) struct JsonNewKey {
    #[schema(
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        max_length = 64
    )]
    pub(super) name: String,
    /// Seconds until it expires; some 136 years otherwise.
    #[serde(default, deserialize_with = "whole")]
    #[schema(value_type = Option<u32>)]
    pub(super) ttl: Option<u32>,
}

/// A key's new name.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(super) struct JsonUpdateKey {
    #[serde(default)]
    pub(super) name: Option<String>,
}

impl From<&User> for JsonUser {
    fn from(user: &User) -> Self {
        Self {
            uuid: user.uuid,
            name: user.name.clone(),
            slug: user.slug.clone(),
            email: user.email.clone(),
            admin: user.role == Role::Admin,
            locked: user.is_locked,
            created: user.created,
            role: user.role,
        }
    }
}

impl JsonKey {
    pub(super) fn of_project(key: &Key, project: Uuid) -> Self {
        let key = Self::of(key);
        Self { project: Some(project), ..key }
    }

    pub(super) fn of_user(key: &Key, user: Uuid) -> Self {
        Self { user: Some(user), creator: None, ..Self::of(key) }
    }

    fn of(key: &Key) -> Self {
        Self {
            uuid: key.uuid,
            project: None,
            user: None,
            creator: key.creator,
            name: key.name.clone(),
            creation: key.created,
            expiration: key.expires,
            revoked: key.revoked,
        }
    }

    pub(super) fn with_text(self, text: &KeyText) -> JsonKeyCreated {
        JsonKeyCreated { about: self, key: text.as_str().to_owned(), token: text.token() }
    }
}
