//! Pages over a day of pushed profiles: 5,760 windows of one service on one host, and a service of many pods, both merged
//! like on a server. `cargo bench -p wingbeat-server --bench profiles`; `WINGBEAT_BENCH_PODS=1000` for as many pods.

#[expect(dead_code, reason = "tests make it fail")]
#[path = "../tests/all/shared/bucket.rs"]
mod bucket;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use criterion::{Criterion, criterion_group, criterion_main};
use tower::ServiceExt as _;
use wingbeat_pprof::{
    pprof::pack,
    proto::{Function, Line, Location, Profile, Sample, ValueType},
};
use wingbeat_server::{
    App,
    database::{Database, NewProject, Visibility},
    profiles::{
        ProfilesError, ProfilesPlace, Push,
        intake::{Labels, Part},
        move_profiles, now_ns,
    },
    router,
    settings::{DataLocation, Settings},
    storage::{self, StorageError},
};
use wingbeat_track::model::ProjectName;

const SECOND: i64 = 1_000_000_000;
const WINDOWS: i64 = 5760;
const FUNCTIONS: u64 = 3000;
/// Samples per window: half a CPU at 19 Hz gives 143.
const SAMPLES: usize = 143;
/// Distinct stacks: few are frequent, most are rare.
const STACKS: usize = 20_000;

/// Deterministic random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Stacks of about 30 frames from a tree with few frequent branches.
fn stacks(numbers: &mut Numbers) -> Vec<Vec<u64>> {
    let mut stack = || {
        let mut stack: Vec<u64> = vec![1];
        for depth in 1..20 + numbers.next(20) {
            // Mostly the usual callee, sometimes another one.
            let last = stack[stack.len() - 1];
            let branch = if numbers.next(10) < 8 { 0 } else { 1 + numbers.next(3) };
            stack.push(1 + (last * 31 + depth * 7 + branch) % FUNCTIONS);
        }
        stack.reverse();
        stack
    };
    (0..STACKS).map(|_| stack()).collect()
}

/// A window of these stacks.
fn window(numbers: &mut Numbers, stacks: &[Vec<u64>], (start_ns, samples): (i64, usize)) -> Part {
    let text = |number| format!("service::module_{}::function_{number}", number % 97);
    let mut strings: Vec<String> = ["", "cpu", "nanoseconds"].map(str::to_owned).to_vec();
    strings.extend((0..FUNCTIONS).map(text));
    let mut message = Profile {
        sample_type: vec![ValueType { r#type: 1, unit: 2 }],
        time_nanos: start_ns,
        duration_nanos: 15 * SECOND,
        ..Profile::default()
    };
    for id in 1..=FUNCTIONS {
        let line = vec![Line { function_id: id, line: 1 }];
        message.location.push(Location { id, line, ..Location::default() });
        message.function.push(Function { id, name: 2 + id as i64, ..Function::default() });
    }
    message.string_table = strings;
    for _ in 0..samples {
        // The nth stack has a share proportional to 1/n.
        let place = (STACKS as f64).powf(numbers.next(1 << 30) as f64 / (1_u64 << 30) as f64);
        let location_id = stacks[place as usize - 1].clone();
        message.sample.push(Sample { location_id, value: vec![52_631_579], label: Vec::new() });
    }
    let mut stacks = wingbeat_pprof::Stacks::default();
    stacks.add(&message).expect("added");
    let mut pprof = Vec::new();
    pack(&stacks.message(), &mut pprof).expect("packed");
    Part {
        service: "web".to_owned(),
        name: "process_cpu".to_owned(),
        labels: Labels::from([("host_name".to_owned(), "box-1".to_owned())]),
        types: vec![("cpu".to_owned(), "nanoseconds".to_owned())],
        shown: 0,
        start_ns,
        duration_ns: 15 * SECOND,
        sums: vec![52_631_579 * samples as i64],
        pprof,
    }
}

/// Fills the service `pods` as time passes: a window of ten minutes for each pod, and of 15 seconds in the last quarter of
/// an hour. The windows are some of a few, because packing takes longer than everything else.
fn fill_pods(app: &App, project: &str, pods: usize) {
    let mut numbers = Numbers(11);
    let stacks = stacks(&mut numbers);
    let end = now_ns();
    let mut of = |seconds: i64, samples: usize| -> Vec<Part> {
        let mut one = || Part {
            duration_ns: seconds * SECOND,
            ..window(&mut numbers, &stacks, (end, samples))
        };
        (0..50).map(|_| one()).collect()
    };
    let (long, short) = (of(600, 1500), of(15, 57));
    let (mut pushing, mut tidying) = (Duration::ZERO, Duration::ZERO);
    let mut push = |some: &[Part], start_ns: i64, number: i64| {
        let part = |pod: usize| Part {
            service: "pods".to_owned(),
            labels: Labels::from([("pod".to_owned(), format!("pods-{pod}"))]),
            start_ns,
            ..some[(pod + number as usize) % some.len()].clone()
        };
        let push = Push { id: String::new(), parts: (0..pods).map(part).collect() };
        let begin = Instant::now();
        app.profiles.put(project, vec![push], end).expect("kept");
        pushing += begin.elapsed();
    };
    let mut tidy = |now_ns: i64| {
        let begin = Instant::now();
        while !app.profiles.tidy(now_ns).expect("tidied") {}
        tidying += begin.elapsed();
    };
    let quarter = end - 900 * SECOND;
    for number in 0..143 {
        let start_ns = quarter - (143 - number) * 600 * SECOND;
        push(&long, start_ns, number);
        tidy(start_ns + 600 * SECOND);
    }
    for number in 0..60 {
        let start_ns = quarter + number * 15 * SECOND;
        push(&short, start_ns, number);
        if number % 4 == 3 {
            tidy(start_ns + 15 * SECOND);
        }
    }
    println!(
        "{pods} pods: pushed in {:.0} s, merged in {:.0} s",
        pushing.as_secs_f64(),
        tidying.as_secs_f64()
    );
    let sizes = app.storage.read_blocking(|database| {
        let sql = "SELECT total_from_ns IS NOT NULL, level, count(*), sum(bytes) FROM profile_block AS one \
                   JOIN profile_series AS series ON series.id = one.series WHERE service = 'pods' GROUP BY 1, 2";
        let mut statement = database.results.connection().prepare(sql)?;
        let read = |row: &wingbeat_sql::Row<'_>| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
        };
        let rows = statement.query_map([], read)?.collect::<wingbeat_sql::Result<Vec<_>>>();
        Ok::<_, ProfilesError>(rows?)
    });
    for (is_total, level, files, bytes) in sizes.expect("read") {
        println!("total {is_total}, level {level}: {files} files, {} MiB", bytes >> 20);
    }
}

/// A server with a day of profiles.
async fn filled(app: &App) {
    let name = ProjectName::new("fleet").expect("a name");
    let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
    let make = move |database: &mut Database| {
        let now = time::OffsetDateTime::now_utc();
        database.create_project(&new, now).map_err(StorageError::from)
    };
    let project = app.storage.write(make).await.expect("made").uuid.to_string();
    let (mut numbers, now) = (Numbers(7), now_ns());
    let stacks = stacks(&mut numbers);
    for number in 0..WINDOWS {
        let start = now - (WINDOWS - number) * 15 * SECOND;
        let push = Push {
            id: String::new(),
            parts: vec![window(&mut numbers, &stacks, (start, SAMPLES))],
        };
        app.profiles.put(&project, vec![push], now).expect("kept");
    }
    let begin = Instant::now();
    while !app.profiles.tidy(now).expect("tidied") {}
    println!("merged a day in {:.1} s", begin.elapsed().as_secs_f64());
    let pods = std::env::var("WINGBEAT_BENCH_PODS").ok().and_then(|pods| pods.parse().ok());
    fill_pods(app, &project, pods.unwrap_or(100));
}

fn pages(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let app = App::open(Settings::of(folder.path())).expect("opened");
    runtime.block_on(filled(&app));
    let paths = [
        ("services", "/perf/fleet/profiles"),
        ("hour", "/perf/fleet/profiles/web?last=1h"),
        ("day", "/perf/fleet/profiles/web?last=24h"),
        ("half days compared", "/perf/fleet/profiles/web/compare?last=12h"),
        ("pods, quarter of an hour", "/perf/fleet/profiles/pods?last=15m"),
        ("pods, hour", "/perf/fleet/profiles/pods?last=1h"),
        ("pods, day", "/perf/fleet/profiles/pods?last=24h"),
        ("one of the pods, day", "/perf/fleet/profiles/pods?last=24h&label=pod%3Dpods-7"),
    ];
    let run = |criterion: &mut Criterion, router: &axum::Router, place: &str| {
        let mut group = criterion.benchmark_group(format!("profiles in a {place}"));
        group.sample_size(10).measurement_time(Duration::from_secs(5));
        for (name, path) in paths {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let answer = runtime.block_on(async {
                        let request = Request::get(path).body(Body::empty()).expect("a request");
                        let answer = router.clone().oneshot(request).await.expect("answered");
                        assert_eq!(answer.status(), 200);
                        to_bytes(answer.into_body(), usize::MAX).await.expect("read")
                    });
                    black_box(answer)
                });
            });
        }
        group.finish();
    };
    run(criterion, &router(&app), "folder");
    drop(app);
    let bucket = bucket::Bucket::start();
    let database = storage::open(&DataLocation::from(folder.path())).expect("opened");
    let from = ProfilesPlace::within(folder.path());
    let begin = Instant::now();
    let moved = move_profiles(&database, &from, &bucket.place(), |_| {}).expect("moved");
    println!("moved {} files in {:.1} s", moved.files, begin.elapsed().as_secs_f64());
    let settings = Settings { profiles_place: bucket.place(), ..Settings::of(folder.path()) };
    let app = App::open(settings).expect("opened");
    run(criterion, &router(&app), "bucket");
}

criterion_group!(benches, pages);
criterion_main!(benches);
