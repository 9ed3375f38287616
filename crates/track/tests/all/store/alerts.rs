//! Status of alerts.

use std::collections::HashSet;

use super::*;

#[test]
fn alerts_are_listed_newest_first_with_what_they_are_about() {
    let mut temporary = temporary();
    let reports = [1, 2, 3].map(|second| with_alert(report("main", second, second as f64)));
    temporary.insert(&reports);
    let middle = reports[1].alerts[0].uuid;
    let reason = Some("the disk was slow".to_owned());
    temporary
        .store
        .set_alert_status(middle, AlertStatus::Dismissed, reason.clone())
        .expect("changed");
    let check = |filter: AlertFilter, limit, expected: &[usize]| {
        let alerts = temporary.store.alerts(&filter, limit).expect("a list");
        let uuids: Vec<_> = alerts.iter().map(|stored| stored.alert.uuid).collect();
        let expected: Vec<_> = expected.iter().map(|at| reports[*at].alerts[0].uuid).collect();
        assert_eq!(uuids, expected, "{filter:?}");
    };
    let all = AlertFilter::default;
    check(all(), 100, &[2, 1, 0]);
    check(all(), 1, &[2]);
    check(AlertFilter { status: Some(AlertStatus::Active), ..all() }, 100, &[2, 0]);
    check(AlertFilter { status: Some(AlertStatus::Dismissed), ..all() }, 100, &[1]);
    let since = ReportFilter { since: Some(at(2)), ..ReportFilter::default() };
    check(AlertFilter { reports: since, ..all() }, 100, &[2, 1]);
    let stored = temporary.store.alerts(&all(), 100).expect("a list").remove(1);
    assert_eq!((stored.alert.status, &stored.alert.reason), (AlertStatus::Dismissed, &reason));
    assert_eq!((stored.report, stored.value), (reports[1].uuid, 2.0));
    assert_eq!(
        (stored.measure, stored.boundary),
        (Measure::latency(), reports[1].verdicts[0].boundary)
    );
    assert!(stored.changed.is_some());
    let alert = &temporary.read(&reports[1]).alerts[0];
    assert_eq!((alert.status, &alert.reason), (AlertStatus::Dismissed, &reason));
}

#[test]
fn the_last_change_counts_also_within_a_moment() {
    let mut temporary = temporary();
    let report = with_alert(report("main", 1, 1.0));
    temporary.store.insert(&report).expect("stored");
    for round in 0..50 {
        let status =
            [AlertStatus::Dismissed, AlertStatus::Silenced, AlertStatus::Active][round % 3];
        temporary.settle(&report, status);
        let stored = temporary.store.alerts(&AlertFilter::default(), 1).expect("a list").remove(0);
        assert_eq!(stored.alert.status, status, "round {round}");
    }
}

#[test]
fn an_alert_that_is_not_there() {
    let temporary = temporary();
    let error = temporary.store.set_alert_status(Uuid::nil(), AlertStatus::Dismissed, None);
    let error = error.expect_err("no alert");
    assert!(matches!(error, StoreError::NoSuchAlert { .. }), "{error:?}");
}

#[test]
fn a_silenced_series_stays_silenced() {
    let mut temporary = temporary();
    let first = with_alert(report("main", 1, 1.0));
    let second = with_alert(report("main", 2, 1.0));
    let elsewhere =
        Report { testbed: "other".parse().expect("a name"), ..with_alert(report("main", 3, 1.0)) };
    temporary.insert([&first, &second, &elsewhere]);
    let series = (benchmark("a"), Measure::latency().slug);
    let steps = [
        (&elsewhere, AlertStatus::Silenced, false),
        (&second, AlertStatus::Dismissed, false),
        (&first, AlertStatus::Silenced, true),
        // Another alert of the series is settled: the series stays silenced.
        (&second, AlertStatus::Dismissed, true),
        (&second, AlertStatus::Active, false),
    ];
    for (report, status, is_silenced) in steps {
        temporary.settle(report, status);
        let branches = [branch("main"), branch("nowhere")];
        let silenced = temporary.store.silenced(&project(), &branches, &testbed()).expect("read");
        let expected: HashSet<_> = is_silenced.then(|| series.clone()).into_iter().collect();
        assert_eq!(silenced, expected, "{status}");
    }
}

#[test]
fn a_branch_that_begins_anew_settles_what_was_before() {
    let mut temporary = temporary();
    let head = |epoch, second| Report { epoch, ..with_alert(report("feature", second, 1.0)) };
    let reports =
        [head(0, 1), head(0, 2), head(0, 3), head(1, 4), with_alert(report("main", 5, 1.0))];
    temporary.insert(&reports[..3]);
    let feature = branch("feature");
    let settle = |temporary: &mut Temporary| {
        temporary.store.settle_replaced_heads(&project(), &feature).expect("settled")
    };
    assert_eq!(settle(&mut temporary), 0, "there is one head");
    temporary.settle(&reports[1], AlertStatus::Silenced);
    temporary.insert(&reports[3..]);
    assert_eq!(settle(&mut temporary), 2);
    assert_eq!(settle(&mut temporary), 0, "once is enough");
    let status = |report| temporary.read(report).alerts[0].status;
    assert_eq!(
        reports.each_ref().map(status),
        [
            AlertStatus::Dismissed,
            AlertStatus::Silenced,
            AlertStatus::Dismissed,
            AlertStatus::Active,
            AlertStatus::Active,
        ]
    );
    let silenced = temporary.store.silenced(&project(), &[feature], &testbed()).expect("read");
    assert_eq!(silenced.len(), 1, "what a person silenced stays so on the new head");
}

#[test]
fn a_clock_that_went_back_does_not_undo_a_change() {
    let mut temporary = temporary();
    let report = with_alert(report("main", 1, 1.0));
    temporary.store.insert(&report).expect("stored");
    let ahead = AlertChange {
        uuid: Uuid::now_v7(),
        alert: report.alerts[0].uuid,
        time: OffsetDateTime::now_utc() + Duration::days(300),
        status: AlertStatus::Dismissed,
        reason: None,
    };
    temporary.store.take(Document::AlertChange(ahead.clone())).expect("taken");
    let changed = temporary.settle(&report, AlertStatus::Active);
    assert!(changed.time > ahead.time, "{changed:?}");
    assert_eq!(temporary.read(&report).alerts[0].status, AlertStatus::Active);
}
