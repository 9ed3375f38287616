//! Symbols on a line: level changes with their size, and alerts.

use std::fmt::Write as _;
use wingbeat_text::share::change;

use super::{marks::border, px};
use crate::{
    model::{AlertStatus, Limit},
    plot::{
        chart::{Chart, Line},
        layout::{FONT_SMALL, Frame, Layout, PLOT_TOP},
        words::width,
    },
};

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
