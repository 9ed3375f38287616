//! A server in a folder with one user, whose key is sent by default.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use serde::{Serialize, de::DeserializeOwned};
use time::{Duration, OffsetDateTime};
use tower::ServiceExt as _;
use wingbeat_server::{
    access::{KeyKind, KeyText, Role},
    api::shapes::{JsonAlert, JsonReport},
    registry::{KeyOwner, NewKey, NewProject, NewUser, Visibility},
    router,
    settings::Settings,
};
use wingbeat_track::model::ProjectName;

use crate::place::{Kept, open};

pub(crate) struct Server {
    router: Router,
    /// Key of a member.
    pub(crate) key: String,
    pub(crate) kept: Kept,
}

/// A complete response.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let kept = Kept::new();
        let mut settings = kept.settings();
        change(&mut settings);
        let app = open(settings);
        let router = router(&app);
        let mut server = Self { router, key: String::new(), kept };
        server.key = server.key_of("ann", Role::Member);
        server
    }

    pub(crate) fn key_of(&self, name: &str, role: Role) -> String {
        let email = format!("{name}@example.org");
        let new = NewUser { name: name.to_owned(), email, role };
        let user = self
            .kept
            .registry(|registry| registry.create_user(&new, now()))
            .expect("written")
            .expect("made");
        self.new_key(KeyOwner::User(user.id), KeyKind::User)
    }

    pub(crate) fn key_of_project(&self, project: &str) -> String {
        let project = self
            .kept
            .registry(|registry| registry.project(project))
            .expect("read")
            .expect("a project");
        self.new_key(KeyOwner::Project(project.id), KeyKind::Project)
    }

    fn new_key(&self, owner: KeyOwner, kind: KeyKind) -> String {
        let text = KeyText::random(kind).expect("random");
        let (hash, expires) = (text.digest(), now() + Duration::HOUR);
        let new = NewKey { owner, name: "ci".to_owned(), hash, creator: None, expires };
        self.kept.registry(|registry| registry.create_key(&new, now())).expect("made");
        text.as_str().to_owned()
    }

    pub(crate) fn project(&self, name: &str, visibility: Visibility) {
        let name = ProjectName::new(name).expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility };
        self.kept.registry(|registry| registry.create_project(&new, now())).expect("made");
    }

    /// Sends a request with or without a key.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        key: Option<&str>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_owned()));
        self.answered(request.body(body).expect("a request")).await
    }

    /// Submits a form like one of our pages.
    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let pair = |(name, value): &(&str, &str)| format!("{name}={}", value.replace(' ', "+"));
        let body = fields.iter().map(pair).collect::<Vec<_>>().join("&");
        let request = Request::post(path)
            .header("authorization", format!("Bearer {}", self.key))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("sec-fetch-site", "same-origin")
            .body(Body::from(body));
        self.answered(request.expect("a request")).await
    }

    async fn answered(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("answered");
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("read").to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&str>) -> Answer {
        self.send(method, path, body, Some(&self.key)).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        self.ask(Method::GET, path, None).await.of(StatusCode::OK)
    }

    /// A list with its total count.
    pub(crate) async fn list<T: DeserializeOwned>(&self, path: &str) -> (Vec<T>, u64) {
        let answer = self.ask(Method::GET, path, None).await;
        let count = answer.headers.get("x-total-count").expect("a count");
        let count = count.to_str().expect("text").parse().expect("a number");
        (answer.of(StatusCode::OK), count)
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: impl Serialize) -> T {
        let body = serde_json::to_string(&body).expect("JSON");
        self.ask(Method::POST, path, Some(&body)).await.of(StatusCode::CREATED)
    }

    pub(crate) async fn patch<T: DeserializeOwned>(&self, path: &str, body: impl Serialize) -> T {
        let body = serde_json::to_string(&body).expect("JSON");
        self.ask(Method::PATCH, path, Some(&body)).await.of(StatusCode::OK)
    }

    pub(crate) async fn put<T: DeserializeOwned>(&self, path: &str, body: impl Serialize) -> T {
        let body = serde_json::to_string(&body).expect("JSON");
        self.ask(Method::PUT, path, Some(&body)).await.of(StatusCode::OK)
    }

    pub(crate) async fn delete(&self, path: &str) {
        let answer = self.ask(Method::DELETE, path, None).await;
        assert_eq!((answer.status, answer.body), (StatusCode::NO_CONTENT, Vec::new()), "{path}");
    }

    /// Sends a request that must fail; returns the error message.
    pub(crate) async fn refused(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        status: StatusCode,
    ) -> String {
        self.ask(method, path, body).await.refusal(status)
    }

    /// Posts values of a benchmark `parse` on a branch; returns the report.
    pub(crate) async fn report(&self, branch: &str, day: i64, value: f64) -> JsonReport {
        self.post("/v0/run", run(branch, day, value)).await
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
    let serde_json::Value::Object(more) = more else { panic!("{more} is no object") };
    for (member, value) in more {
        run[member] = value;
    }
    run
}

#[derive(Serialize)]
struct Time(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

impl Answer {
    pub(crate) fn of<T: DeserializeOwned>(&self, status: StatusCode) -> T {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Message of an error, in the client's format.
    pub(crate) fn refusal(&self, status: StatusCode) -> String {
        #[derive(serde::Deserialize)]
        struct Refusal {
            request_id: uuid::Uuid,
            message: String,
        }
        let Refusal { request_id, message } = self.of(status);
        assert!(!request_id.is_nil());
        message
    }
}

pub(crate) fn benchmarks(alerts: &[JsonAlert]) -> Vec<&str> {
    alerts.iter().map(|alert| alert.benchmark.name.as_str()).collect()
}

pub(crate) fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}
