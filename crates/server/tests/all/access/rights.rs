//! Each kind of caller on each route. Expectations follow from the route's right.

use axum::{
    Router,
    http::{Method, StatusCode},
    routing::any,
};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_server::{
    access::{Right, Route},
    database::{KeyOwner, Role, Visibility},
    service::routes,
};

use wingbeat_track::{
    model::{BranchName, ProjectName, Report, TestbedName},
    store::Document,
};

use crate::support::{Ask, Server, run, send, with};

/// The caller. Each user role authenticates by session and by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Anonymous,
    Reader,
    Member,
    Admin,
    /// Key of the project in the path.
    OwnKey,
    OtherKey,
    /// A revoked, expired or invented key, or one of a locked user.
    BadKey,
}

/// Credentials, and whose they are.
struct Credential {
    who: Who,
    name: &'static str,
    header: Option<(&'static str, String)>,
}

const THROUGH: &str = "let through";

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Through,
    SignIn,
    Refused(StatusCode),
}

fn expected(route: &Route, who: Who, visibility: Visibility) -> Outcome {
    let has_project = route.path.contains("{project}");
    let is_user = matches!(who, Who::Reader | Who::Member | Who::Admin);
    let is_member = matches!(who, Who::Member | Who::Admin);
    let is_own_key = who == Who::OwnKey && has_project;
    let sees = is_user || is_own_key || (has_project && visibility == Visibility::Public);
    let may = match route.right {
        Right::Open | Right::Handler => true,
        Right::Read => sees,
        Right::Write => is_member || is_own_key,
        Right::Manage => is_member,
        Right::SignedIn => is_user,
        Right::Admin => who == Who::Admin,
    };
    match who {
        Who::BadKey => Outcome::Refused(StatusCode::UNAUTHORIZED),
        _ if may => Outcome::Through,
        Who::Anonymous if route.is_page() => Outcome::SignIn,
        _ if has_project && !sees => Outcome::Refused(StatusCode::NOT_FOUND),
        Who::Anonymous => Outcome::Refused(StatusCode::UNAUTHORIZED),
        _ => Outcome::Refused(StatusCode::FORBIDDEN),
    }
}

/// All credentials, for paths that name the first project.
fn credentials(server: &Server, own: i64, other: i64) -> Vec<Credential> {
    let long = Duration::hours(1);
    let bearer = |key: &str| Some(("authorization", format!("Bearer {key}")));
    let mut all = vec![
        Credential { who: Who::Anonymous, name: "nobody", header: None },
        Credential { who: Who::BadKey, name: "made-up key", header: bearer("bencher_user_x") },
    ];
    let mut add = |who, name, header| all.push(Credential { who, name, header });
    for (who, role) in
        [(Who::Reader, Role::Reader), (Who::Member, Role::Member), (Who::Admin, Role::Admin)]
    {
        let user = server.user(&format!("{who:?}"), role);
        let (key, _) = server.key(KeyOwner::User(user.id), long);
        add(who, "key", bearer(key.as_str()));
        add(who, "token", bearer(&key.token()));
        add(who, "cookie", Some(("cookie", server.session(&user, long))));
        let ended = server.session(&user, -Duration::seconds(1));
        add(Who::Anonymous, "expired cookie", Some(("cookie", ended)));
        let (key, _) = server.key(KeyOwner::User(user.id), -Duration::seconds(1));
        add(Who::BadKey, "expired key", bearer(key.as_str()));
        let (key, uuid) = server.key(KeyOwner::User(user.id), long);
        let owner = KeyOwner::User(user.id);
        server
            .kept
            .database(|database| database.revoke_key(owner, uuid, crate::support::now()))
            .expect("revoked");
        add(Who::BadKey, "revoked key", bearer(key.as_str()));
    }
    let locked = server.user("Locked", Role::Admin);
    let (key, _) = server.key(KeyOwner::User(locked.id), long);
    add(
        Who::Anonymous,
        "cookie of who is locked out",
        Some(("cookie", server.session(&locked, long))),
    );
    let lock = server
        .kept
        .database(|database| database.set_locked(locked.id, true, crate::support::now()));
    lock.expect("written").expect("locked");
    add(Who::BadKey, "key of who is locked out", bearer(key.as_str()));
    for (who, project) in [(Who::OwnKey, own), (Who::OtherKey, other)] {
        let (key, uuid) = server.key(KeyOwner::Project(project), long);
        add(who, "project's key", bearer(key.as_str()));
        add(who, "project's token", bearer(&key.token()));
        let (key, _) = server.key(KeyOwner::Project(project), -Duration::seconds(1));
        add(Who::BadKey, "project's expired key", bearer(key.as_str()));
        assert!(!uuid.is_nil());
    }
    all
}

/// A path with its parameters filled in.
fn filled(path: &str, project: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{project}" => project,
        part if part.starts_with('{') => "0",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn each_caller_on_each_route() {
    let mut checked = 0;
    for visibility in [Visibility::Public, Visibility::Internal] {
        let server = Server::new();
        let own = server.project("own", visibility);
        let other = server.project("other", visibility);
        let credentials = credentials(&server, own.id, other.id);
        for route in routes() {
            let marked = route.clone().with_handler(any(|| async { THROUGH }));
            let router = Route::mount(vec![marked], Router::new(), &server.app);
            let router = router.with_state(server.app.clone());
            for Credential { who, name, header } in &credentials {
                let ask = Ask::new(route.method.clone(), &filled(route.path, "own"));
                let mut ask = ask.header("sec-fetch-site", "same-origin");
                if let Some((header, value)) = header {
                    ask = ask.header(header, value);
                }
                let answer = send(&router, ask).await;
                let found = match answer.status {
                    StatusCode::OK if answer.body == THROUGH => Outcome::Through,
                    StatusCode::SEE_OTHER => {
                        assert!(answer.header("location").starts_with("/auth/login?next=/"));
                        Outcome::SignIn
                    }
                    status => Outcome::Refused(status),
                };
                let expected = expected(&route, *who, visibility);
                let case =
                    format!("{} {} {visibility:?}: {who:?} by {name}", route.method, route.path);
                assert_eq!(found, expected, "{case}: {}", answer.body);
                checked += 1;
            }
        }
    }
    assert!(checked > 1_000, "{checked}");
}

#[test]
fn what_changes_something_demands_a_right() {
    // These check by themselves: a password, a link, a cookie; or they only say where to create keys.
    let without = [
        "/auth/login",
        "/auth/logout",
        "/auth/invite/{token}",
        "/v0/auth/signup",
        "/v0/auth/login",
        "/v0/auth/confirm",
        "/v0/auth/accept",
    ];
    for route in routes().iter().filter(|route| !route.method.is_safe()) {
        let is_known = without.contains(&route.path);
        let demands = !matches!(route.right, Right::Open | Right::Read);
        assert!(demands != is_known, "{} {} demands {:?}", route.method, route.path, route.right);
    }
}

#[tokio::test]
async fn a_stranger_cannot_tell_an_internal_project_from_none() {
    let server = Server::new();
    let secret = server.project("Secret Launch X", Visibility::Internal);
    server.project("own", Visibility::Public);
    let key = server.key_of_project("own");
    let uuid = secret.uuid.to_string();
    // By slug, name and UUID, each beside one of the same kind that does not exist.
    let names = [
        (secret.slug.as_str(), "secret-launch-y"),
        ("Secret Launch X", "Secret Launch Y"),
        (&uuid, "6e0f0c9e-0000-4000-8000-000000000000"),
    ];
    let asks: [fn(&str) -> Ask; 4] = [
        |name| Ask::get(&format!("/v0/projects/{}/keys", name.replace(' ', "%20"))),
        |name| {
            let run = with(run("main", 0, 1.0), json!({ "project": name }));
            Ask::json(Method::POST, "/v0/run", &run.to_string())
        },
        |name| {
            Ask::json(Method::POST, "/push.v1.PusherService/Push", "{}")
                .header("x-scope-orgid", name)
        },
        |name| Ask::json(Method::POST, "/v1/reports", &document(name)),
    ];
    for (known, unknown) in names {
        for (at, ask) in asks.iter().enumerate() {
            for key in [None, Some(key.as_str())] {
                let asked = async |name: &str| {
                    let answer = server.ask(key.into_iter().fold(ask(name), Ask::key)).await;
                    (answer.status, answer.json()["message"].to_string())
                };
                let ((status, text), (other, none)) = (asked(known).await, asked(unknown).await);
                let case = format!("{at} {known} {key:?}");
                assert!(status.is_client_error() && status == other, "{case}: {status} {other}");
                assert_eq!(text, none.replace(unknown, known), "{case}");
            }
        }
    }
}

/// A report of a project, as `wingbeat export` sends it.
fn document(project: &str) -> String {
    let report = Report::new(
        Uuid::now_v7(),
        ProjectName::new(project).expect("a name"),
        BranchName::new("main").expect("a name"),
        TestbedName::new("ci").expect("a name"),
        OffsetDateTime::UNIX_EPOCH,
    );
    Document::Report(Box::new(report)).line().expect("JSON")
}

#[tokio::test]
async fn other_sites_cannot_use_a_cookie() {
    let server = Server::new();
    let project = server.project("own", Visibility::Public);
    let member = server.user("member", Role::Member);
    let cookie = server.session(&member, Duration::hours(1));
    let (key, _) = server.key(KeyOwner::User(member.id), Duration::hours(1));
    let path = format!("/v0/projects/{}/keys", project.slug);
    let check = async |ask: Ask, expected: StatusCode| {
        let answer = server.ask(ask).await;
        assert_eq!(answer.status, expected, "{}", answer.body);
    };
    let make = || Ask::json(Method::POST, &path, "{\"name\": \"a\"}");
    let (made, refused) = (StatusCode::CREATED, StatusCode::FORBIDDEN);
    check(make().cookie(&cookie).header("sec-fetch-site", "same-origin"), made).await;
    check(make().cookie(&cookie).header("origin", "http://127.0.0.1:6610"), made).await;
    check(make().cookie(&cookie).header("sec-fetch-site", "cross-site"), refused).await;
    check(make().cookie(&cookie).header("sec-fetch-site", "same-site"), refused).await;
    check(make().cookie(&cookie).header("origin", "https://evil.example"), refused).await;
    check(make().cookie(&cookie), refused).await;
    // A client with a key is not subject to CSRF.
    check(make().key(key.as_str()), made).await;
    check(make().key(key.as_str()).header("origin", "https://evil.example"), made).await;
    // Reads change nothing, and other sites cannot see the response.
    check(Ask::get(&path).cookie(&cookie).header("sec-fetch-site", "cross-site"), StatusCode::OK)
        .await;
}
