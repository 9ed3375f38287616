//! Pushed profiles: permissions, projects, encodings, and error messages.

use axum::http::{Method, StatusCode};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message as _;
use time::Duration;
use wingbeat_pprof::proto::{Function, Label, Line, Location, Profile, Sample, ValueType};
use wingbeat_pprof::pyroscope::{LabelPair, PushRequest, RawProfileSeries, RawSample};
use wingbeat_server::database::{KeyOwner, Role, Visibility};
use wingbeat_server::profiles::Span;

use crate::support::{Answer, Ask, Server, now};

const PATH: &str = "/push.v1.PusherService/Push";

/// A current profile of a service; half of it is labelled.
fn profile() -> Profile {
    let text = ["", "cpu", "nanoseconds", "main", "hot", "tag", "<b>"];
    let sample =
        |ids: &[u64], value, label| Sample { location_id: ids.to_vec(), value: vec![value], label };
    let location =
        |id| Location { id, line: vec![Line { function_id: id, line: 7 }], ..Location::default() };
    let function = |id, name| Function { id, name, ..Function::default() };
    Profile {
        sample_type: vec![ValueType { r#type: 1, unit: 2 }],
        sample: vec![
            sample(&[2, 1], 700_000_000, vec![]),
            sample(&[1], 300_000_000, vec![Label { key: 5, str: 6, ..Label::default() }]),
        ],
        location: vec![location(1), location(2)],
        function: vec![function(1, 3), function(2, 4)],
        string_table: text.map(str::to_owned).to_vec(),
        time_nanos: (now() - Duration::seconds(20)).unix_timestamp_nanos() as i64,
        duration_nanos: 10_000_000_000,
        ..Profile::default()
    }
}

fn request(raw_profile: Vec<u8>, labels: &[(&str, &str)]) -> PushRequest {
    let pair = |(name, value): &(&str, &str)| LabelPair {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    let usual = [("__name__", "process_cpu"), ("service_name", "web")];
    let labels = usual.iter().chain(labels).map(pair).collect();
    let samples = vec![RawSample { raw_profile, id: String::new() }];
    PushRequest { series: vec![RawProfileSeries { labels, samples }] }
}

fn push(kind: &str, body: Vec<u8>) -> Ask {
    Ask::new(Method::POST, PATH).header("content-type", kind).body(body)
}

fn usual() -> Ask {
    push("application/proto", request(profile().encode_to_vec(), &[]).encode_to_vec())
}

/// Code and message of a Connect error.
fn error(answer: &Answer) -> (StatusCode, String, String) {
    let json = answer.json();
    let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    (answer.status, text("code"), text("message"))
}

#[tokio::test]
async fn keys_say_which_project_a_profile_belongs_to() {
    let server = Server::new();
    let (own, other) =
        (server.project("own", Visibility::Public), server.project("other", Visibility::Public));
    let lifetime = Duration::hours(1);
    let of_project = server.key(KeyOwner::Project(own.id), lifetime).0;
    let of_member = server.key(KeyOwner::User(server.user("ada", Role::Member).id), lifetime).0;
    let of_reader = server.key(KeyOwner::User(server.user("bob", Role::Reader).id), lifetime).0;
    let services = async |project: &str| {
        let page = server.ask(Ask::get(&format!("/perf/{project}/profiles"))).await;
        page.body.matches(">web<").count()
    };
    assert_eq!((services("own").await, services("other").await), (0, 0));

    let answer = server.ask(usual().key(of_project.as_str())).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, ""));
    assert_eq!(answer.header("content-type"), "application/proto");
    assert_eq!((services("own").await, services("other").await), (1, 0));

    let basic =
        |user: &str, key: &str| format!("Basic {}", STANDARD.encode(format!("{user}:{key}")));
    let ask = usual().header("authorization", &basic("anybody", of_member.as_str()));
    let answer = server.ask(ask.header("x-scope-orgid", other.slug.as_str())).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(services("other").await, 1);

    // Without a project, a user's key uses the default project of profiles.
    let answer = server.ask(usual().key(of_member.as_str())).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let page = server.ask(Ask::get("/perf/profiles/profiles").key(of_member.as_str())).await;
    assert!(page.body.contains(">web<"), "{}", page.body);

    let check = async |ask: Ask, status: StatusCode, code: &str, words: &str| {
        let answer = server.ask(ask).await;
        let (found, found_code, message) = error(&answer);
        assert_eq!((found, found_code.as_str()), (status, code), "{message}");
        assert!(message.contains(words), "{message}");
    };
    let unknown = StatusCode::UNAUTHORIZED;
    check(usual(), unknown, "unauthenticated", "need a key: send one as `Authorization").await;
    check(
        usual().key("bencher_user_wrong"),
        unknown,
        "unauthenticated",
        "unknown, revoked or expired",
    )
    .await;
    for header in [basic("a", "wrong"), "Basic ?".to_owned(), "Basic".to_owned()] {
        let ask = usual().header("authorization", &header);
        check(ask, unknown, "unauthenticated", "").await;
    }
    let forbidden = StatusCode::FORBIDDEN;
    let ask = usual().key(of_project.as_str()).header("x-scope-orgid", "other");
    check(ask, forbidden, "permission_denied", "another project").await;
    let ask = usual().key(of_reader.as_str()).header("x-scope-orgid", "own");
    check(ask, forbidden, "permission_denied", "may read").await;
}

#[tokio::test]
async fn anonymous_profiles_are_taken_where_a_setting_allows_it() {
    let server = Server::with(|settings| settings.allow_anonymous_runs = true);
    let answer = server.ask(usual()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let page = server.ask(Ask::get("/perf/profiles/profiles")).await;
    assert!(page.body.contains(">web<"), "{}", page.body);
    server.project("internal", Visibility::Internal);
    let answer = server.ask(usual().header("x-scope-orgid", "internal")).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.body);
}

#[tokio::test]
async fn each_form_of_a_request_shows_the_same() {
    let server = Server::new();
    let own = server.project("own", Visibility::Public);
    let key = server.key(KeyOwner::Project(own.id), Duration::hours(1)).0;
    let raw = profile().encode_to_vec();
    let packed = super::bounds::packed(&raw);
    let text = STANDARD.encode(&raw);
    let json = format!(
        r#"{{"series":[{{"labels":[{{"name":"__name__","value":"process_cpu"}},{{"name":"service_name","value":"json"}}],"samples":[{{"rawProfile":"{text}"}}]}}]}}"#
    );
    let of = |service: &str, raw: &[u8]| {
        request(raw.to_vec(), &[("service_name", service)]).encode_to_vec()
    };
    let whole = super::bounds::packed(&of("gzip", &raw));
    for (service, ask) in [
        ("plain", push("application/proto", of("plain", &raw))),
        ("packed", push("Application/Proto; charset=x", of("packed", &packed))),
        ("gzip", push("application/proto", whole).header("content-encoding", "gzip")),
        ("json", push("application/json", json.into_bytes())),
    ] {
        let answer = server.ask(ask.key(key.as_str())).await;
        assert_eq!(answer.status, StatusCode::OK, "{service}: {}", answer.body);
        let page = server.ask(Ask::get(&format!("/perf/own/profiles/{service}?last=15m"))).await;
        assert_eq!(page.status, StatusCode::OK, "{service}: {}", page.body);
        assert!(page.body.contains("<title>hot\n700 ms (70 %)"), "{service}: {}", page.body);
        assert!(page.body.contains("<title>main\n1.00 s (100 %)"), "{service}: {}", page.body);
        let marked = format!("/perf/own/profiles/{service}?last=15m&label=tag%3D%3Cb%3E");
        let page = server.ask(Ask::get(&marked)).await;
        assert!(page.body.contains("<title>main\n300 ms (100 %)"), "{service}: {}", page.body);
        assert!(!page.body.contains("<b>"), "{service}: {}", page.body);
    }
    let page = server
        .ask(Ask::get("/perf/own/profiles/json/compare?last=15m&base_last=15m&label=tag%3D"))
        .await;
    assert!(page.body.contains("Flame graph of the difference"), "{}", page.body);
    let svg = server.ask(Ask::get("/perf/own/profiles/json/flame.svg?last=15m&search=hot")).await;
    assert_eq!(svg.header("content-security-policy"), "default-src 'none'; sandbox");
    assert!(svg.body.starts_with("<svg ") && svg.body.contains("frame found"), "{}", svg.body);
    let nothing = "/perf/own/profiles/json/flame.svg?from=2026-01-01&until=2026-01-02";
    assert_eq!(server.ask(Ask::get(nothing)).await.status, StatusCode::NOT_FOUND);
    assert_eq!(server.ask(Ask::get("/perf/own/profiles/none")).await.status, StatusCode::NOT_FOUND);
    let ask = Ask::get("/perf/own/profiles/json?last=long");
    assert_eq!(server.ask(ask).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn what_is_refused_is_said_in_the_words_of_the_protocol() {
    let server = Server::with(|settings| settings.body_bytes_max = 100_000);
    let own = server.project("own", Visibility::Public);
    let key = server.key(KeyOwner::Project(own.id), Duration::hours(1)).0;
    let check = async |ask: Ask, status: u16, code: &str, words: &str| {
        let answer = server.ask(ask.key(key.as_str())).await;
        let (found, found_code, message) = error(&answer);
        assert_eq!((found.as_u16(), found_code.as_str()), (status, code), "{message}");
        assert!(message.contains(words), "{message}");
    };
    let proto = |message: &PushRequest| push("application/proto", message.encode_to_vec());
    let wrong = "invalid_argument";
    check(push("text/plain", vec![]), 415, "unimplemented", "application/proto").await;
    check(push("application/proto", vec![0xff; 9]), 400, wrong, "not a push.v1.PushRequest").await;
    check(push("application/json", b"[".to_vec()), 400, wrong, "not a push.v1.PushRequest").await;
    check(proto(&request(b"x".to_vec(), &[])), 400, wrong, "not a pprof profile").await;
    let nameless = request(vec![], &[("__name__", "")]);
    check(proto(&nameless), 400, wrong, "").await;
    let bomb = super::bounds::packed(&vec![0; 30 << 20]);
    check(proto(&request(bomb, &[])), 400, wrong, "exceeds the limit of 25165824 bytes").await;
    let old = Profile { time_nanos: 1, ..profile() };
    check(proto(&request(old.encode_to_vec(), &[])), 400, wrong, "older than").await;
    let mut dots = request(profile().encode_to_vec(), &[]);
    dots.series[0].labels[1].value = "..".to_owned();
    check(proto(&dots), 400, wrong, "it has no page").await;
    let large = request(vec![0; 100_000], &[]);
    check(proto(&large), 413, "resource_exhausted", "exceeds the size limit").await;
    check(Ask::get(PATH), 405, "unimplemented", "does not support GET").await;
    // One invalid profile rejects the whole request.
    let mut both = request(profile().encode_to_vec(), &[]);
    both.series.push(request(b"x".to_vec(), &[]).series.remove(0));
    check(proto(&both), 400, wrong, "not a pprof profile").await;
    let page = server.ask(Ask::get("/perf/own/profiles")).await;
    assert!(page.body.contains("No profiles yet"), "{}", page.body);
    // A push without samples is valid.
    let idle = Profile { sample: vec![], ..profile() };
    let ask = proto(&request(idle.encode_to_vec(), &[])).key(key.as_str());
    assert_eq!(server.ask(ask).await.status, StatusCode::OK);
}

/// Read on a thread that may block.
fn extent(server: &Server, project: &str) -> Option<Span> {
    let read = || server.app.profiles.extent(project).expect("read");
    std::thread::scope(|scope| scope.spawn(read).join().expect("no panic"))
}

#[tokio::test]
async fn profiles_go_with_their_project() {
    let server = Server::new();
    let own = server.project("own", Visibility::Public);
    let key = server.key(KeyOwner::Project(own.id), Duration::hours(1)).0;
    let admin =
        server.key(KeyOwner::User(server.user("ada", Role::Admin).id), Duration::hours(1)).0;
    assert_eq!(server.ask(usual().key(key.as_str())).await.status, StatusCode::OK);
    let uuid = own.uuid.to_string();
    assert!(extent(&server, &uuid).is_some());
    let ask = Ask::new(Method::DELETE, "/v0/projects/own").key(admin.as_str());
    assert_eq!(server.ask(ask).await.status, StatusCode::NO_CONTENT);
    assert_eq!(extent(&server, &uuid), None);
}
