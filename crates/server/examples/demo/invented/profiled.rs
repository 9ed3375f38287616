//! Made-up profiles for the made-up reports.

use prost::Message as _;
use wingbeat_pprof::proto;
use wingbeat_track::model::{Profile, ProfileKind, Report};

/// Stacks, outermost function first, with their samples in the normal and the slow case.
type Stacks<'a> = &'a [(&'a str, i64, i64)];

const ARTICLE: Stacks<'_> = &[
    ("main;criterion::iter;fun_xdp_v3::handle;parse::ethernet", 900, 900),
    ("main;criterion::iter;fun_xdp_v3::handle;parse::ipv4;parse::checksum", 1400, 1400),
    ("main;criterion::iter;fun_xdp_v3::handle;fibonacci::is_fibonacci;fibonacci::lookup", 2100, 0),
    (
        "main;criterion::iter;fun_xdp_v3::handle;fibonacci::is_fibonacci;fibonacci::compute;fibonacci::next",
        0,
        9200,
    ),
    ("main;criterion::iter;fun_xdp_v3::handle;fibonacci::is_fibonacci", 300, 420),
    ("main;criterion::iter;fun_xdp_v3::handle;map::update;malloc", 700, 720),
    ("main;criterion::iter;fun_xdp_v3::handle;[sleeping]", 200, 210),
    ("main;criterion::setup", 60, 60),
];

/// Profiles of an article report; only the benchmark's own value differs between reports.
pub(crate) fn of_article(report: &Report) -> Vec<Profile> {
    match report.testbed.as_str() {
        "ci-runner" => of(report, ARTICLE, ProfileKind::Wall, &|name, value| match name {
            "fun_xdp_v3" => Some(value > 300.0),
            "queue/push" => Some(value > 100.0),
            _ => None,
        }),
        _ => Vec::new(),
    }
}

/// Profiles whose function names attack a page, and one with very many functions.
pub(crate) fn of_hostile(report: &Report) -> Vec<Profile> {
    let long = format!("main;{}", "x".repeat(4096));
    let many: Vec<String> = (0..2500).map(|at| format!("main;many::f{at:04}")).collect();
    let mut stacks: Vec<(&str, i64, i64)> = vec![
        ("main;</script><script>alert(1)</script>", 2000, 5000),
        ("main;</title></svg><img src=x onerror=alert(1)>", 1000, 1000),
        ("main;\" onload=\"alert(1)", 1000, 1100),
        ("main;right-to-left \u{202e}txt.exe", 1000, 0),
        (&long, 500, 500),
    ];
    stacks.extend(many.iter().map(|stack| (stack.as_str(), 3, 3)));
    of(report, &stacks, ProfileKind::Instructions, &|name, value| {
        name.starts_with("right-to-left").then_some(value > 400.0)
    })
}

/// Profiles of each benchmark, given whether it is slow.
fn of(
    report: &Report,
    stacks: Stacks<'_>,
    kind: ProfileKind,
    is_slow: &dyn Fn(&str, f64) -> Option<bool>,
) -> Vec<Profile> {
    let is_exact = kind == ProfileKind::Instructions;
    let measure = if is_exact { "instructions" } else { "latency" };
    let metrics = report.metrics().filter(|(_, _, it, _)| it.slug.as_str() == measure);
    let profile = |benchmark: &wingbeat_track::model::BenchmarkResults, value: f64| {
        let is_slow = is_slow(benchmark.name.as_str(), value)?;
        let counted: Vec<(&str, i64)> = stacks
            .iter()
            .map(|(stack, well, slow)| (*stack, if is_slow { *slow } else { *well }))
            .collect();
        let samples = counted.iter().map(|(_, count)| count.unsigned_abs()).sum();
        let name = Some(benchmark.name.clone());
        let pprof =
            message(&counted, if is_exact { "instructions count" } else { "wall nanoseconds" });
        Some(Profile::new(report.uuid, name, kind, samples, pprof.encode_to_vec()))
    };
    metrics.filter_map(|(_, benchmark, _, metric)| profile(benchmark, metric.value)).collect()
}

/// Stacks as pprof; each sample is one millisecond of the measured kind.
pub(crate) fn message(stacks: &[(&str, i64)], measured: &str) -> proto::Profile {
    let (name, unit) = measured.split_once(' ').unwrap_or((measured, "count"));
    let words = ["", "samples", "count", name, unit, "src/lib.rs"];
    let mut strings: Vec<String> = words.map(str::to_owned).to_vec();
    let types = [(1, 2), (3, 4)].map(|(r#type, unit)| proto::ValueType { r#type, unit });
    let mut message = proto::Profile { sample_type: types.to_vec(), ..proto::Profile::default() };
    for (stack, count) in stacks.iter().filter(|(_, count)| *count > 0) {
        let mut location_id = Vec::new();
        for name in stack.split(';').rev() {
            let id = message.function.len() as u64 + 1;
            let is_others =
                name.starts_with('[') || name.starts_with("criterion") || name == "malloc";
            let (place, filename) = (strings.len() as i64, if is_others { 0 } else { 5 });
            strings.push(name.to_owned());
            message.function.push(proto::Function { id, name: place, system_name: 0, filename });
            let line = vec![proto::Line { function_id: id, line: 12 }];
            message.location.push(proto::Location { id, mapping_id: 0, address: id, line });
            location_id.push(id);
        }
        let value = vec![*count, count * 1_000_000];
        message.sample.push(proto::Sample { location_id, value, label: Vec::new() });
    }
    message.string_table = strings;
    message
}
