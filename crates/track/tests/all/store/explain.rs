//! From an alert to the function: reports with profiles in a store.

use prost::Message as _;
use wingbeat_pprof::exact::{Counted, CountedFrame, instructions};
use wingbeat_pprof::proto;
use wingbeat_track::explain::{self, ExcerptLine, Explained, NoSources, SourceExcerpt, Sources};

use super::*;

/// A pprof with stacks of functions, outermost first, and their counts.
fn pprof(stacks: &[(&str, i64)]) -> Vec<u8> {
    let mut strings = vec![String::new(), "wall".into(), "nanoseconds".into(), "src/lib.rs".into()];
    let mut message = proto::Profile {
        sample_type: vec![proto::ValueType { r#type: 1, unit: 2 }],
        // A sample is a nanosecond.
        period_type: Some(proto::ValueType { r#type: 1, unit: 2 }),
        period: 1,
        ..proto::Profile::default()
    };
    for (stack, count) in stacks {
        let mut location_id = Vec::new();
        for name in stack.split(';').rev() {
            let id = message.function.len() as u64 + 1;
            strings.push(name.to_owned());
            let name = strings.len() as i64 - 1;
            message.function.push(proto::Function { id, name, system_name: 0, filename: 3 });
            let line = vec![proto::Line { function_id: id, line: 12 }];
            message.location.push(proto::Location { id, mapping_id: 0, address: id, line });
            location_id.push(id);
        }
        message.sample.push(proto::Sample { location_id, value: vec![*count], label: Vec::new() });
    }
    message.string_table = strings;
    message.encode_to_vec()
}

/// A report of 2 ns instead of 1, with an alert.
fn slow(second: i64) -> Report {
    let mut report = with_alert(report("main", second, 2.0));
    report.verdicts[0].boundary =
        Some(Boundary { baseline: Some(1.0), lower_limit: None, upper_limit: Some(1.5) });
    report
}

fn explained(store: &Store, report: &Report) -> Vec<Explained> {
    explain::of_report(store, report, &NoSources).expect("read")
}

#[test]
fn an_alert_names_the_function() {
    let mut temporary = temporary();
    let (before, after) = (report("main", 1, 1.0), slow(2));
    temporary.insert([&before, &after]);
    let store = &mut temporary.store;
    assert_eq!(explained(store, &after), [], "nothing was profiled");
    let profile = |report: &Report, pprof| {
        Profile::new(report.uuid, Some(benchmark("a")), ProfileKind::Wall, 9, pprof)
    };
    let new = profile(&after, pprof(&[("main;parse", 5000), ("main;print", 15000)]));
    store.insert_profiles(std::slice::from_ref(&new)).expect("stored");
    let [alone] = &explained(store, &after)[..] else { panic!("one alert") };
    assert!(alone.sentences[0].contains("no report before it has a profile"), "{alone:?}");

    let old = profile(&before, pprof(&[("main;parse", 5000), ("main;print", 5000)]));
    store.insert_profiles(std::slice::from_ref(&old)).expect("stored");
    let [found] = &explained(store, &after)[..] else { panic!("one alert") };
    assert_eq!((found.benchmark.as_str(), found.measure.as_str()), ("a", "latency"));
    let expected = "print (src/lib.rs:12), called by main, adds 1.000 ns of 1.000 ns";
    assert_eq!(found.sentences, [expected]);
}

#[test]
fn the_profile_before_is_one_of_the_level_before() {
    let check = |reports: [Report; 3], counts: [(i64, i64); 3]| {
        let mut temporary = temporary();
        temporary.insert(&reports);
        let store = &mut temporary.store;
        let profiles: Vec<Profile> = reports
            .iter()
            .zip(counts)
            .map(|(report, (parse, print))| {
                let pprof = pprof(&[("main;parse", parse), ("main;print", print)]);
                Profile::new(report.uuid, Some(benchmark("a")), ProfileKind::Wall, 9, pprof)
            })
            .collect();
        store.insert_profiles(&profiles).expect("stored");
        let [found] = &explained(store, &reports[2])[..] else { panic!("one alert") };
        let expected = "print (src/lib.rs:12), called by main, adds 1.000 ns of 1.000 ns";
        assert_eq!(found.sentences, [expected]);
    };
    let (slower, same) = ((5000, 15000), (5000, 5000));
    // The second is as slow as the third, but raised no alert yet.
    check([report("main", 1, 1.0), report("main", 2, 2.0), slow(3)], [same, slower, slower]);
    // The second has an alert about another benchmark, and its value is the baseline of the third.
    let second = Report { iterations: report("main", 1, 1.0).iterations, ..slow(2) };
    check([report("main", 1, 1.0), second, slow(3)], [(1000, 5000), same, slower]);
}

#[test]
fn what_cannot_be_compared_is_a_sentence() {
    let mut temporary = temporary();
    let (before, after) = (report("main", 1, 1.0), slow(2));
    temporary.insert([&before, &after]);
    let store = &mut temporary.store;
    let profile = |report: &Report, pprof| {
        Profile::new(report.uuid, Some(benchmark("a")), ProfileKind::Wall, 9, pprof)
    };
    let profiles =
        [profile(&before, b"no pprof".to_vec()), profile(&after, pprof(&[("main;parse", 1)]))];
    store.insert_profiles(&profiles).expect("stored");
    let [found] = &explained(store, &after)[..] else { panic!("one alert") };
    assert!(found.sentences[0].contains("the earlier profile: not a pprof profile"), "{found:?}");
}

/// `src/lib.rs` of two commits, as git would return it.
struct TwoCommits;

impl Sources for TwoCommits {
    fn text(&self, commit: &str, path: &str) -> Option<String> {
        let text = match commit {
            "aa" => "fn f() {\n    short();\n}\n",
            "bb" => "// New.\nfn f() {\n    long();\n}\n",
            other => panic!("no commit {other}"),
        };
        (path == "src/lib.rs").then(|| text.to_owned())
    }
}

#[test]
fn exact_counts_name_the_line_with_both_sources() {
    let mut temporary = temporary();
    let (mut before, mut after) = (report("main", 1, 60.0), slow(2));
    for (report, commit, value) in [(&mut before, "aa", 60.0), (&mut after, "bb", 153.0)] {
        report.hash = Some(commit.to_owned());
        report.environment.git_hash = None;
        report.environment.is_dirty = Some(false);
        let [(measure, metric)] = &mut report.iterations[0].benchmarks[0].metrics[..] else {
            panic!("one metric")
        };
        (*measure, metric.value) = (Measure::named("instructions"), value);
    }
    after.alerts[0].measure = Measure::named("instructions").slug;
    after.verdicts[0].measure = Measure::named("instructions").slug;
    temporary.insert([&before, &after]);
    let store = &mut temporary.store;
    let profile = |report: &Report, lines: &[(u32, u64)]| {
        let counted = lines.iter().map(|&(line, count)| {
            let frame = CountedFrame { function: "f".into(), file: "src/lib.rs".into(), line };
            Counted { image: String::new(), frames: vec![frame], count }
        });
        let pprof = instructions(&counted.collect::<Vec<_>>()).expect("bytes");
        Profile::new(report.uuid, Some(benchmark("a")), ProfileKind::Instructions, 1, pprof)
    };
    // By line numbers alone, the function's first line would have gained 50.
    let profiles = [profile(&before, &[(1, 50), (2, 10)]), profile(&after, &[(2, 50), (3, 103)])];
    store.insert_profiles(&profiles).expect("stored");
    let explained = explain::of_report(store, &after, &TwoCommits).expect("read");
    let [found] = &explained[..] else { panic!("one alert") };
    let expected = "f (src/lib.rs:3) adds 93 of 93 instructions; line 3: 10 before, 103 now";
    assert_eq!(found.sentences, [expected]);
    let quoted = |line, text: &str| Some(ExcerptLine { line, text: text.to_owned() });
    let expected = SourceExcerpt {
        sentence: 0,
        file: "src/lib.rs".to_owned(),
        before: quoted(2, "short();"),
        after: quoted(3, "long();"),
    };
    assert_eq!(found.excerpts, [expected]);
}
