//! Users, and the filter of lists by name.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;

use super::{
    super::request::{Asked, Listed, Paging},
    shapes::JsonUser,
};
use crate::{
    ApiError, App,
    access::{Caller, Role},
    registry::{Registry, User},
    storage::StorageError,
};

pub(super) async fn list(
    State(app): State<App>,
    Asked(wanted): Asked<Wanted>,
    Asked(paging): Asked<Paging>,
) -> Result<Listed<JsonUser>, ApiError> {
    let read = app.storage.read(|databases| databases.registry.users().map_err(StorageError::from));
    Ok(wanted.page(paging, read.await?, |user| &user.name, |user| user.into()))
}

pub(super) async fn view(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<JsonUser>, ApiError> {
    let user = app.storage.read(move |databases| of(&databases.registry, &caller, &id)).await?;
    Ok(Json(JsonUser::from(&user)))
}

/// The user of a path, visible to the user and to admins. Others cannot learn whether it exists.
pub(super) fn of(registry: &Registry, caller: &Caller, id: &str) -> Result<User, ApiError> {
    if *caller == Caller::Anonymous {
        return Err(ApiError::unauthorized(
            "this needs a key of the user: send one as `Authorization: Bearer KEY`",
        ));
    }
    let user = registry.user(id).map_err(StorageError::from)?;
    let may_see = |user: &User| caller.user() == Some(user.id) || caller.has_role(Role::Admin);
    user.filter(may_see).ok_or_else(|| {
        let message = format!("there is no user {id:?}, or it is another one than this key's");
        ApiError::new(StatusCode::NOT_FOUND, message)
    })
}

/// Which entries of a list by name are wanted.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
pub(super) struct Wanted {
    /// Exactly this name.
    name: Option<String>,
    /// A part of the name.
    search: Option<String>,
    /// Revoked keys instead of those in force.
    pub(super) revoked: bool,
}

impl Wanted {
    /// The requested page of a list sorted by name.
    pub(super) fn page<T, J>(
        &self,
        paging: Paging,
        mut all: Vec<T>,
        name: impl Fn(&T) -> &str,
        json: impl Fn(&T) -> J,
    ) -> Listed<J> {
        let search = self.search.as_ref().map(|it| it.to_lowercase());
        all.retain(|it| self.name.as_ref().is_none_or(|wanted| name(it) == wanted));
        all.retain(|it| search.as_ref().is_none_or(|part| name(it).to_lowercase().contains(part)));
        if paging.is_descending(false) {
            all.reverse();
        }
        let (page, count) = paging.of(all);
        Listed(page.iter().map(json).collect(), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_searched() {
        let check = |wanted: Wanted, expected: &[&str]| {
            let all = ["alpha", "beta", "Gamma", "gamma 2"].to_vec();
            let count = expected.len() as u64;
            let Listed(page, all) =
                wanted.page(Paging::default(), all, |it| it, |it| (*it).to_owned());
            assert_eq!((page, all), (expected.iter().map(|it| (*it).to_owned()).collect(), count));
        };
        check(Wanted::default(), &["alpha", "beta", "Gamma", "gamma 2"]);
        check(Wanted { search: Some("gam".into()), ..Default::default() }, &["Gamma", "gamma 2"]);
        check(Wanted { name: Some("beta".into()), ..Default::default() }, &["beta"]);
    }
}
