//! The layout in pixels.

use wingbeat_text::Units;

use super::{
    axis::{Axis, NOISY_SPAN_MIN, Ticks},
    chart::{Chart, LINES_MAX, Panel},
    words,
};
use crate::{model::MeasureKind, store::PlotPoint};

pub(super) const WIDTH: f64 = 1120.0;

/// Width of the labels of the lines, right of a panel.
pub(super) const LABELS_WIDTH: f64 = 236.0;

/// Height of a panel's plot area if it has few lines.
const PANEL_HEIGHT: f64 = 130.0;

/// Height of a label, two lines of text.
pub(super) const LABEL_HEIGHT: f64 = 31.0;

/// Space above the plot area, for the title.
pub(super) const PLOT_TOP: f64 = 34.0;

/// Space below the plot area, for times and commits.
const AXIS_HEIGHT: f64 = 44.0;

pub(super) const FONT: f64 = 12.0;

pub(super) const FONT_SMALL: f64 = 11.0;

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) left: f64,
    pub(super) width: f64,
    pub(super) panels: Vec<Frame>,
    stamps: usize,
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) plot_height: f64,
    pub(super) axis: Axis,
    pub(super) ticks: Ticks,
    pub(super) units: Units,
    /// Minimum height of a linear axis, relative to the largest value.
    pub(super) span_min: f64,
}

impl Layout {
    pub(super) fn of(chart: &Chart) -> Self {
        let panels: Vec<Frame> = chart.panels.iter().map(Frame::of).collect();
        let texts = panels.iter().flat_map(|frame| &frame.ticks.marks);
        let widest = texts.map(|(_, text)| words::width(text, FONT_SMALL)).fold(30.0, f64::max);
        let left = widest.min(150.0).ceil() + 28.0;
        let width = WIDTH - left - LABELS_WIDTH;
        Self { left, width, panels, stamps: chart.stamps.len() }
    }

    /// Horizontal position, in reports from the first.
    pub(super) fn x(&self, reports: f64) -> f64 {
        self.left + self.width * (reports + 0.5) / self.stamps.max(1) as f64
    }

    pub(super) fn column(&self, x: f64) -> usize {
        (x - self.left).max(0.0) as usize
    }
}

impl Frame {
    fn of(panel: &Panel) -> Self {
        let span_min = if panel.measure.kind == MeasureKind::Exact { 0.0 } else { NOISY_SPAN_MIN };
        let dots = panel.lines.iter().flat_map(|line| &line.dots);
        let axis = Axis::of(dots, span_min);
        let units = panel.measure.ladder();
        let ticks = axis.ticks(6, &units);
        let labels = panel.lines.len().min(LINES_MAX) as f64 * LABEL_HEIGHT;
        Self { plot_height: PANEL_HEIGHT.max(labels), axis, ticks, units, span_min }
    }

    /// Vertical position of a value. Clamped to just outside of the panel.
    pub(super) fn y(&self, value: f64) -> f64 {
        PLOT_TOP + self.plot_height * (1.0 - self.axis.place(value).clamp(-2.0, 3.0))
    }

    pub(super) fn bottom(&self) -> f64 {
        PLOT_TOP + self.plot_height
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom() + AXIS_HEIGHT
    }

    pub(super) fn point(&self, layout: &Layout, chart: &Chart, dot: &PlotPoint) -> (f64, f64) {
        (layout.x(chart.x(dot)), self.y(dot.value))
    }
}

/// Spreads positions so that neighbours are at least `gap` apart, and keeps them between the ends as far as there is
/// room. Input and output are ascending.
pub(super) fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::with_capacity(wanted.len());
    for &want in wanted {
        let least = places.last().map_or(low, |last| last + gap);
        places.push(want.max(least));
    }
    let mut most = high;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_moved_apart() {
        let check = |wanted: &[f64], expected: &[f64]| {
            assert_eq!(spread(wanted, 10.0, 0.0, 100.0), expected, "{wanted:?}");
        };
        check(&[], &[]);
        check(&[50.0], &[50.0]);
        check(&[-5.0, 0.0, 3.0], &[0.0, 10.0, 20.0]);
        check(&[50.0, 51.0, 90.0], &[50.0, 60.0, 90.0]);
        check(&[95.0, 99.0, 100.0], &[80.0, 90.0, 100.0]);
    }
}
