//! Users.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};

use super::{
    super::request::{Asked, Listed, Paging},
    list::Wanted,
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
