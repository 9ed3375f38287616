//! The picture in a terminal: a small graph for each of a few series, a line for each of many.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use unicode_width::UnicodeWidthStr as _;

use super::{
    axis::{Axis, NOISY_SPAN_MIN, full_time},
    chart::{Chart, Line, Panel},
    words::fit_columns,
};
use crate::{
    model::Kind,
    output::number::{Units, change, plural},
};

/// Up to that many series get a graph.
const GRAPHS_MAX: usize = 4;

/// Lines of text that a graph takes, without its foot.
const ROWS: usize = 6;

/// The narrowest terminal that is drawn for, in columns.
const WIDTH_MIN: usize = 40;

/// Heights of a column in eighths, from the lowest.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bits of the dots of a braille character: by column, then from the top.
const BRAILLE: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// Draws a chart for a terminal of that many columns, with colours as escape sequences.
#[must_use]
pub fn terminal(chart: &Chart, columns: usize) -> String {
    let columns = columns.max(WIDTH_MIN);
    let mut out = String::new();
    let is_small = chart.lines().count() <= GRAPHS_MAX;
    let names = chart.lines().map(|line| line.name.width()).max().unwrap_or(0).min(columns / 3);
    for panel in &chart.panels {
        if panel.part.0 == 1 {
            let gap = if out.is_empty() { "" } else { "\n" };
            // Writing into a string does not fail, here and below.
            let _ = writeln!(out, "{gap}{}", fit_columns(&panel.measure.name, columns).bold());
        }
        for line in &panel.lines {
            match is_small {
                true => graph(&mut out, chart, panel, line, columns),
                false => row(&mut out, chart, panel, line, names, columns),
            }
        }
    }
    if let (Some(first), Some(last)) = (chart.stamps.first(), chart.stamps.last()) {
        let reports = plural(chart.stamps.len(), "report");
        let mut about = format!("{reports}, {}", full_time(first.time));
        if chart.stamps.len() > 1 {
            let _ = write!(about, " to {}", full_time(last.time));
        }
        let _ = writeln!(out, "\n{}", fit_columns(&about, columns).dimmed());
    }
    if chart.left_out > 0 {
        let left_out = chart.left_out;
        let _ = writeln!(
            out,
            "{left_out} more series are not shown; --benchmark and --measure choose among them"
        );
    }
    out
}

fn axis(panel: &Panel, line: &Line) -> Axis {
    let span = if panel.measure.kind == Kind::Exact { 0.0 } else { NOISY_SPAN_MIN };
    // Spreads and limits are not drawn, so they take no room.
    let bare = |dot: &super::Dot| super::Dot { value: dot.value, ..super::Dot::default() };
    let dots: Vec<super::Dot> = line.dots.iter().map(bare).collect();
    Axis::of(dots.iter(), span)
}

/// What is told about a line in words.
struct Facts {
    /// The last value.
    value: String,
    /// How far it is from those before it.
    change: Option<String>,
    /// The last change of level, and alerts.
    more: Vec<String>,
}

impl Facts {
    fn of(line: &Line, units: &Units) -> Self {
        let value = line.last().map_or_else(String::new, |dot| units.format(dot.value));
        let mut more = Vec::new();
        if let Some(step) = line.steps.last() {
            let share = step.relative().map_or_else(|| "changed".to_owned(), change);
            let back = line.dots.len() - step.dot;
            more.push(format!("level {share} {} ago", plural(back, "value")));
        }
        match line.active_alerts() {
            0 => {}
            alerts => more.push(plural(alerts, "alert").red().to_string()),
        }
        Self { value, change: line.last_change().map(change), more }
    }
}

/// A row: name, columns, last value, change.
fn row(out: &mut String, chart: &Chart, panel: &Panel, line: &Line, names: usize, columns: usize) {
    let units = Units::of(&panel.measure);
    let Facts { value, change, more } = Facts::of(line, &units);
    let (change, more) = (change.unwrap_or_default(), more.join(", "));
    let name = fit_columns(&line.name, names);
    let fill = " ".repeat(names - name.width());
    let room = columns.saturating_sub(names + 2 + 2 + 16 + 2 + 9).clamp(8, 60);
    let blocks = blocks(chart, panel, line, room);
    let _ = writeln!(
        out,
        "{name}{fill}  {blocks}  {}{value}  {}{change}{}{more}",
        " ".repeat(16_usize.saturating_sub(value.width())),
        " ".repeat(9_usize.saturating_sub(change.width())),
        if more.is_empty() { "" } else { "  " },
    );
}

/// For each of some columns the value in it that is farthest from the middle; empty where none is.
fn in_columns(chart: &Chart, line: &Line, axis: &Axis, count: usize) -> Vec<Option<f64>> {
    let mut found: Vec<Option<f64>> = vec![None; count];
    for dot in &line.dots {
        let share = (chart.x(dot) + 0.5) / chart.stamps.len().max(1) as f64;
        let column = ((share * count as f64) as usize).min(count - 1);
        let place = axis.place(dot.value).clamp(0.0, 1.0);
        let is_farther = |known: f64| (place - 0.5).abs() > (known - 0.5).abs();
        if found[column].is_none_or(is_farther) {
            found[column] = Some(place);
        }
    }
    found
}

fn blocks(chart: &Chart, panel: &Panel, line: &Line, room: usize) -> String {
    let count = room.min(chart.stamps.len()).max(1);
    let block = |place: Option<f64>| match place {
        Some(place) => BLOCKS[((place * 8.0) as usize).min(7)],
        None => ' ',
    };
    let drawn: String =
        in_columns(chart, line, &axis(panel, line), count).into_iter().map(block).collect();
    format!("{drawn}{}", " ".repeat(room - count))
}

/// A graph of braille characters with a scale at its left and the facts below.
fn graph(out: &mut String, chart: &Chart, panel: &Panel, line: &Line, columns: usize) {
    let units = Units::of(&panel.measure);
    let axis = axis(panel, line);
    let (low, high) = axis.ends();
    let numbers = units.scale(high, Some(low));
    let scale = [high, f64::midpoint(low, high), low].map(|value| numbers.with_unit(value));
    let scale_width = scale.iter().map(|text| text.width()).max().unwrap_or(0);
    let cells = columns - scale_width.min(columns / 2) - 3;
    let (wide, tall) = (2 * cells, 4 * ROWS);
    let mut grid = vec![vec![0_u8; cells]; ROWS];
    let mut set = |x: usize, y: usize| {
        let (x, y) = (x.min(wide - 1), y.min(tall - 1));
        grid[y / 4][x / 2] |= BRAILLE[x % 2][y % 4];
    };
    let mut before: Option<(usize, usize)> = None;
    for dot in &line.dots {
        let share = (chart.x(dot) + 0.5) / chart.stamps.len().max(1) as f64;
        let x = (share * wide as f64) as usize;
        let y = ((1.0 - axis.place(dot.value)) * (tall - 1) as f64).round().max(0.0) as usize;
        let (from_x, from_y) = before.unwrap_or((x, y));
        let steps = x.abs_diff(from_x).max(y.abs_diff(from_y)).max(1);
        for step in 0..=steps {
            let part = step as f64 / steps as f64;
            let between = |from: usize, to: usize| {
                (from as f64 + part * (to as f64 - from as f64)).round() as usize
            };
            set(between(from_x, x), between(from_y, y));
        }
        before = Some((x, y));
    }
    let _ = writeln!(out, "{}", fit_columns(&line.name, columns));
    for (index, cells) in grid.iter().enumerate() {
        let text = match index {
            0 => &scale[0],
            index if index == ROWS / 2 => &scale[1],
            index if index == ROWS - 1 => &scale[2],
            _ => "",
        };
        let fill = " ".repeat(scale_width.saturating_sub(text.width()));
        let drawn: String = cells.iter().filter_map(|&bits| braille(bits)).collect();
        let _ = writeln!(out, "{fill}{} {}{drawn}", text.dimmed(), "┤".dimmed());
    }
    let fill = " ".repeat(scale_width + 3);
    let Facts { value, change, more } = Facts::of(line, &units);
    let facts = [Some(value), change].into_iter().flatten().chain(more).collect::<Vec<_>>();
    let _ = writeln!(out, "{fill}last {}", facts.join(", "));
}

fn braille(bits: u8) -> Option<char> {
    // A blank cell is a space: some fonts show an empty pattern as a frame.
    if bits == 0 { Some(' ') } else { char::from_u32(0x2800 + u32::from(bits)) }
}
