//! Draws a line: spread, limits, levels, the line itself, its points, and symbols for level changes and alerts.

use std::fmt::Write as _;
use wingbeat_text::{escaped, share::change};

use super::px;
use crate::{
    model::{AlertStatus, Limit},
    plot::{
        chart::{Chart, Line, Step},
        layout::{FONT_SMALL, Frame, Layout, PLOT_TOP, thin, width},
    },
    store::PlotPoint,
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
    let limits: [fn(&PlotPoint) -> Option<f64>; 2] = [|dot| dot.lower_limit, |dot| dot.upper_limit];
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
fn band(dots: &[PlotPoint], places: &[f64], frame: &Frame, layout: &Layout) -> String {
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
            // Among dense points, a single one without a spread leaves no visible gap.
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
    dots: &[PlotPoint],
    places: &[f64],
    kept: &[usize],
    frame: &Frame,
    limit: impl Fn(&PlotPoint) -> Option<f64>,
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

/// Lines whose far limits are named. Those of more lines would hide the values.
pub(super) const FAR_LIMITS_MAX: usize = 4;

/// Width of a digit of a far limit, and of the space around it.
const DIGIT: f64 = 6.6;
const DIGITS_GAP: f64 = 8.0;

/// The newest limits of a line as figures at the edges, if they are beyond the axis.
pub(super) fn far_limits(
    layout: &Layout,
    frame: &Frame,
    line: &Line,
    room: &mut Room<'_>,
) -> String {
    let mut out = String::new();
    let newest = |limit: fn(&PlotPoint) -> Option<f64>| line.dots.iter().rev().find_map(limit);
    let right = layout.left + layout.width;
    for limit in [newest(|dot| dot.upper_limit), newest(|dot| dot.lower_limit)] {
        let Some(limit) = limit else { continue };
        let (arrow, y) = match frame.axis.place(limit) {
            1.0.. => ("↑", PLOT_TOP),
            place if place < 0.0 => ("↓", frame.bottom()),
            _ => continue,
        };
        let text = format!("{arrow} limit {}", frame.units.format(limit));
        let text_width = DIGIT * text.chars().count() as f64 + DIGITS_GAP;
        let Some((x, base)) = room.place(right + GAP, y, text_width) else { continue };
        let _ = writeln!(
            out,
            "<text class=\"change\" x=\"{}\" y=\"{}\">{}</text>",
            px(x),
            px(base),
            escaped(&text)
        );
    }
    out
}

/// Height of a text above and below its baseline.
const ABOVE: f64 = 11.0;
const BELOW: f64 = 3.0;

/// Distance of a text from its step, and from the ends of the panel.
const GAP: f64 = 5.0;

/// Placement of texts: without overlaps, and over as few lines as possible.
pub(super) struct Room<'a> {
    layout: &'a Layout,
    frame: &'a Frame,
    curves: Vec<Vec<(f64, f64)>>,
    taken: Vec<Area>,
}

/// A rectangle: left, top, right, bottom.
#[derive(Debug, Clone, Copy)]
struct Area(f64, f64, f64, f64);

impl<'a> Room<'a> {
    pub(super) fn new(layout: &'a Layout, frame: &'a Frame, curves: Vec<Vec<(f64, f64)>>) -> Self {
        Self { layout, frame, curves, taken: Vec::new() }
    }

    /// The best position of a text next to a step: its right end and baseline. `None` if there is no room.
    fn place(&mut self, x: f64, y: f64, text_width: f64) -> Option<(f64, f64)> {
        let (left, right) = (self.layout.left, self.layout.left + self.layout.width);
        let (top, bottom) = (PLOT_TOP + ABOVE + GAP, self.frame.bottom() - GAP);
        let mut best: Option<(f64, Area)> = None;
        // First next to the new level before the step, where there is most room, then after it, and then at growing
        // distances.
        let rows = (0..=((bottom - top) / ABOVE) as usize).flat_map(|row| match row {
            0 => vec![0.0],
            _ => vec![-(row as f64), row as f64],
        });
        for row in rows {
            for end in [x - GAP, x + GAP + text_width] {
                let end = end.clamp(left + text_width, right.max(left + text_width));
                let base = (y + ABOVE * row).clamp(top, bottom.max(top));
                let area = Area(end - text_width, base - ABOVE, end, base + BELOW);
                if self.taken.iter().any(|other| other.meets(&area)) {
                    continue;
                }
                let crossed = self.curves.iter().map(|curve| area.crossings(curve)).sum::<usize>();
                let cost = crossed as f64 + 0.5 * row.abs();
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, area));
                }
            }
        }
        let (_, area) = best?;
        self.taken.push(area);
        Some((area.2, area.3 - BELOW))
    }
}

impl Area {
    fn meets(&self, other: &Self) -> bool {
        self.0 < other.2 && other.0 < self.2 && self.1 < other.3 && other.1 < self.3
    }

    fn crossings(&self, curve: &[(f64, f64)]) -> usize {
        let meets = |pair: &&[(f64, f64)]| {
            let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
            if next_x < self.0 || x > self.2 {
                return false;
            }
            let at = |place: f64| match next_x > x {
                true => y + (next_y - y) * ((place - x) / (next_x - x)).clamp(0.0, 1.0),
                false => next_y,
            };
            let (begin, end) = (at(self.0), at(self.2));
            begin.min(end) < self.3 && begin.max(end) > self.1
        };
        curve.windows(2).filter(meets).count()
    }
}

pub(super) fn steps(
    out: &mut String,
    chart: &Chart,
    layout: &Layout,
    frame: &Frame,
    line: &Line,
    room: &mut Room<'_>,
) {
    let places: Vec<f64> = line.dots.iter().map(|dot| layout.x(chart.x(dot))).collect();
    for step in &line.steps {
        let x = border(step, &places);
        let (from, to) = (frame.y(step.before), frame.y(step.after));
        let _ =
            writeln!(out, "<path class=\"step\" d=\"M{x} {}V{}\"/>", px(from), px(to), x = px(x));
        let Some(share) = step.relative() else { continue };
        let text = change(share);
        let level = if to < from { to + ABOVE } else { to };
        if let Some((right, base)) = room.place(x, level, width(&text, FONT_SMALL)) {
            let (right, base) = (px(right), px(base));
            let _ =
                writeln!(out, "<text class=\"change\" x=\"{right}\" y=\"{base}\">{text}</text>");
        }
    }
}

pub(super) fn alerts(out: &mut String, chart: &Chart, layout: &Layout, frame: &Frame, line: &Line) {
    let mut drawn = Vec::new();
    for dot in &line.dots {
        let Some((limit, status)) = dot.alert else { continue };
        let (x, y) = frame.point(layout, chart, dot);
        // Draws only one of several at the same position.
        let place = (x as i64, (y / 2.0) as i64, status);
        if drawn.contains(&place) {
            continue;
        }
        drawn.push(place);
        let class = if status == AlertStatus::Active { "alert" } else { "settled" };
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
