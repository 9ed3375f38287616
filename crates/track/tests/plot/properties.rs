//! Any history gives a plot that parsers accept.

use crate::histories::*;
use proptest::prelude::*;
use quick_xml::{Reader, events::Event};
use time::Duration;

use crate::{histories, script::pictures};

/// Checks that the text is well-formed XML, and contains only finite numbers.
pub(crate) fn well_formed(text: &str) {
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

fn chart() -> impl Strategy<Value = Chart> {
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
            let mut chart = histories::chart(&text, stamps, Duration::hours(1), vec![panel]);
            chart.stamps[0].hash = Some(text.clone());
            chart.stamps[0].news = vec![text];
            chart
        })
}

proptest! {
    #[test]
    fn any_history_is_a_well_formed_picture(chart in chart()) {
        well_formed(&svg(&chart));
        let page = html(&chart).expect("a page");
        for picture in pictures(&page) {
            well_formed(picture);
        }
        prop_assert_eq!(page.matches("</script>").count(), 2);
        prop_assert!(!terminal(&chart, Some(80)).is_empty());
    }
}
