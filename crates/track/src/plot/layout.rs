//! The layout in pixels.

use unicode_width::UnicodeWidthChar as _;
use wingbeat_text::Units;

use super::{
    axis::{Axis, NOISY_SPAN_MIN, Ticks},
    chart::{Chart, LINES_MAX, Panel, Scale},
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
    columns: usize,
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
        let panels: Vec<Frame> =
            chart.panels.iter().map(|panel| Frame::of(panel, chart.scale)).collect();
        let texts = panels.iter().flat_map(|frame| &frame.ticks.marks);
        let widest = texts.map(|(_, text)| width(text, FONT_SMALL)).fold(30.0, f64::max);
        let left = widest.min(150.0).ceil() + 28.0;
        let width = WIDTH - left - LABELS_WIDTH;
        Self { left, width, panels, columns: chart.width() }
    }

    /// Horizontal position of one in columns from the first.
    pub(super) fn x(&self, columns: f64) -> f64 {
        self.left + self.width * (columns + 0.5) / self.columns.max(1) as f64
    }

    pub(super) fn column(&self, x: f64) -> usize {
        (x - self.left).max(0.0) as usize
    }
}

impl Frame {
    fn of(panel: &Panel, scale: Scale) -> Self {
        let span_min = if panel.measure.kind == MeasureKind::Exact { 0.0 } else { NOISY_SPAN_MIN };
        let dots = panel.lines.iter().flat_map(|line| &line.dots);
        let axis = Axis::of(dots, span_min, scale);
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

/// Estimated width of a text in pixels. The actual font depends on the reader.
pub(super) fn width(text: &str, font_size: f64) -> f64 {
    let units: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 't' | 'f' | 'I' | '.' | ',' | ':' | ' ' | '\'' | '|' | '·' => 0.36,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.92,
            'A'..='Z' | '+' | '−' | '±' | '<' | '>' | '=' | '_' => 0.72,
            _ => 0.6 * c.width().unwrap_or(0) as f64,
        })
        .sum();
    units * font_size
}

/// Shortens a text to that width by removing its middle: names often differ at the end.
pub(super) fn fit(text: &str, width_max: f64, font_size: f64) -> String {
    if width(text, font_size) <= width_max {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let cut = |kept: usize| {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let (head, tail) = (&chars[..head], &chars[chars.len() - tail..]);
        head.iter().chain(&['…']).chain(tail).collect::<String>()
    };
    // The width is almost monotonic in the number of characters.
    let fits = |kept: &usize| width(&cut(*kept), font_size) <= width_max;
    let (mut low, mut high) = (0, chars.len().saturating_sub(1));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(&middle) { low = middle } else { high = middle - 1 }
    }
    cut(low)
}

/// Reduces points without a visible difference: keeps the first, lowest, highest and last point of each pixel column.
/// Returns indices of the points to draw, in order. `column` is non-decreasing; `value` is the height.
pub(super) fn thin(
    count: usize,
    column: impl Fn(usize) -> usize,
    value: impl Fn(usize) -> f64,
) -> Vec<usize> {
    let mut kept = Vec::new();
    let mut begin = 0;
    while begin < count {
        let own = column(begin);
        let mut end = begin + 1;
        let (mut low, mut high) = (begin, begin);
        while end < count && column(end) == own {
            if value(end) < value(low) {
                low = end;
            }
            if value(end) > value(high) {
                high = end;
            }
            end += 1;
        }
        let mut chosen = [begin, low, high, end - 1];
        chosen.sort_unstable();
        for index in chosen {
            if kept.last() != Some(&index) {
                kept.push(index);
            }
        }
        begin = end;
    }
    kept
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

    #[test]
    fn long_texts_lose_their_middle() {
        let long = "a".repeat(300) + "_tail";
        let fitted = fit(&long, 120.0, 12.0);
        assert!(width(&fitted, 12.0) <= 120.0 && fitted.ends_with("_tail"), "{fitted}");
        assert_eq!(fit("short", 120.0, 12.0), "short");
    }

    #[test]
    fn each_column_keeps_its_ends_and_extremes() {
        let check = |values: &[f64], per_column: usize, expected: &[usize]| {
            let kept = thin(values.len(), |index| index / per_column, |index| values[index]);
            assert_eq!(kept, expected, "{values:?}");
        };
        check(&[], 1, &[]);
        check(&[1.0, 2.0, 3.0], 1, &[0, 1, 2]);
        check(&[5.0, 1.0, 9.0, 4.0, 3.0, 6.0], 6, &[0, 1, 2, 5]);
        check(&[1.0, 1.0, 1.0, 1.0, 1.0], 5, &[0, 4]);
        check(&[1.0, 2.0, 3.0, 4.0], 2, &[0, 1, 2, 3]);
    }
}
