//! Sign-in and sign-out, passwords, members, and keys of users. Everything works without a script.

mod forms;
mod invite;
mod keys;
mod login;
mod members;
mod password;

use axum::{
    Extension,
    extract::State,
    http::Method,
    routing::{get, post},
};
use maud::{Markup, html};

use self::forms::user_of;
use super::layout::page;
use crate::{
    ApiError, App,
    access::{Caller, Right, Role, Route},
};

/// Pages of users and the targets of their forms.
pub(super) fn routes() -> Vec<Route> {
    let (open, user, admin) = (Right::Open, Right::SignedIn, Right::Admin);
    let (get_, post_) = (Method::GET, Method::POST);
    const INVITE: &str = "/auth/invite/{token}";
    const KEYS: &str = "/console/users/{user}/keys";
    vec![
        Route::page(get_.clone(), "/auth/login", open, get(login::show)),
        Route::page(post_.clone(), "/auth/login", open, post(login::sign_in)),
        Route::page(post_.clone(), "/auth/logout", open, post(login::sign_out)),
        Route::page(get_.clone(), INVITE, open, get(invite::show)),
        Route::page(post_.clone(), INVITE, open, post(invite::accept)),
        Route::page(get_.clone(), "/auth/password", user, get(password::show)),
        Route::page(post_.clone(), "/auth/password", user, post(password::change)),
        Route::page(get_.clone(), "/console/account", user, get(account)),
        Route::page(get_.clone(), "/console/users", admin, get(members::list)),
        Route::page(post_.clone(), "/console/users", admin, post(members::invite)),
        Route::page(post_.clone(), "/console/users/{user}/role", admin, post(members::set_role)),
        Route::page(post_.clone(), "/console/users/{user}/lock", admin, post(members::set_locked)),
        Route::page(post_.clone(), "/console/users/{user}/reset", admin, post(members::reset)),
        Route::page(get_, KEYS, user, get(keys::list)),
        Route::page(post_.clone(), KEYS, user, post(keys::create)),
        Route::page(post_, "/console/users/{user}/keys/{key}/revoke", user, post(keys::revoke)),
    ]
}

/// Pages of the signed-in user.
async fn account(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Markup, ApiError> {
    let user = user_of(&app, &caller).await?;
    Ok(page(
        "Account",
        &html! {
            h1 { (user.name) }
            dl {
                dt { "Email address" } dd { (user.email) }
                dt { "Role" } dd { (forms::role_word(user.role)) }
            }
            ul {
                li { a href={ "/console/users/" (user.slug) "/keys" } { "Keys" } }
                li { a href="/auth/password" { "Change the password" } }
                @if user.role == Role::Admin { li { a href="/console/users" { "Members" } } }
            }
            form method="post" action="/auth/logout" { button { "Sign out" } }
        },
    ))
}
