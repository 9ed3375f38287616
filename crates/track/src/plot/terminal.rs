//! Plots in a terminal: a small graph for each of a few series, a line for each of many.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use unicode_width::UnicodeWidthStr as _;
use wingbeat_text::{Units, aligned, paragraph, plural, share::change, shortened};

use super::{
    axis::{Axis, NOISY_SPAN_MIN, full_time},
    chart::{Chart, LAST_CHANGE, Line, Panel, Rank},
};
use crate::{model::MeasureKind, store::PlotPoint};

const GRAPHS_MAX: usize = 4;

/// Height of a graph in lines of text, without its footer.
const ROWS: usize = 6;

/// Minimum width of a terminal, in columns.
const WIDTH_MIN: usize = 40;

/// Width if the output is not a terminal.
const WIDTH: usize = 100;

const GAP: usize = 2;

/// Range of columns of a plot in a row: fewer show nothing, more add nothing.
const BLOCKS_MIN: usize = 12;
const BLOCKS_MAX: usize = 60;

/// Heights of a column in eighths, from the lowest.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bits of the dots of a braille character: by column, then from the top.
const BRAILLE: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// Draws a chart for a terminal of that width, with colours as escape sequences. Lines never exceed the width. `None`:
/// not a terminal, and names are not shortened.
pub fn terminal(chart: &Chart, columns: Option<usize>) -> String {
    let columns = columns.map(|columns| columns.max(WIDTH_MIN));
    let width = columns.unwrap_or(WIDTH);
    let mut out = String::new();
    let is_small = chart.lines().count() <= GRAPHS_MAX;
    let rows = Rows::of(chart, columns);
    let mut above = None;
    for panel in &chart.panels {
        let own = (panel.rank(), &panel.measure.slug);
        if above.replace(own) != Some(own) {
            let gap = if out.is_empty() { "" } else { "\n" };
            let heading = match panel.rank() {
                Rank::Alert => format!("{}, with alerts", panel.measure.name),
                Rank::Changed => format!("{}, with changes of level", panel.measure.name),
                Rank::Steady => panel.measure.name.to_string(),
            };
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(out, "{gap}{}", shortened(&heading, width).bold());
        }
        for line in &panel.lines {
            match is_small {
                true => graph(&mut out, chart, panel, line, columns),
                false => rows.write(&mut out, chart, panel, line),
            }
        }
    }
    let mut feet = Vec::new();
    if let (Some(first), Some(last)) = (chart.stamps.first(), chart.stamps.last()) {
        let reports = plural(chart.stamps.len(), "report");
        let mut about = format!("{reports}, {}", full_time(first.time));
        if chart.stamps.len() > 1 {
            let _ = write!(about, " to {}", full_time(last.time));
        }
        feet.push(about);
    }
    if chart.lines().any(|line| line.last_change().is_some()) {
        feet.push(format!("percentages: {LAST_CHANGE}"));
    }
    feet.extend(chart.drifts());
    if !feet.is_empty() {
        out.push('\n');
    }
    for foot in feet {
        let _ = writeln!(out, "{}", paragraph(&foot, 0, width).dimmed());
    }
    if let Some(text) = chart.left_out_text() {
        let _ = writeln!(out, "{}", paragraph(&text, 0, width));
    }
    out
}

/// The benchmark, and what distinguishes the line within its panel.
fn name(panel: &Panel, line: &Line) -> String {
    format!("{} · {}", panel.benchmark, line.name)
}

fn axis(panel: &Panel, line: &Line) -> Axis {
    let span = if panel.measure.kind == MeasureKind::Exact { 0.0 } else { NOISY_SPAN_MIN };
    // Spreads and limits are not drawn, so they take no room.
    let bare = |dot: &PlotPoint| PlotPoint { value: dot.value, ..PlotPoint::default() };
    let dots: Vec<PlotPoint> = line.dots.iter().map(bare).collect();
    Axis::of(dots.iter(), span)
}

struct Facts {
    value: String,
    change: Option<String>,
    level: Option<String>,
    alerts: Option<String>,
}

impl Facts {
    fn of(line: &Line, units: &Units) -> Self {
        let value = line.last().map_or_else(String::new, |dot| units.format(dot.value));
        let level = line.steps.last().map(|step| {
            let share = step.relative().map_or_else(|| "changed".to_owned(), change);
            format!("level {share} {} ago", plural(line.dots.len() - step.dot, "value"))
        });
        let alerts = line.active_alerts();
        let alerts = (alerts > 0).then(|| plural(alerts, "alert"));
        Self { value, change: line.last_change().map(change), level, alerts }
    }

    fn more(&self) -> String {
        [&self.level, &self.alerts].into_iter().flatten().cloned().collect::<Vec<_>>().join(", ")
    }

    /// The text with colours.
    fn coloured(&self) -> String {
        let alerts = self.alerts.as_ref().map(|alerts| alerts.red().to_string());
        [self.level.clone(), alerts].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// A line of text for each of many series: name, plot, last value, change, and remarks.
struct Rows {
    /// Widths of the names, the plot, the values and the changes, in columns.
    names: usize,
    blocks: usize,
    values: usize,
    changes: usize,
    /// Width of the terminal if the remarks go below.
    below: Option<usize>,
}

impl Rows {
    fn of(chart: &Chart, columns: Option<usize>) -> Self {
        let lines =
            || chart.panels.iter().flat_map(|panel| panel.lines.iter().map(move |it| (panel, it)));
        let facts: Vec<Facts> =
            lines().map(|(panel, line)| Facts::of(line, &panel.measure.ladder())).collect();
        let widest = |width: &dyn Fn(&Facts) -> usize| facts.iter().map(width).max().unwrap_or(0);
        let values = widest(&|facts| facts.value.width());
        let changes = widest(&|facts| facts.change.as_ref().map_or(0, |change| change.width()));
        let more = widest(&|facts| facts.more().width());
        // A short plot is more useful than the full name, a long one less so.
        let others = GAP + BLOCKS_MIN + GAP + values + GAP + changes + GAP + more;
        let names_max =
            columns.map_or(usize::MAX, |columns| columns.saturating_sub(others).max(columns / 3));
        let names = lines()
            .map(|(panel, line)| name(panel, line).width())
            .max()
            .unwrap_or(0)
            .min(names_max);
        let figures = names + GAP + GAP + values + GAP + changes;
        // Without a terminal, as wide as names of usual length permit.
        let columns = columns.unwrap_or_else(|| WIDTH.max(figures + GAP + more + BLOCKS_MIN));
        let beside = columns.saturating_sub(figures + if more > 0 { GAP + more } else { 0 });
        let (blocks, below) = match beside >= BLOCKS_MIN {
            true => (beside, None),
            false => (columns.saturating_sub(figures), Some(columns)),
        };
        Self { names, blocks: blocks.clamp(1, BLOCKS_MAX), values, changes, below }
    }

    fn write(&self, out: &mut String, chart: &Chart, panel: &Panel, line: &Line) {
        let facts = Facts::of(line, &panel.measure.ladder());
        let name = shortened(&name(panel, line), self.names);
        let mut row = format!(
            "{}  {}  {}  {}",
            aligned(&name, self.names, false),
            blocks(chart, panel, line, self.blocks),
            aligned(&facts.value, self.values, true),
            aligned(facts.change.as_deref().unwrap_or_default(), self.changes, true),
        );
        let more = facts.more();
        match self.below {
            _ if more.is_empty() => {}
            None => row += &format!("  {}", facts.coloured()),
            Some(columns) => {
                row += &format!("\n{:GAP$}{}", "", paragraph(&facts.coloured(), GAP, columns));
            }
        }
        let _ = writeln!(out, "{}", row.trim_end());
    }
}

/// For each column the value farthest from the middle. `None` for empty columns.
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

/// A graph of braille characters with a scale on the left and the facts below.
fn graph(out: &mut String, chart: &Chart, panel: &Panel, line: &Line, columns: Option<usize>) {
    let name = name(panel, line);
    let name = columns.map_or_else(|| name.clone(), |columns| shortened(&name, columns));
    let columns = columns.unwrap_or(WIDTH);
    let units = panel.measure.ladder();
    let axis = axis(panel, line);
    let [high, middle, low] = [1.0, 0.5, 0.0].map(|place| axis.value(place));
    let scale = match axis.is_logarithmic() {
        true => [high, middle, low].map(|value| units.format(value)),
        false => {
            let numbers = units.scale(high, Some(low));
            [high, middle, low].map(|value| numbers.with_unit(value))
        }
    };
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
    let _ = writeln!(out, "{name}");
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
    let indent = scale_width + 3;
    let facts = Facts::of(line, &units);
    let more = facts.coloured();
    let told = [Some(facts.value), facts.change, Some(more).filter(|more| !more.is_empty())];
    let told = format!("last {}", told.into_iter().flatten().collect::<Vec<_>>().join(", "));
    let _ = writeln!(out, "{:indent$}{}", "", paragraph(&told, indent, columns));
}

fn braille(bits: u8) -> Option<char> {
    // A blank cell is a space: some fonts show an empty pattern as a frame.
    if bits == 0 { Some(' ') } else { char::from_u32(0x2800 + u32::from(bits)) }
}
