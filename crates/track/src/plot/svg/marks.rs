//! The marks of a line: spread, limits, the line itself, its points; and the signs upon it, which are
//! changes of level and alerts.

use std::fmt::Write as _;

use super::px;
use crate::{
    model::{Limit, Status},
    output::number::change,
    plot::{
        chart::{Chart, Dot, Line, Step},
        layout::{FONT_SMALL, Frame, Layout},
        thin::thin,
        words::width,
    },
};

/// Points are drawn singly if they are at least that many pixels apart.
const DOT_DISTANCE: f64 = 6.0;

/// Columns of pixels within which points are thinned out.
const COLUMN: f64 = 1.0;

/// Distance of the upper end of a sign's text from the value.
const TEXT_DISTANCE: f64 = 12.0;

/// A rectangle in which there is text: left, top, right, bottom.
pub(super) type Taken = (f64, f64, f64, f64);

/// Spread, limits, line, points.
pub(super) fn line(out: &mut String, chart: &Chart, layout: &Layout, frame: &Frame, line: &Line) {
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
        for (x, y) in points {
            let _ = writeln!(
                out,
                "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"2.2\"/>",
                px(x),
                px(y)
            );
        }
    }
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

/// The spread as areas: one for each run of values that have a spread. A single one is a bar.
fn band(dots: &[Dot], places: &[f64], frame: &Frame, layout: &Layout) -> String {
    let mut out = String::new();
    // Column, place, and the ends over all values of the column.
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
            // Among dense points one without a spread is no gap to be seen.
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

/// A limit as a line, broken where there is none.
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

/// The levels between changes. Nothing if there are none.
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

/// Between the last point of the old level and the first of the new one.
fn border(step: &Step, places: &[f64]) -> f64 {
    (places[step.dot.saturating_sub(1)] + places[step.dot]) / 2.0
}

/// Changes of level with how large they are, and alerts. Texts that would lie upon others are left out.
pub(super) fn signs(
    out: &mut String,
    chart: &Chart,
    layout: &Layout,
    frame: &Frame,
    line: &Line,
    taken: &mut Vec<Taken>,
) {
    let places: Vec<f64> = line.dots.iter().map(|dot| layout.x(chart.x(dot))).collect();
    for step in &line.steps {
        let x = border(step, &places);
        let (from, to) = (frame.y(step.before), frame.y(step.after));
        let _ =
            writeln!(out, "<path class=\"step\" d=\"M{x} {}V{}\"/>", px(from), px(to), x = px(x));
        let Some(share) = step.relative() else { continue };
        let text = change(share);
        let room = width(&text, FONT_SMALL) + 4.0;
        // Before the step, on the side of the new level, there is most room.
        let right = (x - 5.0).max(layout.left + room);
        let base = match to < from {
            true => (to + TEXT_DISTANCE).min(from - 2.0),
            false => to,
        };
        let base = base.clamp(frame.top + TEXT_DISTANCE + 2.0, frame.bottom() - 4.0);
        let area = (right - room, base - TEXT_DISTANCE, right, base + 3.0);
        if taken.iter().any(|other| overlap(&area, other)) {
            continue;
        }
        taken.push(area);
        let _ = writeln!(
            out,
            "<text class=\"change\" x=\"{}\" y=\"{}\">{text}</text>",
            px(right),
            px(base)
        );
    }
    let mut drawn = Vec::new();
    for (dot, x) in line.dots.iter().zip(places) {
        let Some((limit, status)) = dot.alert else { continue };
        let y = frame.y(dot.value);
        // Of many in one place one is enough.
        let place = (x as i64, (y / 2.0) as i64, status);
        if drawn.contains(&place) {
            continue;
        }
        drawn.push(place);
        let class = if status == Status::Active { "alert" } else { "settled" };
        let side = match limit {
            Limit::Upper => "above the upper limit",
            Limit::Lower => "below the lower limit",
        };
        let _ = writeln!(
            out,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"5\"><title>{status} alert: {side}</title></circle>",
            px(x),
            px(y)
        );
    }
}

fn overlap(a: &Taken, b: &Taken) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}
