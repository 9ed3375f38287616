//! Who asks, and what a route demands.
//!
//! Each route has a [`Right`]. [`Route::mount`] puts the check before the handler, so that none can be
//! forgotten, and a test goes through the table: each role on each route.

mod address;
mod authorize;
mod cookies;
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
    cookies::Cookies,
    credentials::SESSION_IDLE,
    limits::{SignInLimits, TooMany},
    passwords::{PASSWORD_BYTES_MIN, Passwords, fault as password_fault},
    secrets::{KeyKind, KeyText, NoRandomness, digest, random_text},
};
pub use crate::registry::{Digest, Role};

use crate::{App, registry::Project};

/// How long a link is good that lets somebody choose a password.
pub const INVITE_LIFETIME: time::Duration = time::Duration::days(3);

/// What the checks share.
#[derive(Debug)]
pub struct Access {
    pub cookies: Cookies,
    pub passwords: Passwords,
    pub limits: SignInLimits,
}

/// The address that a request comes from, as far as trusted proxies say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    Anonymous,
    /// A user: signed in, or by a key or token.
    User {
        id: i64,
        role: Role,
        by: Means,
    },
    /// A project's key, by the project's row.
    ProjectKey {
        project: i64,
    },
}

/// How a user proves to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Means {
    /// A browser with a cookie.
    Session,
    Key,
}

/// What a route demands of who asks. Rights about a project are about that of the path's `{project}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// Nothing.
    Open,
    /// To see the project: everybody if it is public, else users and its own keys.
    Read,
    /// To add results and change things: members, and the project's own keys.
    Write,
    /// To delete, and to change the project, its keys and pinned plots: members, but no keys of projects.
    Manage,
    /// To be a user.
    SignedIn,
    /// To be an admin.
    Admin,
    /// The handler checks by itself, since the path does not name the project.
    Handler,
}

/// A method and a path with the right that they demand, and the handler.
#[derive(Debug, Clone)]
pub struct Route {
    pub method: Method,
    /// As axum writes paths: `/v0/projects/{project}`.
    pub path: &'static str,
    pub right: Right,
    handler: MethodRouter<App>,
    /// Whether a refusal is a page, or sends a browser to sign in.
    is_page: bool,
}

impl Access {
    /// For a server with that public URL.
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
        Ok(Self(address::client(&parts.headers, peer, app.settings.proxies)))
    }
}

impl Route {
    /// A route of an API.
    pub fn api(
        method: Method,
        path: &'static str,
        right: Right,
        handler: MethodRouter<App>,
    ) -> Self {
        Self { method, path, right, handler, is_page: false }
    }

    /// A page, or what a form of a page is sent to.
    pub fn page(
        method: Method,
        path: &'static str,
        right: Right,
        handler: MethodRouter<App>,
    ) -> Self {
        Self { method, path, right, handler, is_page: true }
    }

    /// The same with another handler, for tests of what is checked before it.
    pub fn with_handler(self, handler: MethodRouter<App>) -> Self {
        Self { handler, ..self }
    }

    /// Whether a refusal sends a browser to sign in.
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
    /// The user's row.
    pub fn user(&self) -> Option<i64> {
        match self {
            Self::User { id, .. } => Some(*id),
            Self::Anonymous | Self::ProjectKey { .. } => None,
        }
    }

    pub fn has_role(&self, least: Role) -> bool {
        matches!(self, Self::User { role, .. } if *role >= least)
    }

    /// Whether the caller has a right about a project, or about none.
    pub fn has(&self, right: Right, project: Option<&Project>) -> bool {
        use crate::registry::Visibility;
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
