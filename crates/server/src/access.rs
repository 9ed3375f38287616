//! Authentication and authorization of requests.
//!
//! Each route has a [`Right`]. [`Route::mount`] puts the check before the handler, so that none can be forgotten. A
//! test covers the full table: each role on each route.

mod authorize;
mod credentials;
mod limits;
mod origin;
mod passwords;
mod secrets;

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use axum::{
    Router,
    extract::{ConnectInfo, FromRequestParts},
    http::{Method, request::Parts},
    routing::MethodRouter,
};

pub use self::{
    credentials::{Cookies, SESSION_IDLE},
    limits::{Attempt, SignInLimits, TooMany},
    passwords::{PASSWORD_BYTES_MIN, Passwords, fault as password_fault},
    secrets::{KeyKind, KeyText, NoRandomness, browser_mark, digest, known_browser, random_text},
};
pub use crate::database::{Digest, Role};

use crate::{App, database::Project};

/// Lifetime of a link to set a password.
pub const INVITE_LIFETIME: time::Duration = time::Duration::days(3);

/// State shared by the checks.
#[derive(Debug)]
pub struct Access {
    pub cookies: Cookies,
    pub passwords: Passwords,
    pub limits: SignInLimits,
}

/// Client address of a request, taking trusted proxies into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    Anonymous,
    /// A user, authenticated by session, key or token.
    User {
        id: i64,
        role: Role,
        by: Means,
    },
    /// A project's key; the project's row.
    ProjectKey {
        project: i64,
    },
}

/// How a user authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Means {
    /// A browser session cookie.
    Session,
    Key,
}

/// The right that a route requires. Project rights apply to the path's `{project}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// None.
    Open,
    /// View the project: everybody if it is public, otherwise users and its own keys.
    Read,
    /// Add results and edit entities: members, and the project's own keys.
    Write,
    /// Delete, and change the project, its keys and pinned plots: members, but not project keys.
    Manage,
    /// Any user.
    SignedIn,
    /// Any admin.
    Admin,
    /// The handler checks, because the path does not name the project.
    Handler,
}

/// A method and path, the right required, and the handler.
#[derive(Debug, Clone)]
pub struct Route {
    pub method: Method,
    /// In axum's syntax: `/v0/projects/{project}`.
    pub path: &'static str,
    pub right: Right,
    handler: MethodRouter<App>,
    /// Whether a refusal is an HTML page or a redirect to sign in.
    is_page: bool,
}

impl Access {
    /// For a server with this public URL.
    pub fn of(public_url: &str) -> Self {
        Self {
            cookies: Cookies::of(public_url),
            passwords: Passwords::default(),
            limits: SignInLimits::default(),
        }
    }
}

impl FromRequestParts<App> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or((Ipv4Addr::UNSPECIFIED, 0).into(), |it| it.0);
        Ok(Self(origin::client(&parts.headers, peer, app.settings.proxies)))
    }
}

impl Route {
    /// A route of the API.
    pub fn api(
        method: Method,
        path: &'static str,
        right: Right,
        handler: MethodRouter<App>,
    ) -> Self {
        Self { method, path, right, handler, is_page: false }
    }

    /// A page, or the target of a form.
    pub fn page(
        method: Method,
        path: &'static str,
        right: Right,
        handler: MethodRouter<App>,
    ) -> Self {
        Self { method, path, right, handler, is_page: true }
    }

    /// The same route with another handler, to test the check alone.
    pub fn with_handler(self, handler: MethodRouter<App>) -> Self {
        Self { handler, ..self }
    }

    /// Whether a refusal redirects the browser to sign in.
    pub fn is_page(&self) -> bool {
        self.is_page
    }

    /// Adds routes to a router, each behind its check.
    pub fn mount(routes: Vec<Self>, router: Router<App>, app: &App) -> Router<App> {
        routes.into_iter().fold(router, |router, route| {
            let check = authorize::Check::of(&route, app.clone());
            let layer = axum::middleware::from_fn_with_state(check, authorize::authorize);
            router.route(route.path, route.handler.layer(layer))
        })
    }
}

impl Caller {
    /// Row of the user.
    pub fn user(&self) -> Option<i64> {
        match self {
            Self::User { id, .. } => Some(*id),
            Self::Anonymous | Self::ProjectKey { .. } => None,
        }
    }

    /// Whether the caller is this user, in a browser.
    pub fn is_signed_in_as(&self, user: i64) -> bool {
        matches!(self, Self::User { id, by: Means::Session, .. } if *id == user)
    }

    pub fn has_role(&self, least: Role) -> bool {
        matches!(self, Self::User { role, .. } if *role >= least)
    }

    /// Whether the caller has a right on a project, or a global one.
    pub fn has(&self, right: Right, project: Option<&Project>) -> bool {
        use crate::database::Visibility;
        let is_its_key = matches!(
            (self, project),
            (Self::ProjectKey { project: own }, Some(project)) if *own == project.id
        );
        match right {
            Right::Open | Right::Handler => true,
            Right::Read => {
                let is_public = project.is_some_and(|it| it.visibility == Visibility::Public);
                is_public || is_its_key || self.has_role(Role::Reader)
            }
            Right::Write => is_its_key || self.has_role(Role::Member),
            Right::Manage => self.has_role(Role::Member),
            Right::SignedIn => self.has_role(Role::Reader),
            Right::Admin => self.has_role(Role::Admin),
        }
    }
}
