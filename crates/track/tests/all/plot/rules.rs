//! Rules for plots independent of their looks: any history gives one that parsers accept.

use std::time::Instant;

use super::{script::pictures, *};
use proptest::prelude::*;
use quick_xml::{Reader, events::Event};
use unicode_width::UnicodeWidthStr as _;

#[test]
fn without_reports_there_is_nothing_to_draw() {
    let empty = svg(&chart("nothing", 0, Duration::ZERO, Vec::new()));
    well_formed(&empty);
    assert!(empty.contains("There is nothing to draw."));
}

#[test]
fn names_cannot_break_out() {
    let text = svg(&odd());
    assert!(!text.contains("<script>"));
    assert!(text.contains("&lt;script&gt;"));
    let page = html(&odd()).expect("a page");
    assert_eq!(page.matches("<script>alert").count(), 0);
    assert!(page.contains("\\u003cscript>alert(1)"));
    let lines = vec![line("a\u{202e}", [1.0, 2.0, 1.0])];
    let turned = chart("t\u{202e}", 3, Duration::hours(1), vec![panel("latency", lines)]);
    for text in [svg(&turned), html(&turned).expect("a page")] {
        assert!(!text.contains('\u{202e}') && !text.contains("\":\"a\\u202e"), "{text}");
        assert!(text.contains("t\\u202e") && text.contains("a\\u202e"), "{text}");
    }
    // No network requests: the only addresses are XML namespaces.
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
    // Unoptimized, and on a busy machine.
    assert!(took.as_secs() < 5, "{took:?}");
    // The spike is kept whatever was thinned out: it is the only alert.
    assert_eq!(picture.matches("class=\"alert\"").count(), 2, "the key and the alert");
}

#[test]
fn slow_drift_is_told_below() {
    let of = |rate: f64| {
        let line = line("main", (0..100).map(|at| 100.0 * rate.powi(at)));
        chart("a", 100, Duration::hours(1), vec![panel("latency", vec![line])])
    };
    let told = "main · Latency of main has risen by 56.7 % over 90 reports";
    let footer = |rate| Figures::of(&of(rate)).expect("figures").footer;
    assert_eq!(footer(1.005), [told]);
    assert_eq!(footer(1.0), [""; 0]);
    assert!(svg(&of(1.005)).contains(told));
    let shown = |rate| plain(&terminal(&of(rate), Some(120)));
    assert!(shown(1.005).contains(told) && !shown(1.0).contains("has risen"));
}

#[test]
fn far_limits_are_figures_at_the_edge_and_do_not_squeeze_the_values() {
    for scale in [Scale::Auto, Scale::Logarithmic] {
        let picture = svg(&far_limits(scale));
        for text in ["↑ limit 900.0 ns", "↓ limit 20.00 ns"] {
            assert!(picture.contains(&format!(">{text}</text>")), "{text}: {picture}");
        }
        let (_, curve) = picture.split_once("class=\"line\" d=\"M").expect("a line");
        let curve = curve.split_once('"').expect("its end").0;
        let heights = curve.split('L').map(|point| {
            point.split_once(' ').and_then(|(_, y)| y.parse::<f64>().ok()).expect("a height")
        });
        let (low, high) =
            heights.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)));
        // Of 130 pixels; the spreads take a little.
        assert!(high - low > 95.0, "{scale:?}: {low} to {high}");
    }
    let near = limited(line("main", (0..30).map(|at| 300.0 + 7.0 * f64::from(at))), 290.0, 520.0);
    let near = svg(&chart("", 30, Duration::hours(1), vec![panel("latency", vec![near])]));
    assert!(!near.contains("↑ limit"), "a limit in sight needs no figure");
}

#[test]
fn an_axis_is_logarithmic_on_request() {
    let of = |values: [f64; 3], scale| {
        let panels = vec![panel("latency", vec![bare(line("a", values))])];
        svg(&Chart { scale, ..chart("", 3, Duration::hours(1), panels) })
    };
    let check = |values, scale, expected: &str| {
        let picture = of(values, scale);
        let (_, title) = picture.split_once("class=\"title\"").expect("a title");
        let title = title.split_once("</text>").expect("its end").0;
        assert!(title.contains(expected), "{title}");
        title.contains("logarithmic")
    };
    assert!(check([300.0, 400.0, 500.0], Scale::Logarithmic, "lower is better"));
    assert!(!check([300.0, 400.0, 500.0], Scale::Auto, "lower is better"));
    assert!(check([1.0, 10.0, 100.0], Scale::Auto, "lower is better"));
    assert!(!check([1.0, 10.0, 100.0], Scale::Linear, "lower is better"));
    assert!(!check([0.0, 10.0, 100.0], Scale::Logarithmic, "not all values are positive"));
    // Round numbers stand beside an axis that spans less than a power of ten.
    let picture = of([300.0, 400.0, 500.0], Scale::Logarithmic);
    assert!(
        [">300<", ">350<", ">400<", ">450<"].iter().all(|it| picture.contains(it)),
        "{picture}"
    );
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
    alert(&mut plain, 1, AlertStatus::Active);
    check(&of(plain), "alert", true);
    check(&busy(), "environment changed", true);
    check(&busy(), "change of level", true);
    check(&single(), "limit", false);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for chart in all() {
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
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
    let coloured: Vec<usize> = (0..12).chain([12, 12]).collect();
    check(&[&letters, &["n", "a"]], &[&coloured, &[0, 1]]);
}

/// Approximate rectangles of texts of a class: left, top, right, bottom.
fn texts(picture: &str, class: &str) -> Vec<(f64, f64, f64, f64)> {
    let begin = format!("<text class=\"{class}\" x=\"");
    let text = |part: &str| {
        let (x, rest) = part.split_once("\" y=\"").expect("y");
        let (y, rest) = rest.split_once("\">").expect("an end");
        let text = rest.split_once('<').expect("a text").0;
        let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
        // Digits of this font are at least that wide.
        (x - 6.0 * text.chars().count() as f64, y - 10.0, x, y)
    };
    picture.split(&begin).skip(1).map(text).collect()
}

#[test]
fn texts_of_steps_do_not_overlap() {
    let picture = svg(&steps_together());
    let texts = texts(&picture, "change");
    assert_eq!(texts.len(), 15, "each step has one");
    for (index, a) in texts.iter().enumerate() {
        for b in &texts[..index] {
            let apart = a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1;
            assert!(apart, "{a:?} {b:?}");
        }
    }
}

#[test]
fn steps_over_seven_decades_are_seen() {
    let picture = svg(&wide());
    assert!(picture.contains("logarithmic"));
    for text in [">100 ns<", ">10 µs<", ">100 ms<"] {
        assert!(picture.contains(text), "{text}");
    }
    // The step from 33 to 36 ns of the other branch is some pixels high.
    let small = svg(&{
        let mut chart = wide();
        chart.panels[0].lines.remove(0);
        chart
    });
    assert!(!small.contains("logarithmic"));
}

#[test]
fn the_key_has_a_space_between_sign_and_meaning() {
    let picture = svg(&busy());
    let (sign, rest) = picture.split_once(">± %</text><text x=\"").expect("the key");
    assert!(sign.ends_with("y=\"4\""));
    let x: f64 = rest.split_once('"').expect("x").0.parse().expect("a number");
    // DejaVu Sans, which is wide, takes 26 pixels.
    assert!(x >= 32.0, "{x}");
}

/// Checks that the text is well-formed XML, and contains only finite numbers.
fn well_formed(text: &str) {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} in {text}")) {
            Event::Eof => break,
            Event::Start(tag) | Event::Empty(tag) => {
                for attribute in tag.attributes() {
                    let attribute = attribute.expect("an attribute");
                    let value = attribute.value;
                    assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
                }
            }
            _ => {}
        }
    }
    let is_allowed = |c: char| !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    assert!(text.chars().all(is_allowed));
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |value| value.is_finite()),
        -10.0..10.0,
        Just(0.0),
        Just(f64::MAX),
        Just(f64::MIN),
    ]
}

fn dot(stamps: usize) -> impl Strategy<Value = PlotPoint> {
    let ends = prop::array::uniform4(prop::option::of(value()));
    let alert = prop::option::of((
        prop_oneof![Just(Limit::Lower), Just(Limit::Upper)],
        prop_oneof![Just(AlertStatus::Active), Just(AlertStatus::Dismissed)],
    ));
    (0..stamps, value(), ends, alert).prop_map(|(stamp, value, ends, alert)| {
        let [lower, upper, lower_limit, upper_limit] = ends;
        PlotPoint {
            report: stamp,
            value,
            lower,
            upper,
            lower_limit,
            upper_limit,
            alert,
            ..PlotPoint::default()
        }
    })
}

fn any_chart() -> impl Strategy<Value = Chart> {
    let line = |stamps| {
        (any::<String>(), prop::collection::vec(dot(stamps), 1..20)).prop_map(|(name, mut dots)| {
            dots.sort_by_key(|dot| dot.report);
            Line { name, dots, steps: Vec::new() }
        })
    };
    (1_usize..30)
        .prop_flat_map(move |stamps| {
            let lines = prop::collection::vec(line(stamps), 1..5);
            (Just(stamps), lines, any::<String>(), any::<String>())
        })
        .prop_map(|(stamps, lines, text, units)| {
            let mut panel = panel("score", lines);
            panel.measure.units = units.into();
            panel.measure.name = text.clone().into();
            let mut chart = chart(&text, stamps, Duration::hours(1), vec![panel]);
            chart.stamps[0].hash = Some(text.clone());
            chart.stamps[0].news = vec![text];
            chart
        })
}

proptest! {
    #[test]
    fn any_history_is_a_well_formed_picture(chart in any_chart()) {
        well_formed(&svg(&chart));
        let page = html(&chart).expect("a page");
        for picture in pictures(&page) {
            well_formed(picture);
        }
        prop_assert_eq!(page.matches("</script>").count(), 2);
        prop_assert!(!terminal(&chart, Some(80)).is_empty());
    }
}
