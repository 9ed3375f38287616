//! From stored reports to a chart.

use super::*;
use uuid::Uuid;
use wingbeat_track::store::{PlotQuery, Store};

fn report(number: u64, branch: &str, benchmarks: &[(&str, f64)], kernel: &str) -> Report {
    let time = OffsetDateTime::from_unix_timestamp(1_795_298_672).expect("a time")
        + Duration::hours(number.cast_signed());
    let mut results = Results::default();
    for (name, value) in benchmarks {
        let name = name.parse().expect("a name");
        results.add(name, Measure::latency(), Metric::new(*value)).expect("added");
    }
    let (project, testbed) = ("p".parse(), "here".parse().expect("a name"));
    let (uuid, branch) = (Uuid::from_u64_pair(7, number), branch.parse().expect("a name"));
    Report {
        environment: Environment { kernel: Some(kernel.to_owned()), ..Environment::default() },
        iterations: vec![results],
        ..Report::new(uuid, project.expect("a name"), branch, testbed, time)
    }
}

fn chart(reports: &[Report], change: impl FnOnce(&mut PlotQuery)) -> Chart {
    looked_at(reports, change, &Look::default())
}

fn looked_at(reports: &[Report], change: impl FnOnce(&mut PlotQuery), look: &Look) -> Chart {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path().join("results.db")).expect("a store");
    for report in reports {
        store.insert(report).expect("stored");
    }
    let mut query = PlotQuery::of(ProjectName::new("p").expect("a name"));
    change(&mut query);
    Chart::with("p", &store.plot(&query).expect("series"), look)
}

#[test]
fn lines_are_named_by_what_tells_them_apart() {
    let check = |reports: &[Report], expected: &[&str]| {
        let chart = chart(reports, |_| ());
        let names = chart.panels.iter().flat_map(|panel| {
            panel.lines.iter().map(|line| format!("{}: {}", panel.name(), line.name))
        });
        assert_eq!(names.collect::<Vec<_>>(), expected);
    };
    let one = [report(1, "main", &[("b", 1.0), ("a", 1.0)], "1")];
    check(&one, &["a · Latency: main", "b · Latency: main"]);
    // The newest first, in one panel, however much they differ.
    let both = [report(1, "main", &[("a", 30.0)], "1"), report(2, "next", &[("a", 450e6)], "1")];
    check(&both, &["a · Latency: next", "a · Latency: main"]);
    let mut elsewhere = both.clone();
    elsewhere[0].testbed = "there".parse().expect("a name");
    check(&elsewhere, &["a · Latency: next · here", "a · Latency: main · there"]);
}

#[test]
fn benchmarks_share_a_panel_and_hidden_lines_leave_their_colour() {
    let reports = [
        report(1, "main", &[("a", 1.0), ("b", 2.0)], "1"),
        report(2, "next", &[("a", 3.0), ("c", 4.0)], "1"),
    ];
    let shown = |look: &Look| {
        let chart = looked_at(&reports, |_| (), look);
        let colours = chart.colours();
        let panel = |(panel, colours): (&Panel, Vec<usize>)| {
            let lines = panel.lines.iter().zip(colours);
            let lines = lines.map(|(line, colour)| format!("{colour} {}", line.name));
            (panel.name(), lines.collect::<Vec<_>>().join(", "))
        };
        chart.panels.iter().zip(colours).map(panel).collect::<Vec<_>>()
    };
    let together = Look { is_together: true, ..Look::default() };
    let name = "3 benchmarks · Latency".to_owned();
    let lines = "1 a · next, 3 c · next, 0 a · main, 2 b · main".to_owned();
    assert_eq!(shown(&together), [(name.clone(), lines)]);
    let hidden = vec!["a · main".to_owned(), "a · next".to_owned()];
    let rest = "3 c · next, 2 b · main".to_owned();
    assert_eq!(
        shown(&Look { hidden, ..together.clone() }),
        [("2 benchmarks · Latency".to_owned(), rest)]
    );
    let apart = [("a · Latency", "1 next"), ("b · Latency", "0 main"), ("c · Latency", "1 next")];
    let apart = apart.map(|(panel, lines)| (panel.to_owned(), lines.to_owned()));
    let apart = [apart[0].clone(), apart[2].clone()];
    assert_eq!(shown(&Look { hidden: vec!["main".to_owned()], ..Look::default() }), apart);
}

#[test]
fn by_version_the_reports_of_a_commit_share_a_column() {
    let at = |number, hash: Option<&str>, value| {
        let hash = hash.map(str::to_owned);
        Report { hash, ..report(number, "main", &[("a", value)], "1") }
    };
    let reports = [
        at(1, Some("aaa"), 1.0),
        at(2, Some("bbb"), 2.0),
        at(3, None, 3.0),
        // The first commit once more, after the others.
        at(4, Some("aaa"), 4.0),
        at(5, None, 5.0),
    ];
    let look = Look { is_by_version: true, ..Look::default() };
    let chart = looked_at(&reports, |_| (), &look);
    let line = &chart.panels[0].lines[0];
    let values: Vec<f64> = line.dots.iter().map(|dot| dot.value).collect();
    assert_eq!(values, [1.0, 4.0, 2.0, 3.0, 5.0]);
    let places: Vec<f64> = line.dots.iter().map(|dot| chart.x(dot)).collect();
    assert_eq!((places, chart.width()), (vec![-0.2, 0.2, 1.0, 2.0, 3.0], 4));
    let hashes: Vec<_> = chart.stamps.iter().map(|stamp| stamp.hash.as_deref()).collect();
    assert_eq!(hashes, [Some("aaa"), Some("aaa"), Some("bbb"), None, None]);
}

#[test]
fn only_reports_in_sight_have_a_place_and_changes_are_told_between_them() {
    let reports = [
        report(1, "main", &[("a", 1.0)], "1"),
        report(2, "main", &[("b", 5.0)], "2"),
        report(3, "main", &[("a", 1.0)], "3"),
    ];
    let only_a = |query: &mut PlotQuery| query.benchmarks = vec!["a".parse().expect("a name")];
    let chart = chart(&reports, only_a);
    let news: Vec<&[String]> = chart.stamps.iter().map(|stamp| &*stamp.news).collect();
    assert_eq!(news, [&[][..], &["kernel 1 → 3".to_owned()]]);
    let places: Vec<usize> = chart.panels[0].lines[0].dots.iter().map(|dot| dot.report).collect();
    assert_eq!(places, [0, 1]);
}

#[test]
fn a_step_is_found_and_outlives_a_crowd() {
    let crowd: Vec<String> = (0..20).map(|index| format!("crowd {index}")).collect();
    let reports: Vec<Report> = (0..24)
        .map(|number| {
            let noise = (number * 7 % 5) as f64 / 100.0;
            let mut benchmarks: Vec<(&str, f64)> =
                crowd.iter().map(|name| (name.as_str(), 100.0 + noise)).collect();
            benchmarks.push(("zzz", if number < 12 { 100.0 } else { 120.0 } + noise));
            report(number, "main", &benchmarks, "1")
        })
        .collect();
    let all = chart(&reports, |_| ());
    assert_eq!((all.lines().count(), all.left_out), (21, 0));
    let ranks: Vec<Rank> = all.panels.iter().map(|panel| panel.rank()).collect();
    assert_eq!((ranks[0], ranks[1]), (Rank::Changed, Rank::Steady));
    let chart = all.first(3);
    assert_eq!((chart.lines().count(), chart.left_out), (3, 18));
    assert!(chart.left_out_text().expect("a text").starts_with("18 more series are left out"));
    let line = &chart.panels[0].lines[0];
    assert_eq!(chart.panels[0].benchmark, "zzz");
    assert_eq!(line.steps.iter().map(|step| step.dot).collect::<Vec<_>>(), [12]);
    let share = line.steps[0].relative().expect("a share");
    assert!((share - 0.2).abs() < 0.01, "{share}");
    assert!((line.last_change().expect("a change") - 0.2).abs() < 0.01);
}

#[test]
fn times_in_different_units_share_a_panel() {
    let measured = |number, branch: &str, value, slug: &str, units: &'static str| {
        let mut report = report(number, branch, &[], "1");
        let mut results = Results::default();
        let measure = Measure { units: units.into(), ..Measure::named(slug) };
        results.add("a".parse().expect("a name"), measure, Metric::new(value)).expect("added");
        report.iterations = vec![results];
        report
    };
    let times = [
        measured(1, "main", 30.0, "latency", "nanoseconds (ns)"),
        measured(2, "next", 0.45, "latency", "seconds (s)"),
    ];
    let chart = chart(&times, |_| ());
    let [panel] = &chart.panels[..] else { panic!("{} panels", chart.panels.len()) };
    let values: Vec<f64> = panel.lines.iter().map(|line| line.dots[0].value).collect();
    let expected = match panel.measure.units.as_ref() {
        "seconds (s)" => [0.45, 30e-9],
        _ => [450e6, 30.0],
    };
    assert_eq!(values, expected);
}
