//! Profiles in a bucket of a real S3 server (`s3s-fs`, which keeps objects as files) on loopback, and servers that
//! share it with a PostgreSQL database.

mod bucket;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use prost::Message as _;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;
use wingbeat_pprof::{
    pyroscope::{LabelPair, PushRequest, RawProfileSeries, RawSample},
    testing::window,
};
use wingbeat_server::{
    App,
    profiles::{ProfilesError, ProfilesPlace, Span, move_profiles, now_ns},
    router,
    settings::{DataLocation, Settings},
    storage,
};
use wingbeat_sql::PostgresUrl;

use self::bucket::{Bucket, Mode};

const SECOND: i64 = 1_000_000_000;

/// A server of a database and a place.
struct Server {
    app: App,
    router: Router,
    runtime: Runtime,
}

impl Server {
    fn start(location: &DataLocation, profiles_place: ProfilesPlace) -> Self {
        let settings = Settings {
            profiles_place,
            allow_anonymous_runs: true,
            ..Settings::of(location.clone())
        };
        let app = App::open(settings).expect("opened");
        let runtime = Runtime::new().expect("a runtime");
        Self { router: router(&app), app, runtime }
    }

    /// Pushes a window of a host, as a client does.
    fn push(&self, host: &str, start_ns: i64) -> StatusCode {
        let label = |(name, value): (&str, &str)| LabelPair {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let labels = [("__name__", "process_cpu"), ("service_name", "web"), ("host_name", host)];
        let sample = RawSample {
            raw_profile: window("main", SECOND, start_ns).encode_to_vec(),
            id: format!("{host}-{start_ns}"),
        };
        let series = RawProfileSeries { labels: labels.map(label).to_vec(), samples: vec![sample] };
        let request = Request::post("/push.v1.PusherService/Push")
            .header("content-type", "application/proto")
            .body(Body::from(PushRequest { series: vec![series] }.encode_to_vec()));
        self.ask(request.expect("a request")).0
    }

    fn page(&self, path: &str) -> (StatusCode, String) {
        self.ask(Request::get(path).body(Body::empty()).expect("a request"))
    }

    fn ask(&self, request: Request<Body>) -> (StatusCode, String) {
        let router = self.router.clone();
        self.runtime.block_on(async move {
            let (head, body) = router.oneshot(request).await.expect("answered").into_parts();
            let body = to_bytes(body, usize::MAX).await.expect("read");
            (head.status, String::from_utf8_lossy(&body).into_owned())
        })
    }

    fn project(&self) -> String {
        let find = self.app.storage.read_blocking(|database| {
            Ok::<_, storage::StorageError>(database.project("profiles")?)
        });
        find.expect("read").expect("a project").uuid.to_string()
    }

    /// Windows of the service in the last hours, and files that cannot be read.
    fn windows(&self) -> (i64, usize) {
        let series = self.app.profiles.series(&self.project(), Some("web")).expect("listed");
        let ids: Vec<i64> = series.iter().map(|it| it.id).collect();
        let now_ns = now_ns();
        let span = Span { from_ns: now_ns - 4 * 3600 * SECOND, until_ns: now_ns };
        let reading = self.app.profiles.read(&ids, span, now_ns).expect("read");
        (reading.windows, reading.damaged)
    }
}

fn folder(place: &tempfile::TempDir) -> DataLocation {
    DataLocation::from(place.path())
}

#[test]
fn a_bucket_keeps_profiles() {
    let (bucket, data) = (Bucket::start(), tempfile::tempdir().expect("a folder"));
    let server = Server::start(&folder(&data), bucket.place());
    let begin = now_ns() - 3 * 3600 * SECOND;
    for number in 0..40 {
        assert_eq!(server.push("a", begin + number * 15 * SECOND), StatusCode::OK);
    }
    // Repeated, as after a lost answer.
    assert_eq!(server.push("a", begin), StatusCode::OK);
    assert_eq!((server.windows(), bucket.files()), ((40, 0), 40));
    while !server.app.profiles.tidy(now_ns()).expect("tidied") {}
    assert_eq!(server.windows(), (40, 0));
    let (status, page) = server.page("/perf/profiles/profiles/web?last=4h");
    assert!(status == StatusCode::OK && page.contains("<dd>40 of 1 set"), "{page}");
    server.app.profiles.forget(&server.project()).expect("forgotten");
    while !server.app.profiles.tidy(now_ns() + 180 * SECOND).expect("tidied") {}
    assert_eq!(bucket.files(), 0);
}

#[test]
fn a_bucket_that_fails_holds_nothing_up() {
    let (bucket, data) = (Bucket::start(), tempfile::tempdir().expect("a folder"));
    let server = Server::start(&folder(&data), bucket.place());
    let mut start_ns = now_ns() - 3000 * SECOND;
    let mut answered = 0;
    let mut push = |server: &Server| {
        start_ns += 15 * SECOND;
        let status = server.push("a", start_ns);
        answered += i64::from(status == StatusCode::OK);
        (status, answered)
    };
    for _ in 0..20 {
        assert_eq!(push(&server).0, StatusCode::OK);
    }
    for mode in [Mode::Full, Mode::Refusing, Mode::Stopped, Mode::Slow] {
        bucket.set(mode);
        let begin = Instant::now();
        assert_eq!(push(&server).0, StatusCode::SERVICE_UNAVAILABLE, "{mode:?}");
        assert!(begin.elapsed() < Duration::from_secs(15), "{mode:?}: {:?}", begin.elapsed());
        let begin = Instant::now();
        let (status, page) = server.page("/perf/profiles/profiles/web?last=1h");
        assert_eq!(status, StatusCode::OK, "{mode:?}: {page}");
        // A full one can be read.
        let is_read = !page.contains("could not be read; see the server log");
        assert_eq!(is_read, mode == Mode::Full, "{mode:?}: {page}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{mode:?}: {:?}", begin.elapsed());
        assert_eq!(server.page("/perf/profiles/profiles").0, StatusCode::OK);
        // Tidying up reports its failure, and loses nothing.
        let _ = server.app.profiles.tidy(now_ns());
        bucket.set(Mode::Passing);
        let begin = Instant::now();
        let answered = loop {
            match push(&server) {
                (StatusCode::OK, answered) => break answered,
                (status, _) => assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE),
            }
            assert!(begin.elapsed() < Duration::from_secs(10), "{mode:?}");
            thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(server.windows(), (answered, 0), "{mode:?}");
    }
}

#[test]
fn a_server_starts_only_with_the_profiles_of_its_database() {
    let (bucket, other) = (Bucket::start(), Bucket::start());
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder(&data), bucket.place());
    assert_eq!(server.push("a", now_ns() - 60 * SECOND), StatusCode::OK);
    drop(server);
    let server = Server::start(&folder(&data), other.place());
    let error = server.app.profiles.check().expect_err("another bucket");
    assert!(matches!(error, ProfilesError::OtherPlace { .. }), "{error}");
    assert_eq!(server.push("a", now_ns()), StatusCode::SERVICE_UNAVAILABLE);
    other.set(Mode::Refusing);
    let server = Server::start(&folder(&data), other.place());
    let error = server.app.profiles.check().expect_err("refused").to_string();
    assert!(error.starts_with("reading in s3://profiles/here failed: "), "{error}");
}

#[test]
fn servers_share_profiles() {
    let Some(url) = wingbeat_pg_testing::database() else { return };
    let bucket = Bucket::start();
    let primary = PostgresUrl::parse(&url).expect("a URL");
    let location = DataLocation::Postgres { primary, replica: None };
    let start = || Arc::new(Server::start(&location, bucket.place()));
    let (first, second) = (start(), start());
    // The first whole ten minutes of the last hour.
    let ten_minutes = 600 * SECOND;
    let begin = (now_ns() - 6 * ten_minutes).div_euclid(ten_minutes) * ten_minutes;
    // More hosts than a service without a total has.
    for number in 0..4 {
        for host in 0..20 {
            let server = if host % 2 == 0 { &first } else { &second };
            let status = server.push(&format!("host-{host}"), begin + number * 15 * SECOND);
            assert_eq!(status, StatusCode::OK);
        }
    }
    for server in [&first, &second] {
        assert_eq!(server.windows(), (80, 0));
    }
    // Both at once: nothing is merged twice.
    let now = now_ns();
    thread::scope(|scope| {
        for server in [&first, &second] {
            scope.spawn(move || {
                for _ in 0..5 {
                    server.app.profiles.tidy(now).expect("tidied");
                }
            });
        }
    });
    for server in [&first, &second] {
        assert_eq!(server.windows(), (80, 0));
    }
    let count = |sql: &'static str| {
        let ask = second.app.storage.read_blocking(|database| {
            let db = database.results.connection();
            Ok::<_, ProfilesError>(db.query_row(sql, [], |row| row.get::<_, i64>(0))?)
        });
        ask.expect("counted")
    };
    // Twenty hosts and their total, once each.
    assert_eq!(count("SELECT count(*) FROM profile_block WHERE level = 1"), 21);
    let hours = count("SELECT count(*) FROM profile_block WHERE level = 2");
    assert!(hours == 0 || hours == 21, "{hours}");
    // The server that has the claim is killed. The other one goes on when the claim has ended.
    let late = |server: &Server, number: i64| {
        assert_eq!(server.push("late", begin + number * 15 * SECOND), StatusCode::OK);
    };
    first.app.profiles.tidy(now).expect("tidied");
    let holds = count("SELECT count(*) FROM claim");
    assert_eq!(holds, 1);
    drop(first);
    late(&second, 0);
    assert_eq!(second.windows(), (81, 0));
    let end = second.app.storage.write_blocking(|database| {
        let db = database.results.connection();
        Ok::<_, ProfilesError>(db.execute("UPDATE claim SET until_ns = 0", [])?)
    });
    end.expect("ended");
    for _ in 0..3 {
        second.app.profiles.tidy(now).expect("tidied");
    }
    assert_eq!(second.windows(), (81, 0));
    assert_eq!(count("SELECT count(*) FROM profile_block WHERE level = 1"), 22);
    // Once expired, no file is left.
    let later = now + 9 * 86_400 * SECOND;
    second.app.profiles.forget(&second.project()).expect("forgotten");
    while !second.app.profiles.tidy(later).expect("tidied") {}
    assert_eq!(bucket.files(), 0);
}

#[test]
fn profiles_move_into_a_bucket_and_back() {
    let (bucket, data) = (Bucket::start(), tempfile::tempdir().expect("a folder"));
    let here = ProfilesPlace::within(data.path());
    let server = Server::start(&folder(&data), here.clone());
    let begin = now_ns() - 3600 * SECOND;
    for number in 0..100 {
        assert_eq!(server.push("a", begin + number * 15 * SECOND), StatusCode::OK);
    }
    let database = storage::open(&folder(&data)).expect("opened");
    // The bucket fails in the middle.
    let begun = move_profiles(&database, &here, &bucket.place(), |moved| {
        assert_eq!(moved.missing, 0);
        bucket.set(Mode::Stopped);
    });
    begun.expect_err("it stopped");
    assert_eq!(server.push("a", begin - 15 * SECOND), StatusCode::OK);
    bucket.set(Mode::Passing);
    thread::sleep(Duration::from_secs(3));
    let moved = move_profiles(&database, &here, &bucket.place(), |_| {}).expect("moved");
    assert_eq!((moved.files, moved.known, moved.missing), (101, 64, 0));
    // Until it is restarted with the new place.
    assert_eq!(server.push("a", begin - 30 * SECOND), StatusCode::SERVICE_UNAVAILABLE);
    drop(server);
    let server = Server::start(&folder(&data), bucket.place());
    assert_eq!(server.push("a", begin - 30 * SECOND), StatusCode::OK);
    assert_eq!(server.windows(), (102, 0));
    let moved = move_profiles(&database, &bucket.place(), &here, |_| {}).expect("moved back");
    assert_eq!((moved.files, moved.known, moved.missing), (102, 101, 0));
    drop(server);
    let server = Server::start(&folder(&data), here);
    assert_eq!(server.windows(), (102, 0));
}
