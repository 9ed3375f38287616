//! What holds for pictures whatever they look like.

use std::time::Instant;

use time::Duration;
use unicode_width::UnicodeWidthStr as _;
use wingbeat_track::{
    model::Status,
    plot::{html, svg, terminal},
};

use crate::{
    golden::plain,
    histories::{alert, busy, chart, iterations, line, long, many, odd, panel, single},
    properties::well_formed,
};

#[test]
fn all_histories_are_well_formed() {
    for chart in [busy(), many(), single(), odd(), iterations(), long(1_000)] {
        well_formed(&svg(&chart));
    }
    let empty = chart("nothing", 0, Duration::ZERO, Vec::new());
    well_formed(&svg(&empty));
    assert!(svg(&empty).contains("There is nothing to draw."));
}

#[test]
fn names_cannot_break_out() {
    let text = svg(&odd());
    assert!(!text.contains("<script>"));
    assert!(text.contains("&lt;script&gt;"));
    let page = html(&odd()).expect("a page");
    assert_eq!(page.matches("<script>alert").count(), 0);
    assert!(page.contains("\\u003cscript>alert(1)"));
    // Nothing is asked of the network: the only addresses are names of the format.
    let addresses = page.matches("http").count();
    assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count() + 1, "and http-equiv");
}

#[test]
fn many_points_stay_small_and_fast() {
    let chart = long(20_000);
    let begin = Instant::now();
    let (picture, page) = (svg(&chart), html(&chart).expect("a page"));
    let took = begin.elapsed();
    assert!(picture.len() < 150_000, "{} bytes", picture.len());
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    // Without optimisation, and with others at work.
    assert!(took.as_secs() < 5, "{took:?}");
    // The spike is there, whatever was thinned out: it is the only alert.
    assert_eq!(picture.matches("class=\"alert\"").count(), 2, "the key and the alert");
}

#[test]
fn what_is_in_sight_is_explained() {
    let check = |chart: &_, text: &str, expected: bool| {
        assert_eq!(svg(chart).contains(&format!(">{text}</text>")), expected, "{text}");
    };
    let mut plain = line("a", [1.0, 2.0, 3.0]);
    let of = |line| chart("a", 3, Duration::hours(1), vec![panel("latency", vec![line])]);
    check(&of(plain.clone()), "spread", true);
    check(&of(plain.clone()), "alert", false);
    alert(&mut plain, 1, Status::Active);
    check(&of(plain), "alert", true);
    check(&busy(), "environment changed", true);
    check(&busy(), "change of level", true);
    check(&single(), "limit", false);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for chart in [busy(), many(), single(), odd(), iterations(), long(1_000)] {
        for columns in [0, 40, 60, 80, 300] {
            for line in plain(&terminal(&chart, Some(columns))).lines() {
                assert!(line.width() <= columns.max(40), "{columns}: {line}");
            }
        }
    }
}

#[test]
fn names_are_whole_where_there_is_no_terminal() {
    let name = "a/rather/long/name/".repeat(10);
    let lines = |count| (0..count).map(|_| line(&name, [1.0, 2.0])).collect();
    for count in [1, 6] {
        let chart = chart("", 2, Duration::ZERO, vec![panel("x", lines(count))]);
        assert!(terminal(&chart, None).contains(&name), "{count}");
        assert!(!terminal(&chart, Some(80)).contains(&name), "{count}");
    }
}

#[test]
fn percentages_say_of_what() {
    let check = |chart: &_, expected: bool| {
        let words = "newest value against the median before it on its line";
        assert_eq!(terminal(chart, Some(100)).contains(words), expected);
        assert_eq!(svg(chart).contains(words), expected);
    };
    check(&busy(), true);
    check(&single(), false);
}

#[test]
fn a_name_keeps_its_colour() {
    let panels = |names: &[&[&str]]| {
        let lines = |names: &[&str]| names.iter().map(|name| line(name, [1.0])).collect();
        chart("", 1, Duration::ZERO, names.iter().map(|names| panel("x", lines(names))).collect())
    };
    let check = |names: &[&[&str]], expected: &[&[usize]]| {
        assert_eq!(panels(names).colours(), expected, "{names:?}");
    };
    check(&[&["b", "a"], &["a"]], &[&[1, 0], &[0]]);
    check(&[&["a", "b", "c", "d", "e", "f"], &["g", "a"]], &[&[0, 1, 2, 3, 4, 5], &[0, 1]]);
}
