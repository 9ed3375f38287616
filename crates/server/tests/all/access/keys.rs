//! Keys by the API and on pages.

use axum::http::{Method, StatusCode};
use time::Duration;
use wingbeat_server::{
    access::KeyText,
    database::{KeyOwner, Role, Visibility},
};

use crate::support::{Ask, Server};

#[tokio::test]
async fn keys_of_projects_are_made_listed_renamed_and_revoked() {
    let server = Server::new();
    let project = server.project("own", Visibility::Internal);
    let member = server.user("member", Role::Member);
    let (key, _) = server.key(KeyOwner::User(member.id), Duration::hours(1));
    let all = "/v0/projects/own/keys";
    let ask = async |method: Method, path: &str, body: &str| {
        server.ask(Ask::json(method, path, body).key(key.as_str())).await
    };
    let created = ask(Method::POST, all, "{\"name\": \"ci\", \"ttl\": 3600}").await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    let created = created.json();
    let text = created["key"].as_str().expect("a key").to_owned();
    let token = created["token"].as_str().expect("a token").to_owned();
    assert!(text.starts_with("bencher_run_"));
    assert_eq!(created["project"], project.uuid.to_string());
    assert_eq!(created["creator"], member.uuid.to_string());
    let one = format!("{all}/{}", created["uuid"].as_str().expect("a uuid"));
    let listed = ask(Method::GET, all, "").await;
    assert_eq!(listed.header("x-total-count"), "1");
    assert!(
        !listed.body.contains(&text) && !listed.body.contains("bencher_run_"),
        "{}",
        listed.body
    );
    assert_eq!(listed.json()[0]["name"], "ci");
    let viewed = ask(Method::GET, &one, "").await.json();
    assert!(viewed.get("key").is_none() && viewed.get("token").is_none(), "{viewed}");
    assert_eq!(ask(Method::PATCH, &one, "{\"name\": \"nightly\"}").await.json()["name"], "nightly");
    assert_eq!(ask(Method::PATCH, &one, "{\"name\": \" \"}").await.status, StatusCode::BAD_REQUEST);
    // The key can read its project, in both forms, and cannot create keys.
    for form in [&text, &token] {
        let seen = server.ask(Ask::get("/v0/projects/own/keys").key(form)).await;
        assert_eq!(seen.status, StatusCode::FORBIDDEN, "{}", seen.body);
    }
    assert_eq!(ask(Method::DELETE, &one, "").await.status, StatusCode::NO_CONTENT);
    for form in [&text, &token] {
        let refused = server.ask(Ask::get("/v0/projects/own/keys").key(form)).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{}", refused.body);
    }
    assert_eq!(ask(Method::GET, all, "").await.json(), serde_json::json!([]));
    let revoked = ask(Method::GET, &format!("{all}?revoked=true"), "").await.json();
    assert!(revoked[0]["revoked"].is_string(), "{revoked}");
    let missing = format!("{all}/{}", uuid::Uuid::nil());
    assert_eq!(ask(Method::DELETE, &missing, "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn users_make_their_keys_in_a_browser_alone() {
    let server = Server::new();
    let ada = server.user("ada", Role::Member);
    let admin = server.user("admin", Role::Admin);
    let (key, key_id) = server.key(KeyOwner::User(ada.id), Duration::hours(1));
    let cookie = server.session(&ada, Duration::hours(1));
    let admin = server.session(&admin, Duration::hours(1));
    let make = || {
        Ask::json(Method::POST, "/v0/users/ada/keys", "{\"name\": \"ci\"}")
            .header("sec-fetch-site", "same-origin")
    };
    let check = async |ask: Ask, expected: StatusCode| {
        let answer = server.ask(ask).await;
        assert_eq!(answer.status, expected, "{}", answer.body);
        answer
    };
    check(make().key(key.as_str()), StatusCode::FORBIDDEN).await;
    check(make().key(&key.token()), StatusCode::FORBIDDEN).await;
    check(make().cookie(&admin), StatusCode::FORBIDDEN).await;
    check(make(), StatusCode::UNAUTHORIZED).await;
    let form = || Ask::form("/console/users/ada/keys", &[("name", "ci"), ("days", "30")]);
    check(form().key(key.as_str()), StatusCode::FORBIDDEN).await;
    check(form().cookie(&admin), StatusCode::FORBIDDEN).await;
    let made = check(make().cookie(&cookie), StatusCode::CREATED).await.json();
    assert_eq!(made["user"], ada.uuid.to_string());
    assert!(made["key"].as_str().is_some_and(|key| key.starts_with("bencher_user_")));
    // A key can list and revoke its user's keys, including itself.
    let listed = check(Ask::get("/v0/users/ada/keys").key(key.as_str()), StatusCode::OK).await;
    assert_eq!(listed.json().as_array().map(Vec::len), Some(2));
    let own = format!("/v0/users/ada/keys/{key_id}");
    check(Ask::new(Method::DELETE, &own).key(key.as_str()), StatusCode::NO_CONTENT).await;
    check(Ask::get("/v0/users/ada/keys").key(key.as_str()), StatusCode::UNAUTHORIZED).await;
}

#[tokio::test]
async fn users_see_themselves_and_admins_see_all() {
    let server = Server::new();
    let project = server.project("own", Visibility::Public);
    let owner = |name: &str, role| KeyOwner::User(server.user(name, role).id);
    let (ada, _) = server.key(owner("ada", Role::Member), Duration::hours(1));
    let (bob, _) = server.key(owner("bob", Role::Member), Duration::hours(1));
    let (admin, _) = server.key(owner("admin", Role::Admin), Duration::hours(1));
    let (of_project, _) = server.key(KeyOwner::Project(project.id), Duration::hours(1));
    let check = async |path: &str, key: &KeyText, expected: StatusCode| {
        let answer = server.ask(Ask::get(path).key(key.as_str())).await;
        assert_eq!(answer.status, expected, "{path}: {}", answer.body);
    };
    let (ok, none) = (StatusCode::OK, StatusCode::NOT_FOUND);
    for path in ["/v0/users/ada", "/v0/users/ada/keys"] {
        check(path, &ada, ok).await;
        check(path, &admin, ok).await;
        check(path, &bob, none).await;
        check(path, &of_project, none).await;
        let stranger = server.ask(Ask::get(path)).await;
        assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);
    }
    check("/v0/users/nobody", &bob, none).await;
    check("/v0/users", &ada, StatusCode::FORBIDDEN).await;
    check("/v0/users", &admin, ok).await;
}

#[tokio::test]
async fn a_page_shows_a_key_once() {
    let server = Server::new();
    let ada = server.user("ada", Role::Reader);
    let cookie = server.session(&ada, Duration::hours(1));
    let place = "/console/users/ada/keys";
    let fields = [("name", "laptop"), ("days", "30")];
    let made = server.ask(Ask::form(place, &fields).cookie(&cookie)).await;
    assert_eq!((made.status, made.header("cache-control")), (StatusCode::OK, "no-store"));
    let at = made.body.find("bencher_user_").expect("a key");
    let key = &made.body[at..at + "bencher_user_".len() + 30];
    assert_eq!(server.ask(Ask::get("/v0/users/ada").key(key)).await.status, StatusCode::OK);
    let listed = server.ask(Ask::get(place).cookie(&cookie)).await;
    assert!(listed.body.contains("laptop") && !listed.body.contains("bencher_user_"));
    let kept =
        server.kept.database(|database| database.keys(KeyOwner::User(ada.id))).expect("read");
    let revoke = format!("{place}/{}/revoke", kept[0].uuid);
    let revoked = server.ask(Ask::form(&revoke, &[]).cookie(&cookie)).await;
    assert_eq!((revoked.status, revoked.header("location")), (StatusCode::SEE_OTHER, place));
    assert_eq!(
        server.ask(Ask::get("/v0/users/ada").key(key)).await.status,
        StatusCode::UNAUTHORIZED
    );
    let stranger = server.session(&server.user("bob", Role::Member), Duration::hours(1));
    let stranger = server.ask(Ask::get(place).cookie(&stranger)).await;
    assert_eq!(stranger.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn nobody_signs_up_by_the_api() {
    let server = Server::new();
    for path in ["signup", "login", "confirm", "accept"] {
        let answer = server.ask(Ask::json(Method::POST, &format!("/v0/auth/{path}"), "{}")).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert!(answer.message().contains("http://127.0.0.1:6610/console/account"));
    }
    let (key, _) =
        server.key(KeyOwner::User(server.user("ada", Role::Admin).id), Duration::hours(1));
    let tokens = Ask::json(Method::POST, "/v0/users/ada/tokens", "{}").key(key.as_str());
    let answer = server.ask(tokens).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.message().contains("shown as a token"));
}
