//! Names of measures, as in old stores.

use crate::support::*;

/// A report with one value of a measure of the benchmark `a`.
fn of(measure: &Measure, second: i64, value: f64) -> Report {
    let mut results = Results::default();
    results.add(benchmark("a"), measure.clone(), Metric::new(value)).expect("added");
    Report { iterations: vec![results], ..report("main", second, value) }
}

/// A measure with the slug that its name had before slugs were unique.
fn old(name: &str) -> Measure {
    Measure { slug: Slug::of(name), ..Measure::named(name) }
}

/// The values that a new report's measure is judged by.
fn history(store: &Store, measure: &Measure) -> Vec<f64> {
    let mut measure = measure.clone();
    measure.slug = store.slugs(&project()).expect("read").of(&measure);
    let past = store.history(&of(&measure, 100, 0.0), HistoryLimits::NONE).expect("a history");
    let found = past.find(&benchmark("a"), &measure);
    found.map(|series| series.points.iter().map(|it| it.value).collect()).unwrap_or_default()
}

#[test]
fn series_of_old_stores_go_on() {
    let mut temporary = temporary();
    let names = ["延迟", "内存", "read_bytes", "read-bytes", "Größe", "my-score", "latency"];
    for (second, name) in (0..).zip(names) {
        temporary.insert([of(&old(name), second, second as f64)]);
    }
    let other = of(&old("p99-9"), 50, 50.0);
    temporary.insert([Report { project: "other".parse().expect("a name"), ..other }]);
    let mut slugs = temporary.store.slugs(&project()).expect("read");
    let mut check = |name: &str, slug: Option<&str>| {
        let found = slugs.of(&Measure::named(name));
        let expected = slug.map_or_else(|| Slug::with_tail(name), Slug::of);
        assert_eq!(found, expected, "{name}");
    };
    check("延迟", Some("x"));
    check("内存", None);
    check("read_bytes", Some("read-bytes"));
    check("read-bytes", None);
    check("Größe", Some("gr-e"));
    check("my-score", Some("my-score"));
    check("latency", Some("latency"));
    check("время", None);
    for (second, name) in (0..).zip(names) {
        let measure = Measure::named(name);
        assert_eq!(history(&temporary.store, &measure), [second as f64], "{name}");
        // Also once a report has the new slug.
        let mut renewed = measure.clone();
        renewed.slug = temporary.store.slugs(&project()).expect("read").of(&measure);
        temporary.insert([of(&renewed, 10 + second, 10.0)]);
        assert_eq!(history(&temporary.store, &measure), [second as f64, 10.0], "{name}");
    }
}

/// Two projects of a store do not share slugs.
#[test]
fn slugs_are_those_of_a_project() {
    let mut temporary = temporary();
    let elsewhere = of(&old("read_bytes"), 0, 1.0);
    temporary.insert([Report { project: "other".parse().expect("a name"), ..elsewhere }]);
    temporary.insert([of(&old("read-bytes"), 1, 2.0)]);
    let slug = |project| {
        let mut slugs = temporary.store.slugs(&project).expect("read");
        slugs.of(&Measure::named("read-bytes"))
    };
    assert_eq!(slug(project()), Slug::of("read-bytes"));
    assert_eq!(slug("other".parse().expect("a name")), Slug::with_tail("read-bytes"));
}

#[test]
fn a_series_goes_on_when_units_are_said() {
    let check = |units: &[Option<&str>], now: Option<&str>, expected: &[f64]| {
        let measure = |units: Option<&str>| {
            let plain = Measure::named("p99");
            let units = units.map_or(plain.units.clone(), |units| units.to_owned().into());
            Measure { units, direction: Direction::LowerIsBetter, ..plain }
        };
        let mut temporary = temporary();
        for (second, &units) in (0..).zip(units) {
            temporary.insert([of(&measure(units), second, second as f64)]);
        }
        assert_eq!(history(&temporary.store, &measure(now)), expected, "{units:?} {now:?}");
    };
    let (none, ms, s) = (None, Some("ms"), Some("s"));
    check(&[none, none], ms, &[0.0, 1.0]);
    check(&[none, ms], ms, &[0.0, 1.0]);
    check(&[none, ms], none, &[0.0, 1.0]);
    check(&[ms, s], s, &[1.0]);
    check(&[ms, s], ms, &[0.0]);
    check(&[none, ms, s], s, &[2.0]);
}
