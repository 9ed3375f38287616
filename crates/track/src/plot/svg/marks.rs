//! Draws a line: spread, limits, levels, the line itself, its points.

use std::fmt::Write as _;

use super::px;
use crate::plot::{
    chart::{Chart, Dot, Line, Step},
    layout::{Frame, Layout},
    thin::thin,
};

/// Points are drawn individually if they are at least that many pixels apart.
const DOT_DISTANCE: f64 = 6.0;

const COLUMN: f64 = 1.0;

/// Draws spread, limits, levels, line and points. Returns the points of the line.
pub(super) fn line(
    out: &mut String,
    chart: &Chart,
    layout: &Layout,
    frame: &Frame,
    line: &Line,
) -> Vec<(f64, f64)> {
    let places: Vec<f64> = line.dots.iter().map(|dot| layout.x(chart.x(dot))).collect();
    let column = |index: usize| (layout.column(places[index]) as f64 / COLUMN) as usize;
    let kept = thin(line.dots.len(), column, |index| line.dots[index].value);
    let spread = band(&line.dots, &places, frame, layout);
    if !spread.is_empty() {
        let _ = writeln!(out, "<path class=\"band\" d=\"{spread}\"/>");
    }
    let limits: [fn(&Dot) -> Option<f64>; 2] = [|dot| dot.lower_limit, |dot| dot.upper_limit];
    for limit in limits {
        let path = limit_path(&line.dots, &places, &kept, frame, limit);
        if !path.is_empty() {
            let _ = writeln!(out, "<path class=\"limit\" d=\"{path}\"/>");
        }
    }
    let points = kept.iter().map(|&index| (places[index], frame.y(line.dots[index].value)));
    let points: Vec<(f64, f64)> = points.collect();
    let levels = levels(line, &places, frame);
    if !levels.is_empty() {
        let _ = writeln!(out, "<path class=\"level\" d=\"{levels}\"/>");
    }
    if points.len() > 1 {
        let _ = writeln!(out, "<path class=\"line\" d=\"{}\"/>", path(points.iter().copied()));
    }
    if is_sparse(&places) {
        for &(x, y) in &points {
            let _ = writeln!(
                out,
                "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"2.2\"/>",
                px(x),
                px(y)
            );
        }
    }
    points
}

fn is_sparse(places: &[f64]) -> bool {
    match (places.first(), places.last()) {
        (Some(first), Some(last)) => {
            places.len() < 2 || (last - first) / (places.len() - 1) as f64 >= DOT_DISTANCE
        }
        _ => false,
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (index, (x, y)) in points.enumerate() {
        let _ = write!(path, "{}{} {}", if index == 0 { 'M' } else { 'L' }, px(x), px(y));
    }
    path
}

/// The spread as areas, one for each contiguous run of values with a spread. A single one is a bar.
fn band(dots: &[Dot], places: &[f64], frame: &Frame, layout: &Layout) -> String {
    let mut out = String::new();
    // Column, position, and the ends over all values of the column.
    let mut run: Vec<(usize, f64, f64, f64)> = Vec::new();
    let mut flush = |run: &mut Vec<(usize, f64, f64, f64)>| {
        if let [(_, x, lower, upper)] = run[..] {
            let half = 3.0;
            run.insert(0, (0, x - half, lower, upper));
            run[1].1 = x + half;
        }
        let upper = run.iter().map(|&(_, x, _, upper)| (x, frame.y(upper)));
        let lower = run.iter().rev().map(|&(_, x, lower, _)| (x, frame.y(lower)));
        if !run.is_empty() {
            out.push_str(&path(upper.chain(lower)));
            out.push('Z');
        }
        run.clear();
    };
    for (dot, &x) in dots.iter().zip(places) {
        let (Some(lower), Some(upper)) = (dot.lower, dot.upper) else {
            // Among dense points, a single one without a spread is no visible gap.
            if run.last().is_some_and(|last| last.0 != layout.column(x)) {
                flush(&mut run);
            }
            continue;
        };
        let column = layout.column(x);
        match run.last_mut() {
            Some(last) if last.0 == column => {
                last.2 = last.2.min(lower);
                last.3 = last.3.max(upper);
            }
            _ => run.push((column, x, lower, upper)),
        }
    }
    flush(&mut run);
    out
}

/// A limit as a line, interrupted where there is none.
fn limit_path(
    dots: &[Dot],
    places: &[f64],
    kept: &[usize],
    frame: &Frame,
    limit: impl Fn(&Dot) -> Option<f64>,
) -> String {
    let mut out = String::new();
    let mut run: Vec<(f64, f64)> = Vec::new();
    let mut flush = |run: &mut Vec<(f64, f64)>| {
        if let [(x, y)] = run[..] {
            *run = vec![(x - 5.0, y), (x + 5.0, y)];
        }
        out.push_str(&path(run.drain(..)));
    };
    for &index in kept {
        match limit(&dots[index]) {
            Some(limit) => run.push((places[index], frame.y(limit))),
            None => flush(&mut run),
        }
    }
    flush(&mut run);
    out
}

fn levels(line: &Line, places: &[f64], frame: &Frame) -> String {
    let mut out = String::new();
    let Some(first) = line.steps.first() else { return out };
    let mut from = places[0];
    let mut level = first.before;
    let mut add = |from: f64, to: f64, level: f64| {
        let _ = write!(out, "M{} {}H{}", px(from), px(frame.y(level)), px(to));
    };
    for step in &line.steps {
        let x = border(step, places);
        add(from, x, level);
        (from, level) = (x, step.after);
    }
    add(from, places[places.len() - 1], level);
    out
}

/// Half way between the last point of the old level and the first of the new one.
pub(super) fn border(step: &Step, places: &[f64]) -> f64 {
    (places[step.dot.saturating_sub(1)] + places[step.dot]) / 2.0
}
