//! Finding, renaming and listing things.

use super::*;
use crate::registry::tests::{now, on_both_with_project};

fn new(name: &str) -> NewThing<'_> {
    NewThing { name, slug: None, units: None }
}

#[test]
fn things_are_found_by_uuid_slug_and_name() {
    on_both_with_project(|registry, project| {
        let made = registry.create_thing(project, Kind::Branch, &new("feature/x"), now());
        let made = made.expect("written").expect("made");
        for id in [made.uuid.to_string().as_str(), "feature-x", "feature/x"] {
            let found = registry.thing(project, Kind::Branch, id).expect("read");
            assert_eq!(found.as_ref(), Some(&made), "{id}");
        }
        assert_eq!(registry.thing(project, Kind::Testbed, "feature-x").expect("read"), None);
        assert_eq!(registry.thing(project + 1, Kind::Branch, "feature-x").expect("read"), None);
    });
}

#[test]
fn a_renamed_thing_keeps_its_name_in_the_results() {
    on_both_with_project(|registry, project| {
        let create = |name| registry.create_thing(project, Kind::Benchmark, &new(name), now());
        let first = create("parse").expect("written").expect("made");
        let rename = ThingChange {
            name: Some("read".to_owned()),
            slug: Some(Slug::of("read")),
            ..ThingChange::default()
        };
        registry.change_thing(first.id, &rename, now()).expect("written");
        let second = create("parse").expect("written").expect("made");
        assert_eq!((second.stored.as_str(), second.slug.as_str()), ("parse-2", "parse"));
        assert_eq!(create("read").expect("written"), Err(Conflict::Name));
        let back = ThingChange { name: Some("parse".to_owned()), ..ThingChange::default() };
        let changed = registry.change_thing(first.id, &back, now()).expect("written");
        assert_eq!(changed, Some(Err(Conflict::Name)));
    });
}

#[test]
fn lists_have_pages_and_archived_things_stand_apart() {
    on_both_with_project(|registry, project| {
        for name in ["c", "a_1", "b", "a%"] {
            let made = registry.create_thing(project, Kind::Measure, &new(name), now());
            made.expect("written").expect("made");
        }
        let b = registry.thing(project, Kind::Measure, "b").expect("read").expect("b");
        let archive = ThingChange { is_archived: Some(true), ..ThingChange::default() };
        registry.change_thing(b.id, &archive, now()).expect("written");
        let check = |filter: &ThingFilter<'_>, expected: &[&str], total| {
            let (things, count) = registry.things(project, Kind::Measure, filter).expect("read");
            let names: Vec<_> = things.iter().map(|thing| thing.name.as_str()).collect();
            assert_eq!((names.as_slice(), count), (expected, total), "{filter:?}");
        };
        let all = ThingFilter { limit: 10, ..ThingFilter::default() };
        check(&all, &["a%", "a_1", "c"], 3);
        check(&ThingFilter { descending: true, ..all.clone() }, &["c", "a_1", "a%"], 3);
        check(&ThingFilter { limit: 1, offset: 1, ..all.clone() }, &["a_1"], 3);
        check(&ThingFilter { is_archived: true, ..all.clone() }, &["b"], 1);
        check(&ThingFilter { search: Some("A_"), ..all.clone() }, &["a_1"], 1);
        check(&ThingFilter { search: Some("%"), ..all.clone() }, &["a%"], 1);
        check(&ThingFilter { name: Some("c"), ..all }, &["c"], 1);
    });
}

#[test]
fn names_that_begin_alike_get_slugs_of_their_own() {
    on_both_with_project(|registry, project| {
        let mut slugs = std::collections::BTreeSet::new();
        for number in 0..200 {
            let name = format!("{}{number}", "a_".repeat(100));
            let made = registry.create_thing(project, Kind::Benchmark, &new(&name), now());
            let made = made.expect("written").expect("made");
            assert_eq!(made.stored, name);
            assert!(slugs.insert(made.slug.to_string()) && made.slug.as_str().len() <= 64);
        }
    });
}
