//! Users and keys. Nobody signs up or in by this API: browsers have pages for that.

mod keys;
mod list;
mod refused;
mod shapes;
mod users;

use axum::{
    http::Method,
    routing::{delete, get, patch, post},
};

use crate::access::{Right, Route};

/// Routes of users and keys.
pub(super) fn routes() -> Vec<Route> {
    const OF_PROJECT: &str = "/v0/projects/{project}/keys";
    const ONE_OF_PROJECT: &str = "/v0/projects/{project}/keys/{key}";
    const OF_USER: &str = "/v0/users/{user}/keys";
    const ONE_OF_USER: &str = "/v0/users/{user}/keys/{key}";
    let (manage, own) = (Right::Manage, Right::Handler);
    let mut routes = vec![
        Route::api(Method::GET, OF_PROJECT, manage, get(keys::list_of_project)),
        Route::api(Method::POST, OF_PROJECT, manage, post(keys::create_of_project)),
        Route::api(Method::GET, ONE_OF_PROJECT, manage, get(keys::view_of_project)),
        Route::api(Method::PATCH, ONE_OF_PROJECT, manage, patch(keys::rename_of_project)),
        Route::api(Method::DELETE, ONE_OF_PROJECT, manage, delete(keys::revoke_of_project)),
        Route::api(Method::GET, "/v0/users", Right::Admin, get(users::list)),
        Route::api(Method::GET, "/v0/users/{user}", own, get(users::view)),
        Route::api(Method::GET, OF_USER, own, get(keys::list_of_user)),
        Route::api(Method::POST, OF_USER, own, post(keys::create_of_user)),
        Route::api(Method::GET, ONE_OF_USER, own, get(keys::view_of_user)),
        Route::api(Method::PATCH, ONE_OF_USER, own, patch(keys::rename_of_user)),
        Route::api(Method::DELETE, ONE_OF_USER, own, delete(keys::revoke_of_user)),
        Route::api(Method::POST, "/v0/users/{user}/tokens", Right::SignedIn, post(refused::tokens)),
    ];
    let refused = ["/v0/auth/signup", "/v0/auth/login", "/v0/auth/confirm", "/v0/auth/accept"]
        .map(|path| Route::api(Method::POST, path, Right::Open, post(refused::auth)));
    routes.extend(refused);
    routes
}
