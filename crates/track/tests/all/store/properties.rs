//! Any reports are read back as they were stored, and stores imported from the same files in any order are equal.

use std::fs;

use super::*;
use proptest::{collection::vec, option, prelude::*, sample::Index};

fn finite() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |number| number.is_finite())
}

fn time() -> impl Strategy<Value = OffsetDateTime> {
    any::<i64>().prop_map(|nanoseconds| {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(nanoseconds)).expect("in range")
    })
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn metric() -> impl Strategy<Value = Metric> {
    let ends = (option::of(finite()), option::of(finite()));
    (finite(), ends, vec(finite(), 0..4)).prop_map(|(value, ends, samples)| {
        let (lower_value, upper_value) = ends;
        Metric { value, lower_value, upper_value, samples }
    })
}

fn measure() -> impl Strategy<Value = Measure> {
    let directions = [Direction::LowerIsBetter, Direction::HigherIsBetter, Direction::Unknown];
    let direction = prop::sample::select(directions.to_vec());
    let kind = prop::sample::select(vec![MeasureKind::Exact, MeasureKind::Noisy]);
    ("[a-c]", "\\PC{0,3}", "[xy]", direction, kind).prop_map(
        |(slug, name, units, direction, kind)| Measure {
            slug: Slug::of(&slug),
            name: name.into(),
            units: units.into(),
            direction,
            kind,
        },
    )
}

fn results() -> impl Strategy<Value = Results> {
    let benchmark = ("[a-d\"\\\\'ü]{1,2}(_bencher_ignore){0,2}", measure(), metric());
    let failure = ("[a-d]", "\\PC{0,9}");
    (vec(benchmark, 0..6), vec(failure, 0..2)).prop_map(|(metrics, failures)| {
        let mut results = Results::default();
        for (name, measure, metric) in metrics {
            let name = BenchmarkName::new(name).expect("a name");
            // Mixed units and infinite sums are rejected, which is tested elsewhere.
            let _ = results.add(name, measure, metric);
        }
        results
            .benchmarks
            .retain(|benchmark| benchmark.metrics.iter().all(|(_, metric)| metric.is_finite()));
        for (name, reason) in failures {
            results.fail(BenchmarkName::new(name).expect("a name"), reason);
        }
        results
    })
}

fn environment() -> impl Strategy<Value = Environment> {
    let texts = (option::of("\\PC{0,3}"), option::of("[a-b]"), option::of("[a-b]"));
    let numbers = (option::of(any::<u32>()), option::of(finite()), option::of(any::<bool>()));
    (texts, numbers).prop_map(|((kernel, compiler, git_hash), (cores, load, is_dirty))| {
        Environment { kernel, compiler, git_hash, cores, load, is_dirty, ..Environment::default() }
    })
}

fn any_report() -> impl Strategy<Value = Report> {
    let start = (option::of(time()), any::<u32>(), option::of("[a-f0-9]{1,3}"));
    let start = option::of(start.prop_map(|(until, max_versions, hash)| StartPoint {
        branch: branch("base"),
        hash,
        until,
        max_versions,
    }));
    let adapters: Vec<_> = Adapter::all().collect();
    let what = (uuid(), option::of("[a-c]"), any::<u32>(), start, option::of(uuid()));
    let when = (time(), time(), prop::sample::select(adapters));
    (what, when, environment(), vec(results(), 0..3), "[a-c]{1,2}").prop_map(
        |(what, when, environment, iterations, name)| {
            let (uuid, hash, epoch, start_point, confirms) = what;
            let (start_time, end_time, adapter) = when;
            let branch = branch(&name);
            Report {
                hash,
                epoch,
                start_point,
                end_time,
                adapter,
                environment,
                iterations,
                confirms,
                ..Report::new(uuid, project(), branch, testbed(), start_time)
            }
        },
    )
}

/// Distributes the files of some folders among several new ones, and imports those one after another.
fn import_in_parts(folders: &[&Path], places: &[Index], parts: usize) -> Temporary {
    let temporary = tempfile::tempdir().expect("a folder");
    let targets: Vec<_> = (0..parts).map(|part| temporary.path().join(part.to_string())).collect();
    for target in &targets {
        fs::create_dir(target).expect("a folder");
    }
    let mut places = places.iter().cycle();
    for folder in folders {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("a file");
            let target = places.next().map_or(0, |place| place.index(parts));
            fs::copy(entry.path(), targets[target].join(entry.file_name())).expect("copied");
        }
    }
    let all = super::temporary();
    for target in targets {
        let imported = all.store.import(target).expect("imported");
        assert_eq!(imported.skipped, []);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(64), ..ProptestConfig::default() })]

    #[test]
    fn any_report_comes_out_as_it_went_in(report in any_report()) {
        let from = temporary();
        from.store.insert(&report).expect("stored");
        let found = from.store.report(report.uuid).expect("read");
        prop_assert_eq!(found.as_ref(), Some(&report));
        let folder = from.exported();
        let to = temporary();
        prop_assert_eq!(to.store.import(&folder).expect("imported").skipped, []);
        prop_assert_eq!(to.store.report(report.uuid).expect("read"), Some(report));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(24), ..ProptestConfig::default() })]

    #[test]
    fn stores_of_the_same_files_are_equal(
        reports in vec((0_i64..12, 0_u8..3), 0..10),
        changes in vec((any::<Index>(), 0_usize..3, any::<bool>()), 0..5),
        withdrawn in vec((0_i64..12, any::<bool>()), 0..3),
        places in vec(any::<Index>(), 1..20),
    ) {
        let mut stores = [temporary(), temporary()];
        for (second, place) in &reports {
            let report = report("main", *second, *second as f64 / 3.0);
            // A UUID implies the content, so whether there is an alert depends on the time as well.
            let report = if second % 2 == 0 { with_alert(report) } else { report };
            for (number, store) in stores.iter_mut().enumerate() {
                if *place == 2 || usize::from(*place) == number {
                    store.store.insert(&report).expect("stored");
                }
            }
        }
        let alerts: Vec<_> = (0..12).step_by(2)
            .map(|second| with_alert(report("main", second, 0.0)).alerts[0].uuid)
            .collect();
        for (alert, status, place) in changes {
            let status = [AlertStatus::Active, AlertStatus::Dismissed, AlertStatus::Silenced][status];
            let store = &mut stores[usize::from(place)].store;
            // The alert may not be in that store.
            let _ = store.set_alert_status(*alert.get(&alerts), status, None);
        }
        for (second, place) in withdrawn {
            // The report may not be in that store.
            let report = report("main", second, 0.0).uuid;
            stores[usize::from(place)].store.withdraw(report, None).expect("written");
        }
        let folders = stores.each_ref().map(Temporary::exported);
        let [a, b] = &folders;
        let one = import_in_parts(&[a, b], &places, 3);
        let other = import_in_parts(&[b, a, b], &[], 1);
        let (one, other) = (&one.store, &other.store);
        prop_assert_eq!(content(one), content(other));
        // Merged into the first of the two, the content is the same again.
        stores[0].store.import(b).expect("imported");
        prop_assert_eq!(content(&stores[0].store), content(one));
        let present = |store: &Store| {
            let alerts = store.alerts(&AlertFilter::default(), 100);
            alerts.expect("a list").into_iter().map(|s| (s.alert, s.changed)).collect::<Vec<_>>()
        };
        prop_assert_eq!(present(one), present(other));
        let listed = |store: &Store| store.reports(&ReportFilter::default(), 100).expect("a list");
        prop_assert_eq!(listed(one), listed(other));
    }
}
