//! Plots in a terminal: a small graph for each of a few series, a line for each of many.

use std::iter;

use wingbeat_text::{
    Block, Line as TextLine, Look, Side, Span, Style, Units, aligned, human, line as text_line,
    list, plural, row, share::change, shortened, width,
};

use super::{
    axis::{Axis, NOISY_SPAN_MIN},
    chart::{Chart, LAST_CHANGE, Line, Panel, Rank, Scale, lines},
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
    let is_small = chart.lines().count() <= GRAPHS_MAX;
    let widths = Widths::of(chart, columns);
    let (mut blocks, mut rows) = (Vec::new(), Vec::new());
    let group = |panel: &Panel| (panel.rank(), panel.measure.slug.clone());
    for panels in chart.panels.chunk_by(|a, b| group(a) == group(b)) {
        let name = &panels[0].measure.name;
        let heading = match panels[0].rank() {
            Rank::Alert => format!("{name}, with alerts"),
            Rank::Changed => format!("{name}, with changes of level"),
            Rank::Steady => name.to_string(),
        };
        let lines = lines(panels);
        if is_small {
            let graphs = lines.flat_map(|(panel, line)| graph(chart, panel, line, columns));
            let heading = Block::Heading(text_line(heading));
            blocks.push(Block::Section(iter::once(heading).chain(graphs).collect()));
        } else {
            rows.extend((!rows.is_empty()).then(|| row([""])));
            rows.push(vec![vec![Span::strong(heading)]]);
            rows.extend(lines.map(|(panel, line)| widths.row(chart, panel, line)));
        }
    }
    blocks.push(Block::Rows(COLUMNS.to_vec(), rows));
    let reports = plural(chart.stamps.len(), "report");
    let mut feet: Vec<String> =
        chart.period().map(|period| format!("{reports}, {period}")).into_iter().collect();
    if chart.lines().any(|line| line.last_change().is_some()) {
        feet.push(format!("percentages: {LAST_CHANGE}"));
    }
    feet.extend(chart.drifts());
    let feet = feet.into_iter().map(|foot| vec![Span::new(Look::Dim, foot)]).collect();
    blocks.push(Block::Section(vec![Block::List(feet), list(chart.left_out_text())]));
    let width = columns.unwrap_or(usize::MAX);
    human(&blocks, Style { has_colours: true, width, ..Style::default() })
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
    Axis::of(dots.iter(), span, Scale::Auto)
}

struct Facts {
    value: String,
    change: String,
    /// Change of level, and alerts.
    more: TextLine,
}

impl Facts {
    fn of(line: &Line, units: &Units) -> Self {
        let value = line.last().map_or_else(String::new, |dot| units.format(dot.value));
        let mut more = Vec::new();
        if let Some(step) = line.steps.last() {
            let share = step.relative().map_or_else(|| "changed".to_owned(), change);
            let ago = plural(line.dots.len() - step.dot, "value");
            more.push(Span::text(format!("level {share} {ago} ago")));
        }
        let alerts = line.active_alerts();
        if alerts > 0 {
            more.extend((!more.is_empty()).then(|| Span::text(", ")));
            more.push(Span::new(Look::Bad, plural(alerts, "alert")));
        }
        Self { value, change: line.last_change().map_or_else(String::new, change), more }
    }

    fn more_width(&self) -> usize {
        self.more.iter().map(|span| width(&span.text)).sum()
    }
}

/// Name, plot, last value, change, and remarks: a row for each of many series.
const COLUMNS: [(&str, Side); 5] =
    [("", Side::Left), ("", Side::Left), ("", Side::Right), ("", Side::Right), ("", Side::Left)];

/// Widths of the names and plots in rows, in columns.
struct Widths {
    names: usize,
    blocks: usize,
}

impl Widths {
    fn of(chart: &Chart, columns: Option<usize>) -> Self {
        let all = || lines(&chart.panels);
        let facts: Vec<Facts> =
            all().map(|(panel, line)| Facts::of(line, &panel.measure.ladder())).collect();
        let widest = |width: &dyn Fn(&Facts) -> usize| facts.iter().map(width).max().unwrap_or(0);
        let values = widest(&|facts| width(&facts.value));
        let changes = widest(&|facts| width(&facts.change));
        let more = widest(&Facts::more_width);
        // A short plot is more useful than the full name, a long one less so.
        let others = GAP + BLOCKS_MIN + GAP + values + GAP + changes + GAP + more;
        let names_max =
            columns.map_or(usize::MAX, |columns| columns.saturating_sub(others).max(columns / 3));
        let names = all().map(|(panel, line)| width(&name(panel, line))).max().unwrap_or(0);
        let names = names.min(names_max);
        let figures = names + GAP + GAP + values + GAP + changes;
        // Without a terminal, as wide as names of usual length permit.
        let columns = columns.unwrap_or_else(|| WIDTH.max(figures + GAP + more + BLOCKS_MIN));
        let beside = columns.saturating_sub(figures + if more > 0 { GAP + more } else { 0 });
        // Otherwise the remarks go below.
        let blocks = if beside >= BLOCKS_MIN { beside } else { columns.saturating_sub(figures) };
        Self { names, blocks: blocks.clamp(1, BLOCKS_MAX) }
    }

    fn row(&self, chart: &Chart, panel: &Panel, line: &Line) -> Vec<TextLine> {
        let Facts { value, change, more } = Facts::of(line, &panel.measure.ladder());
        let name = shortened(&name(panel, line), self.names);
        let mut cells = row([name, blocks(chart, panel, line, self.blocks), value, change]);
        cells.push(more);
        cells
    }
}

/// For each column the value farthest from the middle. `None` for empty columns.
fn in_columns(chart: &Chart, line: &Line, axis: &Axis, count: usize) -> Vec<Option<f64>> {
    let mut found: Vec<Option<f64>> = vec![None; count];
    for dot in &line.dots {
        let share = (chart.x(dot) + 0.5) / chart.width().max(1) as f64;
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
    let count = room.min(chart.width()).max(1);
    let block = |place: Option<f64>| match place {
        Some(place) => BLOCKS[((place * 8.0) as usize).min(7)],
        None => ' ',
    };
    let drawn: String =
        in_columns(chart, line, &axis(panel, line), count).into_iter().map(block).collect();
    format!("{drawn}{}", " ".repeat(room - count))
}

/// A graph of braille characters with a scale on the left and the facts below.
fn graph(chart: &Chart, panel: &Panel, line: &Line, columns: Option<usize>) -> [Block; 2] {
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
    let scale_width = scale.iter().map(|text| width(text)).max().unwrap_or(0);
    let cells = columns - scale_width.min(columns / 2) - 3;
    let (wide, tall) = (2 * cells, 4 * ROWS);
    let mut grid = vec![vec![0_u8; cells]; ROWS];
    let mut set = |x: usize, y: usize| {
        let (x, y) = (x.min(wide - 1), y.min(tall - 1));
        grid[y / 4][x / 2] |= BRAILLE[x % 2][y % 4];
    };
    let mut before: Option<(usize, usize)> = None;
    for dot in &line.dots {
        let share = (chart.x(dot) + 0.5) / chart.width().max(1) as f64;
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
    let mut drawn = vec![text_line(name)];
    for (index, cells) in grid.iter().enumerate() {
        let text = match index {
            0 => &scale[0],
            index if index == ROWS / 2 => &scale[1],
            index if index == ROWS - 1 => &scale[2],
            _ => "",
        };
        let scale = aligned(text, scale_width, true) + " ┤";
        let cells: String = cells.iter().filter_map(|&bits| braille(bits)).collect();
        drawn.push(vec![Span::new(Look::Dim, scale), Span::text(cells)]);
    }
    let Facts { value, change, more } = Facts::of(line, &units);
    let mut told = text_line(format!("last {value}"));
    for part in [text_line(change), more] {
        if part.iter().any(|span| !span.text.is_empty()) {
            told.push(Span::text(", "));
            told.extend(part);
        }
    }
    let indent = Span::text(" ".repeat(scale_width + 1));
    [Block::Verbatim(drawn), Block::Labelled(vec![(indent, told)])]
}

fn braille(bits: u8) -> Option<char> {
    // A blank cell is a space: some fonts show an empty pattern as a frame.
    if bits == 0 { Some(' ') } else { char::from_u32(0x2800 + u32::from(bits)) }
}
