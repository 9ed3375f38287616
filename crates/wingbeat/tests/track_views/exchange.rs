//! `wingbeat export` and `import`.

use std::fs;

use crate::support::{Place, stderr, stdout};

#[test]
fn there_and_back() {
    let place = Place::with_history();
    place.wingbeat(&["alerts", "dismiss", "beef"]).success();
    let check = |place: &Place, args: &[&str], code: i32, expected: &str| {
        let assert = place.wingbeat(args).code(code);
        assert!(stderr(&assert).contains(expected), "{args:?}: {}", stderr(&assert));
    };
    let folder = place.folder.path().join("out");
    let folder = folder.to_str().expect("a text");
    check(&place, &["export", folder], 0, "wrote 25 reports and 1 change of an alert to");
    check(&place, &["export", folder], 0, "wrote 0 reports to");
    check(&place, &["export", folder], 0, "; 26 were there already");
    let other = Place::empty();
    check(&other, &["import", folder], 0, "took 25 reports and 1 change of an alert into");
    check(&other, &["import", folder], 0, "; 26 were there already");
    let log = |place: &Place| stdout(&place.wingbeat(&["log", "-n", "100"]).success());
    assert_eq!(log(&place), log(&other));
    fs::write(place.folder.path().join("out/broken.json"), "{").expect("written");
    check(&other, &["import", folder], 1, "broken.json was skipped: ");
    check(&other, &["import", folder], 1, "there already, 1 file skipped");
    check(&other, &["import", "nowhere"], 1, "cannot read the folder nowhere");
}
