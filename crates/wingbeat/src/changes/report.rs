//! Formats change points as a table or as JSON. Pure.

use serde::{
    Serialize,
    ser::{SerializeMap as _, Serializer},
};
use wingbeat_stats::changes::{Change, POINTS_MIN};
use wingbeat_text::{Block, Side, exponential, grouped, list, or_dash, rounded, row, share};

use super::Found;
use crate::shell::json_text;

/// A table with one line per change, and the number of series without any. Shortens names to fit the width.
pub(super) fn blocks(found: &[Found], labels: Option<&[String]>) -> [Block; 2] {
    let mut lines = Vec::new();
    for Found { series, changes } in found {
        for change in changes {
            let (before, after) = levels(change);
            let mut line = vec![series.name.clone(), change.index.to_string()];
            // A label may be anything, even several lines.
            line.extend(
                labels.map(|labels| label(labels, change.index).replace(char::is_control, " ")),
            );
            let relative = or_dash(change.relative(), share::change);
            line.extend([before, "→".to_owned(), after, relative, chance(change.p_value)]);
            lines.push(row(line));
        }
    }
    let mut head = vec![("series", Side::Name), ("index", Side::Right)];
    head.extend(labels.map(|_| ("label", Side::Name)));
    head.extend(["before", "", "after", "change", "p"].map(|heading| (heading, Side::Right)));
    let quiet = found.iter().filter(|found| found.changes.is_empty()).count();
    let note = (quiet > 0).then(|| {
        let (quiet, all) = (grouped(quiet), grouped(found.len()));
        let short = short(found).map_or_else(String::new, |short| format!("; {short}"));
        format!("no change in {quiet} of {all} series{short}")
    });
    [Block::Rows(head, lines), list(note)]
}

/// Sentence about the number of series that are too short for a change.
pub(super) fn short(found: &[Found]) -> Option<String> {
    let short = found.iter().filter(|found| found.is_short()).count();
    let has = if short == 1 { "has" } else { "have" };
    (short > 0).then(|| {
        let (short, all) = (grouped(short), grouped(found.len()));
        format!(
            "{short} of {all} series {has} fewer than {POINTS_MIN} values, too few for a change"
        )
    })
}

fn label(labels: &[String], index: usize) -> &str {
    labels.get(index).map_or("", String::as_str)
}

/// Both levels, with enough digits to show their difference to two digits.
fn levels(change: &Change) -> (String, String) {
    let (before, after) = (change.before, change.after);
    let largest = before.abs().max(after.abs());
    let difference = (after - before).abs();
    if !(1e-4..1e15).contains(&largest) {
        return (exponential(before, 3), exponential(after, 3));
    }
    let decimals = (1.0 - difference.log10().floor()).clamp(0.0, 12.0) as usize;
    (rounded(before, decimals), rounded(after, decimals))
}

fn chance(p: f64) -> String {
    if p < 1e-9 { "<1e−9".to_owned() } else { exponential(p, 1) }
}

/// `{"series": {"name": [{"index", "before", "after", "change", "p"}]}}`, all series in order.
pub(super) fn json(found: &[Found], labels: Option<&[String]>) -> anyhow::Result<String> {
    json_text(1, &Json { series: JsonSeries { found, labels } })
}

#[derive(Serialize)]
struct Json<'a> {
    series: JsonSeries<'a>,
}

struct JsonSeries<'a> {
    found: &'a [Found],
    labels: Option<&'a [String]>,
}

#[derive(Serialize)]
struct JsonChange<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    before: f64,
    after: f64,
    change: Option<f64>,
    p: f64,
}

impl Serialize for JsonSeries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.found.len()))?;
        for Found { series, changes } in self.found {
            let changes = changes.iter().map(|change| JsonChange {
                index: change.index,
                label: self.labels.map(|labels| label(labels, change.index)),
                before: change.before,
                after: change.after,
                change: change.relative(),
                p: change.p_value,
            });
            map.serialize_entry(&series.name, &changes.collect::<Vec<_>>())?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_text::Style;

    use super::{super::input::Series, *};

    fn found(name: &str, changes: &[(usize, f64, f64, f64)]) -> Found {
        let changes = changes.iter().map(|&(index, before, after, p_value)| Change {
            index,
            before,
            after,
            p_value,
        });
        let series = Series { name: name.to_owned(), values: vec![1.0; 200] };
        Found { series, changes: changes.collect() }
    }

    fn human(found: &[Found], labels: Option<&[String]>, width: usize) -> String {
        wingbeat_text::human(&blocks(found, labels), Style { width, ..Style::default() })
    }

    #[test]
    fn a_table() {
        let all = [
            found("latency", &[(12, 100.0, 103.5, 2e-5), (140, 103.5, 99.9, 1e-30)]),
            found("größe", &[(3, 0.0, 4096.0, 1e-4)]),
            found("calm", &[]),
        ];
        let expected = "\
series   index  before     after  change       p
latency     12   100.0  →  103.5  +3.5 %  2.0e−5
latency    140   103.5  →   99.9  −3.5 %   <1e−9
größe        3       0  →  4,096       –  1.0e−4

no change in 1 of 3 series
";
        assert_eq!(human(&all, None, usize::MAX), expected);
    }

    #[test]
    fn labels_have_a_column() {
        let labels = ["a1".to_owned(), "b2-long".to_owned()];
        let expected = "\
series  index  label    before     after   change       p
a           1  b2-long     2.0  →    3.0  +50.0 %  1.0e−4
a           9              3.0  →    2.0  −33.3 %  1.0e−4
";
        let found = [found("a", &[(1, 2.0, 3.0, 1e-4), (9, 3.0, 2.0, 1e-4)])];
        assert_eq!(human(&found, Some(&labels), usize::MAX), expected);
    }

    #[test]
    fn nothing_found() {
        assert_eq!(human(&[found("a", &[])], None, usize::MAX), "no change in 1 of 1 series\n");
    }

    #[test]
    fn series_that_are_too_short_are_said() {
        let mut short = found("a", &[]);
        short.series.values = vec![1.0, 2.0, f64::NAN, 3.0];
        let text = human(&[short, found("b", &[])], None, usize::MAX);
        let expected = "no change in 2 of 2 series; 1 of 2 series has fewer than 8 values, too few for a change\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn names_are_shortened_to_the_terminal() {
        let (name, label) = ("a/rather/long/name/of/a/series/".repeat(4), "2026-01-01".repeat(4));
        let labels = vec![label; 10];
        let all = [found(&name, &[(3, 1.0, 2.0, 1e-4)]), found("b", &[])];
        for width in [60, 80, 100, usize::MAX] {
            let text = human(&all, Some(&labels), width);
            assert!(text.lines().all(|line| wingbeat_text::width(line) <= width), "{text}");
            assert_eq!(text.contains(&name), width == usize::MAX, "{text}");
        }
    }

    #[test]
    fn levels_have_the_digits_that_tell() {
        let check = |before, after, expected: (&str, &str)| {
            let (low, high) = levels(&Change { index: 0, before, after, p_value: 0.0 });
            assert_eq!((low.as_str(), high.as_str()), expected, "{before} → {after}");
        };
        check(991.43, 995.74, ("991.4", "995.7"));
        check(1.0, 10.0, ("1.0", "10.0"));
        check(100_000.0, 250_000.0, ("100,000", "250,000"));
        check(0.512_34, 0.523_45, ("0.512", "0.523"));
        check(1000.0, 0.000_1, ("1,000", "0.00010"));
        check(1e-7, 2e-7, ("1.000e−7", "2.000e−7"));
        check(1e18, 2e18, ("1.000e18", "2.000e18"));
    }

    #[test]
    fn json_has_every_series_in_order() {
        let all = [found("b", &[(7, 0.0, 2.5, 1e-4)]), found("a", &[])];
        let expected = r#"{
  "schema_version": 1,
  "series": {
    "b": [
      {
        "index": 7,
        "before": 0.0,
        "after": 2.5,
        "change": null,
        "p": 0.0001
      }
    ],
    "a": []
  }
}
"#;
        assert_eq!(json(&all, None).expect("JSON"), expected);
        let labels = vec!["x".to_owned(); 8];
        let text = json(&all, Some(&labels)).expect("JSON");
        assert!(text.contains("\"index\": 7,\n        \"label\": \"x\","), "{text}");
    }
}
