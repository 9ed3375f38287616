//! A server in a folder, with a user of each role and two projects.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, Response, StatusCode, header},
};
use time::{Duration, OffsetDateTime};
use tower::ServiceExt as _;
use wingbeat_server::{
    App,
    access::{KeyKind, KeyText, digest, random_text},
    registry::{KeyOwner, NewKey, NewProject, NewUser, Project, Role, User, Visibility},
    router,
    settings::Settings,
};
use wingbeat_track::model::ProjectName;

use crate::place::{Kept, open};

/// Password of all users here.
pub(crate) const PASSWORD: &str = "correct horse battery";

pub(crate) struct Server {
    pub(crate) app: App,
    pub(crate) router: Router,
    pub(crate) kept: Kept,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: String,
}

/// A request under construction.
pub(crate) struct Ask(axum::http::request::Builder, Body);

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let kept = Kept::new();
        let mut settings = kept.settings();
        change(&mut settings);
        let app = open(settings);
        Self { router: router(&app), app, kept }
    }

    pub(crate) fn user(&self, name: &str, role: Role) -> User {
        let new = NewUser { name: name.to_owned(), email: format!("{name}@example.org"), role };
        self.kept
            .registry(|registry| registry.create_user(&new, now()))
            .expect("written")
            .expect("made")
    }

    /// A user with [`PASSWORD`].
    pub(crate) async fn user_with_password(&self, name: &str, role: Role) -> User {
        let user = self.user(name, role);
        let hash = self.app.access.passwords.hash(PASSWORD.to_owned()).await.expect("hashed");
        self.kept
            .registry(|registry| registry.set_password(user.id, &hash, now()))
            .expect("written");
        user
    }

    pub(crate) fn project(&self, name: &str, visibility: Visibility) -> Project {
        let name = ProjectName::new(name).expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility };
        self.kept.registry(|registry| registry.create_project(&new, now())).expect("made")
    }

    pub(crate) fn key(&self, owner: KeyOwner, lifetime: Duration) -> (KeyText, uuid::Uuid) {
        let kind = match owner {
            KeyOwner::User(_) => KeyKind::User,
            KeyOwner::Project(_) => KeyKind::Project,
        };
        let text = KeyText::random(kind).expect("random");
        let (hash, expires) = (text.digest(), now() + lifetime);
        let new = NewKey { owner, name: "ci".to_owned(), hash, creator: None, expires };
        let key = self.kept.registry(|registry| registry.create_key(&new, now())).expect("made");
        (text, key.uuid)
    }

    /// Cookie of a session with this lifetime.
    pub(crate) fn session(&self, user: &User, lifetime: Duration) -> String {
        let secret = random_text().expect("random");
        let expires = now() + lifetime;
        self.kept
            .registry(|registry| registry.create_session(&digest(&secret), user.id, now(), expires))
            .expect("written");
        format!("wingbeat={secret}")
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Answer {
        send(&self.router, ask).await
    }
}

/// Sends a request to any router.
pub(crate) async fn send(router: &Router, Ask(builder, body): Ask) -> Answer {
    let request: Request<Body> = builder.body(body).expect("a request");
    let response: Response<Body> = router.clone().oneshot(request).await.expect("answered");
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.expect("read");
    let body = String::from_utf8(bytes.into()).expect("text");
    Answer { status: parts.status, headers: parts.headers, body }
}

impl Ask {
    pub(crate) fn new(method: Method, path: &str) -> Self {
        Self(Request::builder().method(method).uri(path), Body::empty())
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// A form, as a browser submits it from one of our pages.
    pub(crate) fn form(path: &str, fields: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| {
            let value = value.replace('%', "%25").replace('+', "%2B").replace('&', "%26");
            format!("{name}={}", value.replace(' ', "+"))
        };
        let body = fields.iter().map(pair).collect::<Vec<_>>().join("&");
        let ask = Self(Request::builder().method(Method::POST).uri(path), Body::from(body));
        ask.header(header::CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded")
            .header("sec-fetch-site", "same-origin")
    }

    pub(crate) fn json(method: Method, path: &str, body: &str) -> Self {
        let ask = Self(Request::builder().method(method).uri(path), Body::from(body.to_owned()));
        ask.header(header::CONTENT_TYPE.as_str(), "application/json")
    }

    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        Self(self.0.header(name, value), self.1)
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn cookie(self, cookie: &str) -> Self {
        self.header("cookie", cookie)
    }

    pub(crate) fn body(self, body: Vec<u8>) -> Self {
        Self(self.0, Body::from(body))
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The cookie that the response sets, as a browser returns it.
    pub(crate) fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap_or_default().to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Message of an API error.
    pub(crate) fn message(&self) -> String {
        let json = self.json();
        assert!(json["request_id"].is_string(), "{json}");
        assert_eq!(json["request_id"], self.header("x-request-id"));
        json["message"].as_str().expect("a message").to_owned()
    }
}

pub(crate) fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}
