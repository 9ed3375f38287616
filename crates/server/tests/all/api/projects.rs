//! Projects, the organization, and the server's metadata.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use wingbeat_server::{
    access::Role,
    api::shapes::{JsonAllowed, JsonOrganization, JsonProject, JsonVisibility},
    database::Visibility,
};

use crate::support::Server;

#[tokio::test]
async fn projects_from_making_to_deletion() {
    let server = Server::new().and_member();
    let (organizations, _) = server.list::<JsonOrganization>("/v0/organizations").await;
    let path = format!("/v0/organizations/{}/projects", organizations[0].slug);
    let new = json!({ "name": "My Parser" });
    let made: JsonProject = server.post(&path, &new).await;
    assert_eq!((made.slug.as_str(), made.visibility), ("my-parser", JsonVisibility::Private));
    assert_eq!(made.organization, organizations[0].uuid);
    let one = "/v0/projects/my-parser";
    assert_eq!(server.get::<JsonProject>(one).await, made);
    let change = json!({ "name": "Parser", "url": "https://example.org", "visibility": "public" });
    let changed: JsonProject = server.patch(one, change).await;
    assert_eq!((changed.name.as_str(), changed.uuid), ("Parser", made.uuid));
    let changed: JsonProject = server.patch(one, json!({ "url": null })).await;
    assert_eq!(changed.url, None);
    for url in ["javascript:alert(1)", "https://a b", "example.org"] {
        let body = json!({ "url": url }).to_string();
        server.refused(Method::PATCH, one, Some(&body), StatusCode::BAD_REQUEST).await;
    }
    let taken = json!({ "name": "x", "slug": "my-parser" }).to_string();
    server.refused(Method::POST, &path, Some(&taken), StatusCode::CONFLICT).await;
    let list = StatusCode::BAD_REQUEST;
    server.refused(Method::PATCH, one, Some("[\"x\"]"), list).await;
    server.refused(Method::DELETE, one, None, StatusCode::FORBIDDEN).await;
    let admin = server.key_of("ada", Role::Admin);
    let answer = server.send(Method::DELETE, one, None, Some(&admin)).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    server.refused(Method::GET, one, None, StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn a_deleted_project_begins_anew() {
    let server = Server::new().and_member();
    server.report("main", 0, 1.0).await;
    let admin = server.key_of("ada", Role::Admin);
    let answer = server.send(Method::DELETE, "/v0/projects/parser", None, Some(&admin)).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    let report = server.report("main", 1, 1.0).await;
    assert_eq!(report.branch.head.version.map(|version| version.number), Some(0));
    assert_eq!(server.list::<Value>("/v0/projects/parser/reports").await.1, 1);
}

#[tokio::test]
async fn internal_projects_are_not_there_for_everybody() {
    let server = Server::new().and_member();
    server.project("open", Visibility::Public);
    server.project("inside", Visibility::Internal);
    let check = async |key: Option<&str>, expected: &[&str]| {
        let answer = server.send(Method::GET, "/v0/projects", None, key).await;
        let projects: Vec<JsonProject> = answer.of(StatusCode::OK);
        let slugs: Vec<_> = projects.iter().map(|project| project.slug.as_str()).collect();
        assert_eq!(slugs, expected);
    };
    check(None, &["open"]).await;
    check(Some(&server.key), &["inside", "open"]).await;
    check(Some(&server.key_of_project("inside")), &["inside", "open"]).await;
    check(Some(&server.key_of_project("open")), &["open"]).await;
    let answer = server.send(Method::GET, "/v0/projects/inside/reports", None, None).await;
    answer.refusal(StatusCode::NOT_FOUND);
    let answer = server
        .send(Method::POST, "/v0/projects/open/branches", Some("{\"name\":\"a\"}"), None)
        .await;
    answer.refusal(StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_the_caller_may_do() {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
    let check = async |permission: &str, key: Option<&str>, expected| {
        let path = format!("/v0/projects/parser/allowed/{permission}");
        let answer = server.send(Method::GET, &path, None, key).await;
        assert_eq!(answer.of::<JsonAllowed>(StatusCode::OK).allowed, expected, "{permission}");
    };
    let project = server.key_of_project("parser");
    check("view", None, true).await;
    check("edit", None, false).await;
    check("edit", Some(&project), true).await;
    check("delete", Some(&project), false).await;
    check("delete", Some(&server.key), true).await;
    check("create_role", Some(&server.key), false).await;
    let path = "/v0/projects/parser/allowed/fly";
    server.refused(Method::GET, path, None, StatusCode::BAD_REQUEST).await;
}

#[tokio::test]
async fn the_document_about_the_routes_is_served() {
    let server = Server::new().and_member();
    for path in ["/v0/server/spec", "/openapi.json"] {
        let document: Value = server.get(path).await;
        assert!(document["openapi"].as_str().expect("a version").starts_with("3."));
        assert!(document["paths"]["/v0/run"]["post"]["requestBody"].is_object());
        assert!(document["components"]["schemas"]["JsonReport"].is_object());
    }
}

#[tokio::test]
async fn the_client_hears_its_own_version() {
    let server = Server::new().and_member();
    let version: Value = server.get("/v0/server/version").await;
    assert_eq!(version["version"], "0.6.12");
    let console: Value = server.get("/v0/server/config/console").await;
    assert_eq!(console["url"], "http://127.0.0.1:6610");
    let twice: Value = server.get("//v0//server/version").await;
    assert_eq!(twice, version, "the client writes two slashes");
    for (method, path) in [(Method::GET, "/v0/nothing"), (Method::DELETE, "/v0/nothing")] {
        server.refused(method, path, None, StatusCode::NOT_FOUND).await;
    }
}

#[tokio::test]
async fn the_organization_is_read_and_cannot_be_changed() {
    let server = Server::new().and_member();
    let organization = "/v0/organizations/wingbeat";
    let check = async |permission: &str, expected: bool| {
        let path = format!("{organization}/allowed/{permission}");
        let answer: Value = server.get(&path).await;
        assert_eq!(answer["allowed"], expected, "{permission}");
    };
    check("view", true).await;
    check("create", true).await;
    check("edit", false).await;
    check("create_role", false).await;
    let path = format!("{organization}/allowed/fly");
    server.refused(Method::GET, &path, None, StatusCode::BAD_REQUEST).await;
    let today = time::OffsetDateTime::now_utc().to_julian_day() - 2_440_588;
    for day in [0, 1] {
        server.report("main", i64::from(today) - 20_000 - day, 1.0).await;
    }
    server.report("main", 0, 1.0).await;
    let usage: Value = server.get(&format!("{organization}/usage")).await;
    assert_eq!((&usage["metrics"], &usage["kind"]), (&json!(2), &json!("self_hosted_free")));
    for (method, path) in [(Method::PATCH, organization), (Method::POST, "/v0/organizations")] {
        let why = server.refused(method, path, Some("{}"), StatusCode::FORBIDDEN).await;
        assert!(why.contains("one organization"), "{why}");
    }
    for path in ["/v0/runners", "/v0/specs", "/v0/projects/parser/jobs"] {
        assert_eq!(server.list::<Value>(path).await, (Vec::new(), 0), "{path}");
    }
}

#[tokio::test]
async fn admins_see_the_settings_and_counts_of_a_server() {
    let mut server = Server::new().and_member();
    server.report("main", 0, 1.0).await;
    for path in ["/v0/server/config", "/v0/server/stats"] {
        server.refused(Method::GET, path, None, StatusCode::FORBIDDEN).await;
    }
    server.key = server.key_of("root", Role::Admin);
    let config: Value = server.get("/v0/server/config").await;
    assert_eq!(config["console"]["url"], server.app.settings.public_url);
    assert!(config["database"]["file"].as_str().is_some_and(|file| !file.is_empty()), "{config}");
    let stats: Value = server.get("/v0/server/stats").await;
    let cohort = |week, total| json!({ "week": week, "month": week, "total": total });
    assert_eq!(stats["users"], cohort(2, 2), "{stats}");
    assert_eq!((&stats["projects"], &stats["reports"]), (&cohort(1, 1), &cohort(0, 1)), "{stats}");
    assert_eq!((&stats["active_projects"], &stats["metrics"]), (&cohort(0, 1), &cohort(0, 1)));
    assert_eq!(stats["admins"].as_array().map(Vec::len), Some(1), "{stats}");
    let why = server.refused(Method::POST, "/v0/server/backup", Some("{}"), StatusCode::FORBIDDEN);
    assert!(why.await.contains("wingbeat serve backup"));
    let why = server.refused(Method::PUT, "/v0/server/config", Some("{}"), StatusCode::FORBIDDEN);
    assert!(why.await.contains("wingbeat serve --help"));
}

#[tokio::test]
async fn users_change_their_names_and_admins_the_rest() {
    let server = Server::new().and_member();
    let (admin, other) = (server.key_of("root", Role::Admin), server.key_of("bob", Role::Reader));
    let check = async |key: &str, user: &str, change: Value, expected: StatusCode| {
        let path = format!("/v0/users/{user}");
        let answer = server.send(Method::PATCH, &path, Some(&change.to_string()), Some(key)).await;
        assert_eq!(answer.status, expected, "{user} {change}: {}", answer.body);
        answer.json()
    };
    let (ok, forbidden) = (StatusCode::OK, StatusCode::FORBIDDEN);
    let named = check(&other, "bob", json!({ "name": "Bob B.", "slug": "bb" }), ok).await;
    assert_eq!((&named["name"], &named["slug"]), (&json!("Bob B."), &json!("bb")));
    check(&other, "bb", json!({ "name": "" }), StatusCode::BAD_REQUEST).await;
    check(&other, "bb", json!({ "slug": "ann" }), StatusCode::CONFLICT).await;
    check(&other, "bb", json!({ "email": "b@example.org" }), forbidden).await;
    check(&other, "bb", json!({ "admin": true }), forbidden).await;
    check(&other, "ann", json!({ "name": "Eve" }), StatusCode::NOT_FOUND).await;
    let raised = check(&admin, "bb", json!({ "admin": true }), ok).await;
    assert_eq!((&raised["admin"], &raised["name"]), (&json!(true), &json!("Bob B.")));
    let lowered = check(&admin, "bb", json!({ "admin": false, "locked": true }), ok).await;
    assert_eq!((&lowered["role"], &lowered["locked"]), (&json!("member"), &json!(true)));
    check(&admin, "root", json!({ "admin": false }), StatusCode::CONFLICT).await;
    check(&other, "bb", json!({ "name": "x" }), StatusCode::UNAUTHORIZED).await;
}
