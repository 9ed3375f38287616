//! A server with empty database, requests to it, and its responses.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use serde::{Serialize, de::DeserializeOwned};
use time::{Duration, OffsetDateTime};
use tower::ServiceExt as _;
use uuid::Uuid;
use wingbeat_server::{
    App,
    access::{KeyKind, KeyText, digest, random_text},
    api::shapes::JsonReport,
    database::{KeyOwner, NewKey, NewProject, NewUser, Project, Role, User, Visibility},
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
    /// Key that typed requests send: a member's, or empty.
    pub(crate) key: String,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// A request under construction.
pub(crate) struct Ask(axum::http::request::Builder, Body);

impl Server {
    /// A server without users.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let kept = Kept::new();
        let mut settings = kept.settings();
        change(&mut settings);
        let app = open(settings);
        Self { router: router(&app), app, kept, key: String::new() }
    }

    /// The server with a member, whose key typed requests send.
    pub(crate) fn and_member(mut self) -> Self {
        self.key = self.key_of("ann", Role::Member);
        self
    }

    pub(crate) fn user(&self, name: &str, role: Role) -> User {
        let new = NewUser { name: name.to_owned(), email: format!("{name}@example.org"), role };
        let made = self.kept.database(|database| database.create_user(&new, now()));
        made.expect("written").expect("made")
    }

    /// A user with [`PASSWORD`].
    pub(crate) async fn user_with_password(&self, name: &str, role: Role) -> User {
        let user = self.user(name, role);
        let hash = self.app.access.passwords.hash(PASSWORD.to_owned()).await.expect("hashed");
        let set = self.kept.database(|database| database.set_password(user.id, &hash, now()));
        set.expect("written");
        user
    }

    pub(crate) fn project(&self, name: &str, visibility: Visibility) -> Project {
        let name = ProjectName::new(name).expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility };
        self.kept.database(|database| database.create_project(&new, now())).expect("made")
    }

    pub(crate) fn key(&self, owner: KeyOwner, lifetime: Duration) -> (KeyText, Uuid) {
        let kind = match owner {
            KeyOwner::User(_) => KeyKind::User,
            KeyOwner::Project(_) => KeyKind::Project,
        };
        let text = KeyText::random(kind).expect("random");
        let (hash, expires) = (text.digest(), now() + lifetime);
        let new = NewKey { owner, name: "ci".to_owned(), hash, creator: None, expires };
        let key = self.kept.database(|database| database.create_key(&new, now())).expect("made");
        (text, key.uuid)
    }

    /// Key of a new user.
    pub(crate) fn key_of(&self, name: &str, role: Role) -> String {
        let owner = KeyOwner::User(self.user(name, role).id);
        self.key(owner, Duration::HOUR).0.as_str().to_owned()
    }

    pub(crate) fn key_of_project(&self, project: &str) -> String {
        let found = self.kept.database(|database| database.project(project));
        let owner = KeyOwner::Project(found.expect("read").expect("a project").id);
        self.key(owner, Duration::HOUR).0.as_str().to_owned()
    }

    /// Cookie of a session with this lifetime.
    pub(crate) fn session(&self, user: &User, lifetime: Duration) -> String {
        let secret = random_text().expect("random");
        let (hash, expires) = (digest(&secret), now() + lifetime);
        let create =
            self.kept.database(|database| database.create_session(&hash, user.id, now(), expires));
        create.expect("written");
        format!("wingbeat={secret}")
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Answer {
        send(&self.router, ask).await
    }

    /// Sends a request to the API, with or without a key.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        key: Option<&str>,
    ) -> Answer {
        let ask = match body {
            Some(body) => Ask::json(method, path, body),
            None => Ask::new(method, path),
        };
        self.ask(key.into_iter().fold(ask, Ask::key)).await
    }

    async fn typed<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: impl Serialize,
        expected: StatusCode,
    ) -> T {
        let body = serde_json::to_string(&body).expect("JSON");
        self.send(method, path, Some(&body), Some(&self.key)).await.of(expected)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        self.send(Method::GET, path, None, Some(&self.key)).await.of(StatusCode::OK)
    }

    /// A list with its total count.
    pub(crate) async fn list<T: DeserializeOwned>(&self, path: &str) -> (Vec<T>, u64) {
        let answer = self.send(Method::GET, path, None, Some(&self.key)).await;
        (answer.of(StatusCode::OK), answer.header("x-total-count").parse().expect("a count"))
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: impl Serialize) -> T {
        self.typed(Method::POST, path, body, StatusCode::CREATED).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(&self, path: &str, body: impl Serialize) -> T {
        self.typed(Method::PATCH, path, body, StatusCode::OK).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(&self, path: &str, body: impl Serialize) -> T {
        self.typed(Method::PUT, path, body, StatusCode::OK).await
    }

    pub(crate) async fn delete(&self, path: &str) {
        let answer = self.send(Method::DELETE, path, None, Some(&self.key)).await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::NO_CONTENT, ""), "{path}");
    }

    /// Sends a request that must fail; returns the error message.
    pub(crate) async fn refused(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        status: StatusCode,
    ) -> String {
        self.send(method, path, body, Some(&self.key)).await.refusal(status)
    }

    /// A page's text.
    pub(crate) async fn page(&self, path: &str, status: StatusCode) -> String {
        let answer = self.ask(Ask::get(path).key(&self.key)).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        answer.body
    }

    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask(Ask::form(path, fields).key(&self.key)).await
    }

    /// Posts a value of a benchmark `parse` on a branch; returns the report.
    pub(crate) async fn report(&self, branch: &str, day: i64, value: f64) -> JsonReport {
        self.post("/v0/run", run(branch, day, value)).await
    }
}

/// Sends a request to any router.
pub(crate) async fn send(router: &Router, Ask(builder, body): Ask) -> Answer {
    let request = builder.body(body).expect("a request");
    let response = router.clone().oneshot(request).await.expect("answered");
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
        Self::new(Method::POST, path)
            .header(header::CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded")
            .header("sec-fetch-site", "same-origin")
            .body(body.into())
    }

    pub(crate) fn json(method: Method, path: &str, body: &str) -> Self {
        Self::new(method, path)
            .header(header::CONTENT_TYPE.as_str(), "application/json")
            .body(body.into())
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

    /// The body of a response with this status.
    pub(crate) fn of<T: DeserializeOwned>(&self, status: StatusCode) -> T {
        assert_eq!(self.status, status, "{}", self.body);
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        self.of(self.status)
    }

    /// Message of an API error, in the client's format.
    pub(crate) fn message(&self) -> String {
        let json = self.json();
        assert!(json["request_id"].is_string(), "{json}");
        assert_eq!(json["request_id"], self.header("x-request-id"));
        json["message"].as_str().expect("a message").to_owned()
    }

    /// Message of an API error with this status.
    pub(crate) fn refusal(&self, status: StatusCode) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        self.message()
    }
}

/// A run for the project `parser`, this many days after a fixed time.
pub(crate) fn run(branch: &str, day: i64, value: f64) -> serde_json::Value {
    let start = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000 + day);
    let time = |time: OffsetDateTime| serde_json::to_value(Time(time)).expect("JSON");
    let results = serde_json::json!({ "parse": { "latency": { "value": value } } });
    serde_json::json!({
        "project": "parser",
        "branch": branch,
        "testbed": "ci",
        "hash": format!("{day:040x}"),
        "start_time": time(start),
        "end_time": time(start + Duration::SECOND),
        "results": [results.to_string()],
        "settings": { "adapter": "json" },
    })
}

/// The run with some members replaced.
pub(crate) fn with(mut run: serde_json::Value, more: serde_json::Value) -> serde_json::Value {
    let serde_json::Value::Object(more) = more else { panic!("{more} is not an object") };
    for (member, value) in more {
        run[member] = value;
    }
    run
}

#[derive(Serialize)]
struct Time(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

/// Number of a report's alerts, and of active ones.
pub(crate) fn alert_counts(report: &JsonReport) -> (u64, u64) {
    let alerts = &report.counts.as_ref().expect("counts").alerts;
    (alerts.total, alerts.active)
}

pub(crate) fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}
