//! Profiles of reports: stored once per content, found for an alert, and deleted by retention.

use std::fs;

use super::*;

fn profile(report: &Report, benchmark: Option<&str>, content: &str) -> Profile {
    Profile::new(
        report.uuid,
        benchmark.map(self::benchmark),
        ProfileKind::Wall,
        9,
        content.as_bytes().to_vec(),
    )
}

fn has(store: &Store, profile: &Profile) -> bool {
    store.profile_content(profile.about.sha256).expect("read").is_some()
}

#[test]
fn what_is_stored_comes_back_and_is_stored_once() {
    let mut temporary = temporary();
    let report = report("main", 1, 1.0);
    temporary.insert([&report]);
    let store = &mut temporary.store;
    let of_all = profile(&report, None, "all");
    let [one, same] = [profile(&report, Some("a"), "one"), profile(&report, Some("b"), "one")];
    let all = [of_all.clone(), one.clone(), same.clone()];
    assert_eq!(store.insert_profiles(&all).expect("stored"), 3);
    assert_eq!(store.insert_profiles(&all).expect("stored"), 0);
    let listed = store.profiles(report.uuid).expect("a list");
    assert_eq!(listed, all.each_ref().map(|profile| profile.about.clone()));
    assert_eq!(store.profile_content(one.about.sha256).expect("read"), one.pprof);
    let check = store.check().expect("checked");
    assert_eq!((check.profiles, check.damaged), (3, Vec::new()));
    let count = "SELECT count(*) FROM profile_content";
    assert_eq!(
        connect(&temporary.store)
            .query_row(count, [], |row| row.get::<_, i64>(0))
            .expect("a count"),
        2
    );
}

#[test]
fn one_that_is_not_what_it_says_is_refused() {
    let temporary = temporary();
    let mut wrong = profile(&report("main", 1, 1.0), None, "content");
    wrong.pprof = Some(b"another".to_vec());
    let refused = temporary.store.insert_profiles(&[wrong]).expect_err("refused").to_string();
    assert!(refused.contains("not the one that its hash"), "{refused}");
    let mut large = profile(&report("main", 1, 1.0), None, "");
    large.about.bytes = 3 << 20;
    large.pprof = None;
    let refused = temporary.store.insert_profiles(&[large]).expect_err("refused").to_string();
    assert!(refused.contains("are the limit"), "{refused}");
}

#[test]
fn damage_is_found() {
    let mut temporary = temporary();
    let report = report("main", 1, 1.0);
    temporary.insert([&report]);
    let profile = profile(&report, None, "content");
    temporary.store.insert_profiles(std::slice::from_ref(&profile)).expect("stored");
    let damage = "UPDATE profile_content SET pprof = ?1";
    connect(&temporary.store).execute(damage, [vec![0_u8]]).expect("damaged");
    let error = temporary.store.profile_content(profile.about.sha256).expect_err("damaged");
    assert!(error.to_string().contains("not the one that was stored"), "{error}");
    let check = temporary.store.check().expect("checked");
    assert!(check.damaged[0].what.contains("content of the profile"), "{check:?}");
}

#[test]
fn they_are_files_and_lines_that_merge() {
    let mut from = temporary();
    let report = report("main", 1, 1.0);
    from.insert([&report]);
    let profile = profile(&report, Some("a"), "content");
    from.store.insert_profiles(std::slice::from_ref(&profile)).expect("stored");
    let folder = from.folder.path().join("files");
    let exported = from.store.export(&folder).expect("exported");
    assert_eq!(
        (exported.documents.reports, exported.documents.profiles, exported.already_there),
        (1, 1, 0)
    );
    assert_eq!(from.store.export(&folder).expect("exported").already_there, 2);
    let line = from.folder.path().join("lines.json");
    assert_eq!(from.store.export_file(&line, true).expect("exported").documents.profiles, 1);
    // A profile may come before its report.
    let later = from.folder.path().join("later");
    fs::create_dir(&later).expect("a folder");
    for entry in fs::read_dir(&folder).expect("a folder").flatten() {
        if !entry.file_name().to_string_lossy().ends_with(".profile.json") {
            fs::rename(entry.path(), later.join(entry.file_name())).expect("moved");
        }
    }
    for sources in [vec![folder, later], vec![line]] {
        let to = temporary();
        for source in &sources {
            let imported = match source.is_dir() {
                true => to.store.import(source),
                false => to.store.import_file(source),
            };
            assert_eq!(imported.expect("imported").skipped, []);
        }
        let listed = to.store.profiles(report.uuid).expect("a list");
        assert_eq!(listed, std::slice::from_ref(&profile.about));
        assert!(has(&to.store, &profile));
        assert_eq!(content(&to.store), content(&from.store));
    }
}

#[test]
fn documents_go_page_by_page_to_the_last_profile() {
    let mut temporary = temporary();
    let report = with_alert(report("main", 1, 1.0));
    temporary.insert([&report]);
    temporary.settle(&report, AlertStatus::Silenced);
    let profiles: Vec<_> = (0..5).map(|at| profile(&report, None, &format!("{at}"))).collect();
    temporary.store.insert_profiles(&profiles).expect("stored");
    temporary.store.withdraw(report.uuid, None).expect("written");
    let store = &temporary.store;
    let (mut after, mut lines) = (None, Vec::new());
    loop {
        let page = store.documents(&project(), after, 2, usize::MAX).expect("a page");
        lines.extend(page.lines.lines().map(|line| Document::parse(line.as_bytes()).expect("one")));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    let kinds: String = lines
        .iter()
        .map(|document| match document {
            Document::Report(_) => 'r',
            Document::AlertChange(_) => 'a',
            Document::Withdrawal(_) => 'w',
            Document::Profile(_) => 'p',
        })
        .collect();
    assert_eq!(kinds, "rawppppp");
}

#[test]
fn an_alert_is_compared_with_the_last_profile_before_it() {
    let mut temporary = temporary();
    let [first, second, alerting] =
        [report("main", 1, 1.0), report("main", 2, 1.0), with_alert(report("main", 3, 9.0))];
    let feature = Report {
        start_point: Some(start_point("main", Some(at(2)), 255)),
        ..with_alert(report("feature", 4, 9.0))
    };
    temporary.insert([&first, &second, &alerting, &feature]);
    let name = benchmark("a");
    let of = |report: &Report, content: &str| profile(report, Some(name.as_str()), content);
    let profiles = [
        of(&first, "1"),
        of(&second, "2"),
        of(&alerting, "3"),
        profile(&second, Some("other"), "4"),
    ];
    let store = &mut temporary.store;
    store.insert_profiles(&profiles).expect("stored");
    let before = |store: &Store, report: &Report, kind| {
        let found = store.profile_before(report, Some(&name), kind, None).expect("read");
        found.map(|about| about.uuid)
    };
    let wall = ProfileKind::Wall;
    assert_eq!(before(store, &alerting, wall), Some(profiles[1].about.uuid));
    assert_eq!(before(store, &feature, wall), Some(profiles[1].about.uuid));
    assert_eq!(before(store, &second, wall), Some(profiles[0].about.uuid));
    assert_eq!(before(store, &first, wall), None);
    assert_eq!(before(store, &alerting, ProfileKind::Cpu), None);
    store.withdraw(second.uuid, None).expect("written");
    assert_eq!(before(store, &alerting, wall), Some(profiles[0].about.uuid));
}

#[test]
fn retention_keeps_what_alerts_need() {
    let mut temporary = temporary();
    let mut reports: Vec<_> = (1..=6).map(|second| report("main", second, 1.0)).collect();
    reports[2] = with_alert(reports[2].clone());
    temporary.insert(&reports);
    let name = benchmark("a");
    let profiles: Vec<_> = reports
        .iter()
        .enumerate()
        .map(|(at, report)| profile(report, Some(name.as_str()), &at.to_string()))
        .collect();
    let store = &mut temporary.store;
    store.insert_profiles(&profiles).expect("stored");
    let retention = Retention { newest: 1, ..Retention::default() };
    assert_eq!(store.tidy_profiles(&project(), retention).expect("tidied"), 3);
    let kept = |store: &Store| profiles.iter().map(|it| has(store, it)).collect::<Vec<_>>();
    assert_eq!(kept(store), [false, true, true, false, false, true]);
    // They are still listed.
    assert_eq!(store.profiles(reports[0].uuid).expect("a list").len(), 1);
    assert_eq!(store.check().expect("checked").damaged, []);
    temporary.settle(&reports[2], AlertStatus::Dismissed);
    let store = &mut temporary.store;
    assert_eq!(store.tidy_profiles(&project(), retention).expect("tidied"), 2);
    assert_eq!(kept(store), [false, false, false, false, false, true]);
}
