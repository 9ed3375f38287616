//! Invitation links, and administration of users.

use axum::http::StatusCode;
use time::Duration;
use wingbeat_server::{access::digest, database::Role};

use crate::support::{Answer, Ask, Server, now};

/// Path of the link in a page.
fn link(page: &Answer) -> String {
    let (_, after) = page.body.split_once("/auth/invite/").expect("a link");
    let end = after.find(['<', '"']).expect("an end");
    format!("/auth/invite/{}", &after[..end])
}

#[tokio::test]
async fn the_first_link_makes_the_admin_once() {
    let server = Server::new();
    let expires = now() + Duration::hours(1);
    server
        .kept
        .database(|database| database.create_invite(None, &digest("first"), now(), expires))
        .expect("written");
    let form = async |email: &str, new: &str| {
        let fields = [("name", "Ada"), ("email", email), ("new", new), ("again", new)];
        server.ask(Ask::form("/auth/invite/first", &fields)).await
    };
    assert_eq!(server.ask(Ask::get("/auth/invite/second")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(form("ada", "long enough").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(form("ada@example.org", "short").await.status, StatusCode::BAD_REQUEST);
    let made = form("ada@example.org", "long enough").await;
    assert_eq!(made.status, StatusCode::SEE_OTHER);
    let members = server.ask(Ask::get("/console/users").cookie(&made.cookie())).await;
    assert_eq!(members.status, StatusCode::OK);
    let again = form("eve@example.org", "long enough").await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
    assert!(again.body.contains("used already"));
}

#[tokio::test]
async fn an_admin_invites_and_the_user_chooses_a_password() {
    let server = Server::new();
    let admin = server.session(&server.user("admin", Role::Admin), Duration::hours(1));
    let invite = async |name: &str, email: &str| {
        let fields = [("name", name), ("email", email), ("role", "member")];
        server.ask(Ask::form("/console/users", &fields).cookie(&admin)).await
    };
    let invited = invite("<b>Bob</b>", "bob@example.org").await;
    assert_eq!((invited.status, invited.header("cache-control")), (StatusCode::OK, "no-store"));
    assert!(!invited.body.contains("<b>"), "{}", invited.body);
    assert_eq!(invite("Bob", "Bob@example.org").await.status, StatusCode::CONFLICT);
    assert_eq!(invite("Bob", "nowhere").await.status, StatusCode::BAD_REQUEST);
    let fields = [("new", "long enough"), ("again", "long enough")];
    let accepted = server.ask(Ask::form(&link(&invited), &fields)).await;
    assert_eq!(accepted.status, StatusCode::SEE_OTHER);
    let bob = server
        .kept
        .database(|database| database.user("bob@example.org"))
        .expect("read")
        .expect("there");
    assert_eq!((bob.role, bob.has_password), (Role::Member, true));
    let users = server.ask(Ask::get("/console/users").cookie(&accepted.cookie())).await;
    assert_eq!(users.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_reset_gives_another_password_and_a_lock_none() {
    let server = Server::new();
    let admin = server.session(&server.user("admin", Role::Admin), Duration::hours(1));
    let bob = server.user_with_password("bob", Role::Member).await;
    let session = server.session(&bob, Duration::hours(1));
    let post = async |path: &str, fields: &[(&str, &str)]| {
        server.ask(Ask::form(path, fields).cookie(&admin)).await
    };
    let is_in = async || {
        let answer = server.ask(Ask::get("/console/account").cookie(&session)).await;
        answer.status == StatusCode::OK
    };
    let (first, second) =
        (post("/console/users/bob/reset", &[]).await, post("/console/users/bob/reset", &[]).await);
    assert!(is_in().await);
    assert_eq!(server.ask(Ask::get(&link(&first))).await.status, StatusCode::NOT_FOUND);
    let fields = [("new", "something else"), ("again", "something else")];
    let chosen = server.ask(Ask::form(&link(&second), &fields)).await;
    assert_eq!(chosen.status, StatusCode::SEE_OTHER);
    assert!(!is_in().await);
    let third = post("/console/users/bob/reset", &[]).await;
    assert_eq!(
        post("/console/users/bob/lock", &[("locked", "true")]).await.status,
        StatusCode::SEE_OTHER
    );
    assert_eq!(server.ask(Ask::get(&link(&third))).await.status, StatusCode::NOT_FOUND);
    let fields = [("email", "bob@example.org"), ("password", "something else")];
    let sign_in = async || server.ask(Ask::form("/auth/login", &fields)).await.status;
    assert_eq!(sign_in().await, StatusCode::UNAUTHORIZED);
    post("/console/users/bob/lock", &[("locked", "false")]).await;
    assert_eq!(sign_in().await, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn roles_change_at_once_and_one_admin_stays() {
    let server = Server::new();
    let admin = server.session(&server.user("admin", Role::Admin), Duration::hours(1));
    let bob = server.session(&server.user("bob", Role::Reader), Duration::hours(1));
    let set = async |cookie: &str, user: &str, role: &str| {
        let path = format!("/console/users/{user}/role");
        server.ask(Ask::form(&path, &[("role", role)]).cookie(cookie)).await
    };
    let alone = set(&admin, "admin", "reader").await;
    assert_eq!(alone.status, StatusCode::CONFLICT);
    assert!(alone.body.contains("only admin"), "{}", alone.body);
    assert_eq!(set(&bob, "bob", "admin").await.status, StatusCode::FORBIDDEN);
    assert_eq!(set(&admin, "bob", "owner").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(set(&admin, "nobody", "admin").await.status, StatusCode::NOT_FOUND);
    assert_eq!(set(&admin, "bob", "admin").await.status, StatusCode::SEE_OTHER);
    assert_eq!(set(&bob, "admin", "reader").await.status, StatusCode::SEE_OTHER);
    assert_eq!(set(&admin, "bob", "reader").await.status, StatusCode::FORBIDDEN);
}
