//! A page with all charts: the first ones as static images, and a script that draws the others when they scroll into
//! view, searches and zooms.
//!
//! The page is a single file without external resources, which its content security policy also forbids.

use std::fmt::Write as _;
use wingbeat_text::{escaped, grouped, plural, share::change};

use super::{
    chart::{Chart, Panel, Rank},
    layout::Layout,
    page_data::Data,
    svg::{self, STYLE},
};

/// The scripts for drawing, searching and interaction.
pub const SCRIPT: &str =
    concat!(include_str!("draw.js"), include_str!("look.js"), include_str!("page.js"));

const PAGE_STYLE: &str = include_str!("page.css");

const PICTURES: usize = 20;

/// The parts of a page with charts. Everything but the texts is markup.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub summary: String,
    /// Description of the order.
    pub order: String,
    /// The legend.
    pub key: String,
    /// The contents of a `figure` for each panel: an image, or text if there are many.
    pub figures: Vec<String>,
    /// Paragraphs below the charts.
    pub footer: Vec<String>,
    /// Data for the script: JSON that is safe in a `script` element.
    pub data: String,
}

impl Figures {
    pub fn of(chart: &Chart) -> Result<Self, serde_json::Error> {
        let layout = Layout::of(chart);
        let notes = svg::notes(chart);
        let colours = chart.colours();
        let data = Data::of(chart, &layout, &colours, &notes, PICTURES);
        let figure = |(index, panel): (usize, &Panel)| match index < PICTURES {
            true => svg::figure(chart, &layout, index, &colours[index], &notes),
            false => caption(panel),
        };
        Ok(Self {
            summary: svg::summary(chart),
            order: order(chart),
            key: svg::signs_of_page(chart),
            figures: chart.panels.iter().enumerate().map(figure).collect(),
            footer: svg::footer(chart, &notes),
            // A "<" in a name must not end the script.
            data: serde_json::to_string(&data)?.replace('<', "\\u003c"),
        })
    }
}

/// Search and help, shown by the script.
pub const TOOLS: &str = "<div id=\"tools\" hidden><input type=\"search\" id=\"search\" \
    placeholder=\"Benchmark, measure, branch ( / )\" aria-label=\"Search\">\
    <span id=\"found\" role=\"status\"></span><button id=\"reset\" disabled>Show all reports</button>\
    <span>Drag, or Ctrl and wheel, to zoom; Esc shows all. Keys: Tab to a chart, arrows through its \
    values, + and − zoom.</span></div>";

/// Draws a chart as a page. The same chart gives the same bytes.
pub fn html(chart: &Chart) -> Result<String, serde_json::Error> {
    let parts = Figures::of(chart)?;
    let title = escaped(&chart.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{}</p>\n<p>{}</p>\n\
         {}\n{TOOLS}\n<main>\n",
        escaped(&parts.summary),
        parts.order,
        parts.key
    );
    // Writing to a string cannot fail, here and below.
    for figure in &parts.figures {
        let _ = writeln!(out, "<figure>{figure}</figure>");
    }
    out.push_str("</main>\n");
    for line in &parts.footer {
        let _ = writeln!(out, "<p>{}</p>", escaped(line));
    }
    let _ = write!(
        out,
        "<div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>\n\"use strict\";\n(() => {{\n{SCRIPT}}})();\n</script>\n</body>\n</html>\n",
        parts.data
    );
    Ok(out)
}

fn order(chart: &Chart) -> String {
    let of = |rank| chart.panels.iter().filter(|panel| panel.rank() == rank).count();
    let charts = chart.panels.len();
    let ranks = [
        (of(Rank::Alert), "with active alerts"),
        (of(Rank::Changed), "with changes of level"),
        (of(Rank::Steady), "without"),
    ];
    let some: Vec<_> = ranks.into_iter().filter(|(count, _)| *count > 0).collect();
    let mut text = plural(charts, "chart");
    match some[..] {
        [] => {}
        [(_, "without")] => text += " without alerts and changes of level",
        [(_, words)] => text = format!("{text} {words}"),
        _ => {
            let few = some.iter().map(|(count, words)| format!("{} {words}", grouped(*count)));
            text = format!("{text}: first {}", few.collect::<Vec<_>>().join(", then "));
        }
    }
    text.push('.');
    if charts > PICTURES {
        let _ = write!(
            text,
            "<noscript> Without JavaScript the first {PICTURES} are drawn, and the others are listed with \
             their newest values; <code>wingbeat plot --benchmark NAME -o FILE.svg</code> draws them.</noscript>"
        );
    }
    text
}

/// A textual summary of a panel without an image.
fn caption(panel: &Panel) -> String {
    let units = panel.measure.ladder();
    let mut out = format!("<figcaption><b>{}</b>", escaped(&panel.name()));
    for line in &panel.lines {
        let value = line.last().map_or_else(String::new, |dot| units.format(dot.value));
        let change =
            line.last_change().map_or_else(String::new, |share| format!(", {}", change(share)));
        let _ = write!(out, "<br>{}: {}{change}", escaped(&line.name), escaped(&value));
    }
    out + "</figcaption>"
}
