//! A panel: title, axes, environment changes, lines, and their labels.

use std::fmt::Write as _;
use wingbeat_text::{escaped, grouped, share};

use super::{Note, marks, px};
use crate::plot::{
    axis::{places, time_text},
    chart::{Chart, LINES_MAX, Line, Panel, Scale},
    layout::{
        FONT, FONT_SMALL, Frame, LABEL_HEIGHT, LABELS_WIDTH, Layout, PLOT_TOP, WIDTH, fit, spread,
        width,
    },
};

const TICK_DISTANCE: f64 = 92.0;

/// Lines beyond this number reuse the first colours, dashed.
const COLOURS: usize = LINES_MAX / 2;

const TITLE_FONT: f64 = 14.0;

/// Minimum width of a panel in a page, in pixels; pages narrower than that scroll it.
const NARROW_WIDTH: f64 = 780.0;

const HASH_LENGTH: usize = 8;

/// Draws a panel with its top at 0.
pub(super) fn panel(
    out: &mut String,
    chart: &Chart,
    layout: &Layout,
    index: usize,
    colours: &[usize],
    notes: &[Note<'_>],
) {
    let (panel, frame) = (&chart.panels[index], &layout.panels[index]);
    let (left, width, height) = (px(layout.left), px(layout.width), px(frame.plot_height));
    let _ = writeln!(
        out,
        "<clipPath id=\"clip-{index}\"><rect x=\"{left}\" y=\"{PLOT_TOP}\" width=\"{width}\" \
         height=\"{height}\"/></clipPath>"
    );
    title(out, panel, chart.scale, layout, frame);
    vertical(out, layout, frame);
    horizontal(out, chart, layout, frame);
    news(out, chart, layout, frame, notes);
    let _ = writeln!(out, "<g clip-path=\"url(#clip-{index})\">");
    let mut curves = Vec::new();
    // The most important line is drawn last, on top.
    for (line, &colour) in panel.lines.iter().zip(colours).rev() {
        let _ = writeln!(out, "<g class=\"{}\">", class(colour));
        curves.push(marks::line(out, chart, layout, frame, line));
        out.push_str("</g>\n");
    }
    out.push_str("</g>\n");
    let mut room = marks::Room::new(layout, frame, curves);
    for (line, &colour) in panel.lines.iter().zip(colours) {
        let _ = writeln!(out, "<g class=\"{}\">", class(colour));
        marks::steps(out, chart, layout, frame, line, &mut room);
        marks::alerts(out, chart, layout, frame, line);
        out.push_str("</g>\n");
    }
    for (line, &colour) in panel.lines.iter().zip(colours).take(marks::FAR_LIMITS_MAX) {
        let far = marks::far_limits(layout, frame, line, &mut room);
        if !far.is_empty() {
            let _ = writeln!(out, "<g class=\"{}\">\n{far}</g>", class(colour));
        }
    }
    labels(out, chart, (panel, colours), layout, frame);
}

/// The class of a colour of a chart, in the style of plots.
pub fn class(colour: usize) -> String {
    match colour {
        LINES_MAX.. => "rest".to_owned(),
        COLOURS.. => format!("c{} second", colour - COLOURS),
        _ => format!("c{colour}"),
    }
}

fn title(out: &mut String, panel: &Panel, scale: Scale, layout: &Layout, frame: &Frame) {
    let (x, y) = (px(layout.left), px(PLOT_TOP - 12.0));
    let symbol = &frame.ticks.symbol;
    let unit = if symbol.is_empty() { String::new() } else { format!(", {symbol}") };
    let mut about = vec![panel.measure.direction.words().to_owned()];
    about.retain(|words| !words.is_empty());
    if frame.axis.is_logarithmic() {
        about.push("logarithmic".to_owned());
    } else if scale == Scale::Logarithmic {
        about.push("linear, as not all values are positive".to_owned());
    }
    if panel.lines.len() > LINES_MAX {
        about.push(format!("{} more in grey", grouped(panel.lines.len() - LINES_MAX)));
    }
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"{x}\" y=\"{y}\">{}{}<tspan class=\"quiet\" dx=\"10\">{}</tspan></text>",
        escaped(&name(panel, layout)),
        escaped(&unit),
        about.join(" · ")
    );
}

pub(in crate::plot) fn name(panel: &Panel, layout: &Layout) -> String {
    let measure = fit(&format!(" · {}", panel.measure.name), layout.width * 0.4, TITLE_FONT);
    // Shortens the benchmark's name, never the measure.
    let room = layout.width * 0.8 - width(&measure, TITLE_FONT);
    fit(&panel.benchmark, room, TITLE_FONT) + &measure
}

/// The shortened name of a line, its newest value, and that one's change from the values before.
pub(in crate::plot) fn label(line: &Line, frame: &Frame) -> [String; 3] {
    [
        fit(&line.name, LABELS_WIDTH - 36.0, FONT),
        line.last().map_or_else(String::new, |dot| frame.units.format(dot.value)),
        line.last_change().map_or_else(String::new, share::change),
    ]
}

fn vertical(out: &mut String, layout: &Layout, frame: &Frame) {
    out.push_str("<g class=\"y\">\n");
    let (left, right) = (layout.left, px(layout.left + layout.width));
    for (value, text) in &frame.ticks.marks {
        let y = frame.y(*value);
        let (line, base, text) = (px(y), px(y + 4.0), escaped(text));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{} {line}H{right}\"/><text x=\"{}\" y=\"{base}\">{text}</text>",
            px(left),
            px(left - 8.0),
        );
    }
    out.push_str("</g>\n");
}

fn horizontal(out: &mut String, chart: &Chart, layout: &Layout, frame: &Frame) {
    out.push_str("<g class=\"x\">\n");
    let bottom = frame.bottom();
    let (line, tick) = (px(bottom), px(bottom + 4.0));
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{} {line}H{}\"/>",
        px(layout.left),
        px(layout.left + layout.width)
    );
    let starts = chart.starts();
    let ends = starts.first().zip(starts.last());
    let span = ends.map_or(time::Duration::ZERO, |(&first, &last)| {
        chart.stamps[last].time - chart.stamps[first].time
    });
    for place in places(starts.len(), layout.width, TICK_DISTANCE) {
        let stamp = &chart.stamps[starts[place]];
        let x = px(layout.x(place as f64));
        let time = time_text(stamp.time, span);
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{x} {line}V{tick}\"/><text x=\"{x}\" y=\"{}\">{time}</text>",
            px(bottom + 17.0)
        );
        if let Some(hash) = &stamp.hash {
            let hash: String = hash.chars().take(HASH_LENGTH).collect();
            let y = px(bottom + 31.0);
            let _ =
                write!(out, "<text class=\"hash\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(&hash));
        }
        out.push('\n');
    }
    out.push_str("</g>\n");
}

/// Vertical lines at environment changes, with the numbers of the notes.
fn news(out: &mut String, chart: &Chart, layout: &Layout, frame: &Frame, notes: &[Note<'_>]) {
    out.push_str("<g class=\"environment\">\n");
    let (top, bottom) = (px(PLOT_TOP), px(frame.bottom()));
    let mut last_column = None;
    for (index, stamp) in chart.stamps.iter().enumerate() {
        let x = layout.x(chart.left(index));
        if stamp.news.is_empty() || last_column == Some(layout.column(x)) {
            continue;
        }
        last_column = Some(layout.column(x));
        let _ = writeln!(out, "<path class=\"news\" d=\"M{} {top}V{bottom}\"/>", px(x));
    }
    // Merges numbers that would overlap: 2–4.
    let mut badges: Vec<(f64, usize, usize)> = Vec::new();
    for note in notes {
        let x = layout.x(chart.left(note.stamp));
        match badges.last_mut() {
            Some((begin, _, last)) if x - *begin < 26.0 => *last = note.number,
            _ => badges.push((x, note.number, note.number)),
        }
    }
    for (x, first, last) in badges {
        let text = if first == last { first.to_string() } else { format!("{first}–{last}") };
        let room = width(&text, FONT_SMALL) + 8.0;
        let (left, y, text_y) = (px(x - room / 2.0), px(PLOT_TOP - 7.0), px(PLOT_TOP + 4.0));
        let _ = writeln!(
            out,
            "<rect class=\"badge\" x=\"{left}\" y=\"{y}\" width=\"{}\" height=\"14\" rx=\"7\"/>\
             <text x=\"{}\" y=\"{text_y}\">{text}</text>",
            px(room),
            px(x)
        );
    }
    out.push_str("</g>\n");
}

/// The name of each line next to its end, with the newest value.
fn labels(
    out: &mut String,
    chart: &Chart,
    (panel, colours): (&Panel, &[usize]),
    layout: &Layout,
    frame: &Frame,
) {
    let mut ends: Vec<(f64, f64, usize, &Line)> = Vec::new();
    for (line, &colour) in panel.lines.iter().zip(colours).take(LINES_MAX) {
        if let Some(last) = line.last() {
            let (x, y) = frame.point(layout, chart, last);
            ends.push((y, x, colour, line));
        }
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = ends.iter().map(|end| end.0).collect();
    let places = spread(&wanted, LABEL_HEIGHT, PLOT_TOP + 4.0, frame.bottom() - 10.0);
    let right = layout.left + layout.width;
    for ((y, x, colour, line), place) in ends.into_iter().zip(places) {
        let [name, value, change] = label(line, frame);
        let change = match change.is_empty() {
            true => String::new(),
            false => format!("<tspan class=\"quiet\" dx=\"8\">{change}</tspan>"),
        };
        let [whole, name, value] = [&line.name, &name, &value].map(|text| escaped(text));
        let [from, to, end, text] =
            [x + 3.0, right.max(x + 3.0), right + 14.0, right + 18.0].map(px);
        let [y, place, below] = [y, place, place + 14.0].map(px);
        let _ = writeln!(
            out,
            "<g class=\"label {}\"><title>{whole}</title>\
             <path class=\"lead\" d=\"M{from} {y}L{to} {y}L{end} {place}\"/>\
             <text x=\"{text}\" y=\"{place}\">{name}</text>\
             <text class=\"value\" x=\"{text}\" y=\"{below}\">{value}{change}</text></g>",
            class(colour)
        );
    }
}

/// The vertical axis of a panel once more, with its unit, to stay in sight beside a panel that scrolls. It has the size
/// of that of a panel of [`NARROW_WIDTH`].
pub(super) fn ruler(layout: &Layout, frame: &Frame) -> String {
    let (left, height) = (layout.left, frame.height());
    let size = [left, height].map(|length| px(length * NARROW_WIDTH / WIDTH));
    let (left, height) = (px(left), px(height));
    let mut out = format!(
        "<svg class=\"ruler\" viewBox=\"0 0 {left} {height}\" width=\"{}\" height=\"{}\" aria-hidden=\"true\">\
         <g class=\"wingbeat\"><rect class=\"back\" width=\"{left}\" height=\"{height}\"/><g class=\"y\">",
        size[0], size[1]
    );
    let unit = (PLOT_TOP - 12.0, &frame.ticks.symbol);
    let marks = frame.ticks.marks.iter().map(|(value, text)| (frame.y(*value) + 4.0, text));
    for (y, text) in marks.chain([unit]) {
        let (x, text) = (px(layout.left - 8.0), escaped(text));
        let _ = write!(out, "<text x=\"{x}\" y=\"{}\">{text}</text>", px(y));
    }
    out + "</g></g></svg>"
}
