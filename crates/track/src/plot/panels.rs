//! Which lines share a panel: those of one measure whose values are of similar size, so that a change
//! of a few percent is to be seen in each.

use super::chart::{LINES_MAX, Line, Panel};
use crate::model::Measure;

/// The largest line of a panel is at most that many times as large as its smallest.
const RATIO_MAX: f64 = 2.5;

/// Divides lines among panels, in the order of the measures and then of size.
pub(super) fn divide(lines: Vec<(Measure, Line)>) -> Vec<Panel> {
    let mut groups: Vec<(Measure, Vec<Line>)> = Vec::new();
    for (measure, line) in lines {
        let is_same = |(known, _): &&mut (Measure, Vec<Line>)| {
            known.slug == measure.slug && known.units == measure.units
        };
        match groups.iter_mut().find(is_same) {
            Some((_, group)) => group.push(line),
            None => groups.push((measure, vec![line])),
        }
    }
    groups.sort_by(|(a, _), (b, _)| (&a.slug, &a.units).cmp(&(&b.slug, &b.units)));
    groups.into_iter().flat_map(|(measure, lines)| panels(&measure, lines)).collect()
}

fn panels(measure: &Measure, lines: Vec<Line>) -> Vec<Panel> {
    let mut sized: Vec<(f64, Line)> = lines.into_iter().map(|line| (size(&line), line)).collect();
    sized.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut parts: Vec<(f64, Vec<Line>)> = Vec::new();
    for (size, line) in sized {
        match parts.last_mut() {
            Some((largest, part)) if part.len() < LINES_MAX && is_near(size, *largest) => {
                part.push(line);
            }
            _ => parts.push((size, vec![line])),
        }
    }
    let count = parts.len();
    let panel = |(index, (_, lines)): (usize, (f64, Vec<Line>))| Panel {
        measure: measure.clone(),
        part: (index + 1, count),
        lines,
    };
    parts.into_iter().enumerate().map(panel).collect()
}

fn is_near(size: f64, largest: f64) -> bool {
    let is_same_sign = (size < 0.0) == (largest < 0.0);
    let (low, high) = (size.abs().min(largest.abs()), size.abs().max(largest.abs()));
    size == largest || is_same_sign && high <= RATIO_MAX * low
}

/// The median of its values.
fn size(line: &Line) -> f64 {
    let mut values: Vec<f64> = line.dots.iter().map(|dot| dot.value).collect();
    let middle = values.len() / 2;
    match values.is_empty() {
        true => 0.0,
        false => *values.select_nth_unstable_by(middle, f64::total_cmp).1,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::chart::Dot, *};

    #[test]
    fn lines_of_similar_size_share_a_panel() {
        let line = |slug: &str, value: f64| {
            let dots = vec![Dot { value, ..Dot::default() }];
            (Measure::named(slug), Line { name: String::new(), dots, steps: Vec::new() })
        };
        let check = |values: &[(&str, f64)], expected: &[&[f64]]| {
            let panels = divide(values.iter().map(|(slug, value)| line(slug, *value)).collect());
            let found: Vec<Vec<f64>> = panels
                .iter()
                .map(|panel| panel.lines.iter().map(|line| line.dots[0].value).collect())
                .collect();
            assert_eq!(found, expected, "{values:?}");
        };
        check(&[], &[]);
        check(&[("latency", 10.0), ("latency", 12.0)], &[&[12.0, 10.0]]);
        check(&[("latency", 10.0), ("file-size", 12.0)], &[&[12.0], &[10.0]]);
        check(&[("latency", 10.0), ("latency", 100.0)], &[&[100.0], &[10.0]]);
        check(&[("latency", 0.0), ("latency", 0.0), ("latency", 1.0)], &[&[1.0], &[0.0, 0.0]]);
        check(&[("latency", -1.0), ("latency", 1.0)], &[&[1.0], &[-1.0]]);
        let seven = [("latency", 1.0); 7];
        check(&seven, &[&[1.0; 6], &[1.0]]);
    }
}
