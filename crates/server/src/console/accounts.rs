//! Sign-in and sign-out, passwords, and members. Everything works without a script.

mod forms;
mod invite;
mod login;
mod members;

use axum::{
    Extension,
    extract::State,
    http::Method,
    routing::{get, post},
};
use maud::{Markup, html};

use self::forms::user_of;
pub(super) use self::forms::{role_word, secret_page};
use super::{keys, layout::page};
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
        Route::page(get_.clone(), "/auth/password", user, get(login::show_password)),
        Route::page(post_.clone(), "/auth/password", user, post(login::change_password)),
        Route::page(get_.clone(), "/console/account", user, get(account)),
        Route::page(get_.clone(), "/console/users", admin, get(members::list)),
        Route::page(post_.clone(), "/console/users", admin, post(members::invite)),
        Route::page(post_.clone(), "/console/users/{user}/role", admin, post(members::set_role)),
        Route::page(post_.clone(), "/console/users/{user}/lock", admin, post(members::set_locked)),
        Route::page(post_.clone(), "/console/users/{user}/reset", admin, post(members::reset)),
        Route::page(get_, KEYS, user, get(keys::list_of_user)),
        Route::page(post_.clone(), KEYS, user, post(keys::create_of_user)),
        Route::page(
            post_,
            "/console/users/{user}/keys/{key}/revoke",
            user,
            post(keys::revoke_of_user),
        ),
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
                dt { "Role" } dd { (role_word(user.role)) }
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
