//! Sign-in and sign-out with a browser.

use axum::http::StatusCode;
use time::Duration;
use wingbeat_server::{
    access::digest,
    database::{Role, User},
};

use crate::support::{Answer, Ask, PASSWORD, Server, now};

async fn sign_in(server: &Server, email: &str, password: &str) -> Answer {
    server.ask(Ask::form("/auth/login", &[("email", email), ("password", password)])).await
}

#[tokio::test]
async fn the_right_password_signs_in() {
    let server = Server::new();
    server.user_with_password("ada", Role::Reader).await;
    let fields =
        [("email", "ADA@example.org"), ("password", PASSWORD), ("next", "/console/account")];
    let answer = server.ask(Ask::form("/auth/login", &fields)).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (StatusCode::SEE_OTHER, "/console/account")
    );
    let set = answer.header("set-cookie");
    assert!(set.starts_with("wingbeat="), "{set}");
    assert!(set.ends_with("; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax"), "{set}");
    let cookie = answer.cookie();
    let account = server.ask(Ask::get("/console/account").cookie(&cookie)).await;
    assert_eq!(account.status, StatusCode::OK);
    assert!(account.body.contains("ada@example.org"));
    let out = server.ask(Ask::form("/auth/logout", &[]).cookie(&cookie)).await;
    assert_eq!(out.status, StatusCode::SEE_OTHER);
    assert!(out.header("set-cookie").starts_with("wingbeat=; Path=/; Max-Age=0;"));
    let account = server.ask(Ask::get("/console/account").cookie(&cookie)).await;
    assert_eq!(account.header("location"), "/auth/login?next=/console/account");
}

#[tokio::test]
async fn cookies_over_tls_are_of_this_host_alone() {
    let server =
        Server::with(|settings| settings.public_url = "https://bench.example.org".to_owned());
    server.user_with_password("ada", Role::Reader).await;
    let answer = sign_in(&server, "ada@example.org", PASSWORD).await;
    let set = answer.header("set-cookie");
    assert!(set.starts_with("__Host-wingbeat="), "{set}");
    assert!(set.ends_with("; Path=/; Max-Age=1209600; Secure; HttpOnly; SameSite=Lax"), "{set}");
    let account = server.ask(Ask::get("/console/account").cookie(&answer.cookie())).await;
    assert_eq!(account.status, StatusCode::OK);
    let renamed = answer.cookie().replace("__Host-", "");
    let account = server.ask(Ask::get("/console/account").cookie(&renamed)).await;
    assert_eq!(account.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn what_is_wrong_is_not_told() {
    let server = Server::new();
    server.user_with_password("ada", Role::Reader).await;
    let locked = server.user_with_password("locked", Role::Reader).await;
    server
        .kept
        .database(|database| database.set_locked(locked.id, true, now()))
        .expect("written")
        .expect("locked");
    server.user("invited", Role::Reader);
    let bodies = async |email: &str, password: &str| {
        let answer = sign_in(&server, email, password).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{email}");
        assert_eq!(answer.header("set-cookie"), "");
        assert_eq!(answer.header("cache-control"), "no-store");
        answer.body.replace(email, "")
    };
    let wrong = bodies("ada@example.org", "wrong horse battery").await;
    assert!(wrong.contains("wrong"));
    assert_eq!(wrong, bodies("nobody@example.org", PASSWORD).await);
    assert_eq!(wrong, bodies("locked@example.org", PASSWORD).await);
    assert_eq!(wrong, bodies("invited@example.org", PASSWORD).await);
    assert_eq!(wrong, bodies("ada", PASSWORD).await);
}

#[tokio::test]
async fn guesses_are_limited_and_owners_are_not_locked_out() {
    let server = Server::with(|settings| settings.proxies = 1);
    server.user_with_password("ada", Role::Reader).await;
    let from = async |address: &str, email: &str, password: &str, cookie: &str| {
        let form = Ask::form("/auth/login", &[("email", email), ("password", password)]);
        // Entries left of the proxy's are client-supplied.
        let form =
            form.header("x-forwarded-for", &format!("192.0.2.{}, {address}", password.len()));
        server.ask(form.cookie(cookie)).await
    };
    let check = async |address: &str, email: &str, password: &str, cookie: &str, expected| {
        let answer = from(address, email, password, cookie).await;
        assert_eq!(answer.status, expected, "{address} {email}");
        answer
    };
    let (ada, wrong) = ("ada@example.org", StatusCode::UNAUTHORIZED);
    let signed_in = check("198.51.100.1", ada, PASSWORD, "", StatusCode::SEE_OTHER).await;
    let mark = signed_in.headers.get_all("set-cookie").iter().nth(1).expect("a mark");
    let mark = mark.to_str().expect("text").split(';').next().expect("a pair").to_owned();
    assert!(mark.starts_with("wingbeat-browser="), "{mark}");
    for guess in 0..10 {
        check("198.51.100.1", ada, &"x".repeat(guess + 1), "", wrong).await;
    }
    let refused = check("198.51.100.1", ada, PASSWORD, "", StatusCode::TOO_MANY_REQUESTS).await;
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    assert!(refused.body.contains("try again in"));
    // Elsewhere, or in a browser that she used before, the owner still gets in; by a forged mark nobody does.
    check("198.51.100.2", ada, PASSWORD, "", StatusCode::SEE_OTHER).await;
    check("198.51.100.1", ada, PASSWORD, &mark, StatusCode::SEE_OTHER).await;
    let forged = format!("{mark}x");
    check("198.51.100.1", ada, PASSWORD, &forged, StatusCode::TOO_MANY_REQUESTS).await;
    // One address may try twenty names, and no more; a mark is of one user.
    for guess in 0..10 {
        let answer = from("198.51.100.3", &format!("{guess}@example.org"), "x", "").await;
        assert_eq!(answer.status, wrong);
        check("198.51.100.3", &format!("{guess}@example.net"), "x", &mark, wrong).await;
    }
    check("198.51.100.3", "bob@example.org", "x", &mark, StatusCode::TOO_MANY_REQUESTS).await;
    check("198.51.100.4", "bob@example.org", "x", "", wrong).await;
}

#[tokio::test]
async fn an_endless_address_is_refused_and_not_remembered() {
    let server = Server::new();
    let long = format!("{}@example.org", "x".repeat(1 << 20));
    // More often than wrong passwords may be sent: nothing is counted, and the address is not sent back.
    for _ in 0..30 {
        let answer = sign_in(&server, &long, PASSWORD).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(answer.body.len() < 10_000, "{}", answer.body.len());
    }
    assert_eq!(sign_in(&server, "a@example.org", "x").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn forms_of_other_sites_do_not_sign_in() {
    let server = Server::new();
    server.user_with_password("ada", Role::Reader).await;
    let fields = "email=ada@example.org&password=correct+horse+battery";
    let form = || {
        Ask::new(axum::http::Method::POST, "/auth/login")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(fields.into())
    };
    let check = async |ask: Ask, expected: StatusCode| {
        assert_eq!(server.ask(ask).await.status, expected);
    };
    check(form().header("sec-fetch-site", "cross-site"), StatusCode::FORBIDDEN).await;
    check(form(), StatusCode::FORBIDDEN).await;
    check(form().header("sec-fetch-site", "same-origin"), StatusCode::SEE_OTHER).await;
}

#[tokio::test]
async fn a_session_that_is_used_lasts_longer() {
    let server = Server::new();
    let ada: User = server.user("ada", Role::Reader);
    let check = async |lifetime: Duration, expected: bool| {
        let cookie = server.session(&ada, lifetime);
        let answer = server.ask(Ask::get("/console/account").cookie(&cookie)).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.cookie() == cookie, expected, "{lifetime}");
        let (_, secret) = cookie.split_once('=').expect("a pair");
        let session = server
            .kept
            .database(|database| database.session(&digest(secret), now()))
            .expect("read")
            .expect("there");
        let is_longer = session.expires > now() + lifetime + Duration::hours(1);
        assert_eq!(is_longer, expected, "{lifetime}");
    };
    check(Duration::days(14), false).await;
    check(Duration::days(12), true).await;
    check(Duration::minutes(1), true).await;
}

#[tokio::test]
async fn another_password_ends_other_sessions() {
    let server = Server::new();
    let ada = server.user_with_password("ada", Role::Reader).await;
    let (here, there) =
        (server.session(&ada, Duration::days(1)), server.session(&ada, Duration::days(1)));
    let change = async |current: &str, new: &str, again: &str| {
        let fields = [("current", current), ("new", new), ("again", again)];
        server.ask(Ask::form("/auth/password", &fields).cookie(&here)).await
    };
    let check = |answer: &Answer, expected: &str| {
        assert!(answer.status.is_client_error());
        assert!(answer.body.contains(expected), "{}", answer.body);
    };
    check(&change("wrong", "another password", "another password").await, "wrong");
    check(&change(PASSWORD, "another password", "another passwort").await, "differ");
    check(&change(PASSWORD, "short", "short").await, "longer");
    let changed = change(PASSWORD, "another password", "another password").await;
    assert_eq!(changed.status, StatusCode::SEE_OTHER);
    let status =
        async |cookie: &str| server.ask(Ask::get("/console/account").cookie(cookie)).await.status;
    assert_eq!(status(&changed.cookie()).await, StatusCode::OK);
    assert_eq!(status(&here).await, StatusCode::SEE_OTHER);
    assert_eq!(status(&there).await, StatusCode::SEE_OTHER);
    assert_eq!(
        sign_in(&server, "ada@example.org", PASSWORD).await.status,
        StatusCode::UNAUTHORIZED
    );
    let again = sign_in(&server, "ada@example.org", "another password").await;
    assert_eq!(again.status, StatusCode::SEE_OTHER);
}
