//! The native API with our own client, against a real server on loopback: whole reports, import and export of stores.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};
use uuid::Uuid;
use wingbeat_server::{
    App,
    access::{KeyKind, KeyText},
    database::{KeyOwner, NewKey, NewUser, Role},
    service::serve,
    settings::Settings,
    storage::open,
};
use wingbeat_track::{
    model::{
        Alert, AlertStatus, BenchmarkName, Direction, Limit, Measure, Metric, NoticeKind, Outcome,
        Profile, ProfileKind, Report, Results, Slug, Threshold, ThresholdModel, Verdict,
        threshold::Test,
    },
    remote::{Exchanged, Host, Key, Patience, Submission},
    store::{ReportFilter, Store},
};

struct Server {
    host: Host,
    folder: TempDir,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    /// A server on loopback, with the key of a user of this role.
    fn start(role: Role) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let key = key(&folder, role);
        let runtime = Runtime::new().expect("a runtime");
        let app = App::open(Settings::of(folder.path())).expect("opened");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(serve(app, listener, async move {
            let _ = stopped.await;
        }));
        let patience = Patience {
            attempts: 3,
            pause: Duration::from_millis(10),
            total: Duration::from_secs(60),
            ..Patience::default()
        };
        let host = Host {
            url: format!("http://{address}"),
            key: Some(key),
            has_public_links: false,
            patience,
        };
        Self { host, folder, runtime: Some(runtime), stop: Some(stop) }
    }

    /// The server's store, as another process would see it.
    fn results(&self) -> Store {
        Store::open_existing(self.folder.path().join("server.db")).expect("a store")
    }

    fn push(&self, store: &Store) -> Exchanged {
        let project = "project".parse().expect("a name");
        self.host.push(store, &project, &mut |_| {}).expect("pushed")
    }

    fn pull(&self, store: &mut Store) -> Exchanged {
        self.host.pull(store, "project", &mut |_| {}).expect("pulled")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

fn key(folder: &TempDir, role: Role) -> Key {
    let database = open(&folder.path().into()).expect("opened");
    let now = OffsetDateTime::now_utc();
    let new = NewUser { name: "ci".to_owned(), email: "ci@example.org".to_owned(), role };
    let user = database.create_user(&new, now).expect("written").expect("made");
    let text = KeyText::random(KeyKind::User).expect("random");
    let expires = now + time::Duration::days(1);
    let owner = KeyOwner::User(user.id);
    let hash = text.digest();
    let new = NewKey { owner, name: "ci".to_owned(), hash, creator: None, expires };
    database.create_key(&new, now).expect("made");
    Key::new(text.as_str()).expect("a key")
}

fn at(second: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_795_298_672 + second).expect("a time")
}

fn benchmark(name: &str) -> BenchmarkName {
    BenchmarkName::new(name).expect("a name")
}

/// A report with everything except verdicts.
fn report(second: i64, value: f64) -> Report {
    let mut results = Results::default();
    for name in ["a", "b c"] {
        let samples = (0..20).map(|sample| value + f64::from(sample) / 1000.0).collect();
        let metric = Metric::new(value).within(value - 0.1, value + 0.1).with_samples(samples);
        results.add(benchmark(name), Measure::latency(), metric).expect("added");
    }
    results.fail(benchmark("broken"), "exit code 1");
    let name = |text: &str| text.to_owned();
    let mut report = Report::new(
        Uuid::from_u64_pair(0xfeed, second.unsigned_abs()),
        name("project").parse().expect("a name"),
        name("main").parse().expect("a name"),
        name("box").parse().expect("a name"),
        at(second),
    );
    report.hash = Some(format!("{second:040x}"));
    report.environment.kernel = Some(name("Linux 6.18.44"));
    report.environment.load = Some(0.25);
    report.iterations = vec![results];
    report
}

fn with_alert(mut report: Report) -> Report {
    let verdict = Verdict {
        outcome: Outcome::Worse,
        limit: Some(Limit::Upper),
        ..Verdict::new(0, benchmark("a"), Measure::latency().slug)
    };
    let alert = Uuid::from_u64_pair(0xbeef, report.uuid.as_u64_pair().1);
    report.alerts.push(Alert::of(alert, &verdict));
    report.verdicts.push(verdict);
    report
}

fn store(folder: &TempDir, name: &str) -> Store {
    Store::open(folder.path().join(name)).expect("a store")
}

/// Everything in a store that does not depend on the order of insertion.
fn content(store: &Store) -> BTreeSet<String> {
    let mut lines = Vec::new();
    store.export_to(&mut lines, false).expect("exported");
    String::from_utf8(lines).expect("a text").lines().map(str::to_owned).collect()
}

#[test]
fn a_report_arrives_whole_and_is_judged() {
    let server = Server::start(Role::Member);
    assert!(server.host.is_wingbeat());
    let limit = ThresholdModel::new(Test::Percentage).within(None, Some(0.1));
    let measure = Slug::of("latency");
    // Bencher's format has no thresholds for individual benchmarks.
    let threshold =
        Threshold { measure: measure.clone(), benchmark: Some("b*".to_owned()), model: limit };
    let thresholds = [threshold];
    let send = |report: &Report| {
        let submission = Submission { thresholds: &thresholds, ..Submission::of(report) };
        server.host.send_whole(&submission, &mut |_| {}).expect("sent")
    };
    for second in 1..=6 {
        let (answer, judged) = send(&report(second, 1.0));
        assert_eq!((answer.alerts_total, answer.metrics), (0, 2));
        assert_eq!(judged.expect("the report").verdicts.len(), 2);
        assert_eq!(answer.warnings, Vec::<String>::new());
    }
    let gone = BenchmarkName::new("gone").expect("a name");
    let mut before = report(7, 1.0);
    before.iterations[0].add(gone.clone(), Measure::latency(), Metric::new(1.0)).expect("added");
    assert_eq!(send(&before).0.notices, []);
    let slow = report(8, 1.5);
    let (answer, judged) = send(&slow);
    let kinds: Vec<_> = answer.notices.iter().map(|notice| notice.kind.clone()).collect();
    assert_eq!(kinds, [NoticeKind::Missing { benchmarks: vec![gone], of: 3 }]);
    let judged = judged.expect("the report");
    let of_b = judged.alerts.iter().filter(|alert| alert.benchmark.as_str() == "b c").count();
    assert_eq!(of_b, 1, "{:#?}", judged.verdicts);
    assert_eq!(answer.alerts_total as usize, judged.alerts.len());
    let url = answer.report_url.expect("a link");
    // A project created with a key is not public.
    let path = format!("/console/projects/project/reports/{}", slow.uuid);
    assert!(url.ends_with(&path), "{url}");
    // Includes what the format of the `bencher` client omits.
    let stored = server.results().report(slow.uuid).expect("read").expect("stored");
    assert_eq!(stored.iterations, slow.iterations);
    assert_eq!((&stored.environment, &stored.hash), (&slow.environment, &slow.hash));
    assert_eq!(stored.verdicts, judged.verdicts);
    // Sending the same report again gives the same response.
    let (again, judged_again) = send(&slow);
    assert_eq!((again.uuid, again.alerts_total), (slow.uuid, answer.alerts_total));
    assert_eq!(judged_again.expect("the report").verdicts, judged.verdicts);
    let all = server.results().reports(&ReportFilter::default(), 100).expect("a list");
    assert_eq!(all.len(), 8);
}

/// Clients distinguish their own measures, and the server those of all clients.
#[test]
fn measures_of_clients_are_known_by_their_names() {
    let server = Server::start(Role::Member);
    let lower = Direction::LowerIsBetter;
    let of = |name: &str| Measure { direction: lower, ..Measure::named(name) };
    let send = |second: i64, name: &str| {
        let mut sent = report(second, 1.0);
        let mut results = Results::default();
        results.add(benchmark("a"), of(name), Metric::new(1.0)).expect("added");
        sent.iterations = vec![results];
        let threshold = Threshold {
            measure: of(name).slug,
            benchmark: None,
            model: ThresholdModel::new(Test::Percentage).within(None, Some(0.1)),
        };
        let submission = Submission { thresholds: &[threshold], ..Submission::of(&sent) };
        let (_, judged) = server.host.send_whole(&submission, &mut |_| {}).expect("sent");
        let judged = judged.expect("the report");
        let measure = judged.iterations[0].benchmarks[0].metrics[0].0.clone();
        assert_eq!((measure.direction, judged.verdicts[0].test), (lower, Some(Test::Percentage)));
        assert_eq!(judged.verdicts[0].measure, measure.slug);
        measure.slug
    };
    let names = ["read_bytes", "read-bytes", "延迟", "内存", "p99.9", "p99-9"];
    let first: Vec<_> = (1..).zip(names).map(|(second, name)| send(second, name)).collect();
    let again: Vec<_> = (11..).zip(names).map(|(second, name)| send(second, name)).collect();
    assert_eq!(first, again);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(first[0].as_str(), "read-bytes");
}

#[test]
fn a_store_goes_there_and_comes_back() {
    let server = Server::start(Role::Member);
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(&folder, "here.db");
    for second in 1..=450 {
        here.insert(&with_alert(report(second, 1.0))).expect("stored");
    }
    let alert = with_alert(report(3, 1.0)).alerts[0].uuid;
    here.set_alert_status(alert, AlertStatus::Silenced, None).expect("changed");
    here.withdraw(report(4, 1.0).uuid, Some("broken".to_owned())).expect("withdrawn");
    let done = server.push(&here);
    assert_eq!((done.new, done.already_there, done.refused), (452, 0, Vec::new()));
    let done = server.push(&here);
    assert_eq!((done.new, done.already_there), (0, 452));
    assert_eq!(content(&server.results()), content(&here));

    let mut there = store(&folder, "there.db");
    // An interrupted client has sent some of them.
    for second in 100..=200 {
        there.insert(&with_alert(report(second, 1.0))).expect("stored");
    }
    let done = server.pull(&mut there);
    assert_eq!((done.new, done.already_there), (351, 101));
    assert_eq!(content(&there), content(&here));
    let done = server.pull(&mut there);
    assert_eq!((done.new, done.already_there), (0, 452));
    // Fetches only what is new on the server.
    server.host.send_whole(&Submission::of(&report(1000, 1.0)), &mut |_| {}).expect("sent");
    let done = server.pull(&mut there);
    assert_eq!((done.new, done.already_there), (1, 452));
    assert_eq!(content(&there), content(&server.results()));
    assert_eq!(server.host.projects(&mut |_| {}).expect("a list"), ["project"]);
}

#[test]
fn what_confirms_a_report_is_not_judged() {
    let server = Server::start(Role::Member);
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(&folder, "here.db");
    for second in 1..=30 {
        here.insert(&report(second, 1.0)).expect("stored");
    }
    let slow = with_alert(report(31, 9.0));
    let again = Report { confirms: Some(slow.uuid), ..report(32, 9.0) };
    here.insert(&slow).expect("stored");
    here.insert(&again).expect("stored");
    server.push(&here);
    let stored = server.results().report(again.uuid).expect("read").expect("it is there");
    assert_eq!((stored.verdicts.len(), stored.alerts.len()), (0, 0));
}

#[test]
fn profiles_go_there_with_a_report_and_come_back_with_a_store() {
    let server = Server::start(Role::Member);
    let report = report(1, 1.0);
    let profile = |content: &str| {
        let name = Some(benchmark("a"));
        Profile::new(report.uuid, name, ProfileKind::Wall, 9, content.as_bytes().to_vec())
    };
    let profiles = [profile("one"), profile("two")];
    server.host.send_whole(&Submission::of(&report), &mut |_| {}).expect("sent");
    for _ in 0..2 {
        let explained = server.host.send_profiles(&profiles, &mut |_| {}).expect("sent");
        assert_eq!(explained, [], "there is no alert");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut here = store(&folder, "here.db");
    assert_eq!(server.pull(&mut here).new, 3);
    for profile in &profiles {
        let content = here.profile_content(profile.about.sha256).expect("read");
        assert_eq!(content, profile.pprof);
    }
    assert_eq!(content(&here), content(&server.results()));
    let other = Server::start(Role::Member);
    assert_eq!(other.push(&here).new, 3);
    assert_eq!(other.results().profiles(report.uuid).expect("a list").len(), 2);

    let mut wrong = profile("three");
    wrong.pprof = Some(b"four".to_vec());
    let refused = server.host.send_profiles(&[wrong], &mut |_| {}).expect_err("refused");
    assert!(refused.to_string().contains("not the one that its hash"), "{refused}");
    let reader = Server::start(Role::Reader);
    let refused = reader.host.send_profiles(&profiles, &mut |_| {}).expect_err("refused");
    assert!(refused.to_string().contains("status 403"), "{refused}");
}

#[test]
fn who_may_not_write_is_refused() {
    let server = Server::start(Role::Reader);
    let check = |host: &Host, expected: &str| {
        let error = host.send_whole(&Submission::of(&report(1, 1.0)), &mut |_| {});
        let error = error.expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(&server.host, "status 403");
    let nobody = Host { key: None, ..server.host.clone() };
    check(&nobody, "status 401");
    let folder = tempfile::tempdir().expect("a folder");
    let mut here = store(&folder, "here.db");
    let error = server.host.pull(&mut here, "nowhere", &mut |_| {}).expect_err("nothing there");
    assert!(error.to_string().contains("there is no project \"nowhere\""), "{error}");
}
