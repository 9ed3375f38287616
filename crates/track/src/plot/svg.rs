//! SVG output: a self-contained file for any browser, dark or light by the reader's preference.

mod frame;
mod marks;

use std::fmt::Write as _;
use wingbeat_text::{escaped, grouped, plural};

use super::{
    axis::full_time,
    chart::{Chart, LAST_CHANGE},
    layout::{FONT, FONT_SMALL, Frame, Layout, WIDTH, fit, width},
    stamps::Stamp,
};
use crate::model::AlertStatus;

pub use self::frame::class as colour_class;
pub(super) use self::frame::{label, name};

/// Colours and fonts, also of the page.
pub const STYLE: &str = include_str!("style.css");

/// Maximum number of environment changes listed below the plot, newest first.
const NOTES_MAX: usize = 12;

const TOP: f64 = 84.0;

const SIGN_WIDTH: f64 = 18.0;

const LINE: f64 = 18.0;

/// An environment change listed below the plot.
pub(super) struct Note<'a> {
    pub(super) stamp: usize,
    pub(super) number: usize,
    content: &'a Stamp,
}

/// Draws a chart. The same chart gives the same bytes.
pub fn svg(chart: &Chart) -> String {
    let notes = notes(chart);
    let layout = Layout::of(chart);
    let mut footer = footer(chart, &notes);
    footer.extend(chart.left_out_text());
    let bottom = TOP + layout.panels.iter().map(Frame::height).sum::<f64>();
    let height = bottom + 12.0 + LINE * footer.len() as f64;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"wingbeat\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        escaped(&chart.title)
    );
    let title = escaped(&fit(&chart.title, WIDTH - 40.0, 18.0));
    let _ = writeln!(out, "<text class=\"headline\" x=\"20\" y=\"30\">{title}</text>");
    let text = escaped(&fit(&summary(chart), WIDTH - 40.0, FONT));
    let _ = writeln!(out, "<text class=\"quiet\" x=\"20\" y=\"50\">{text}</text>");
    out.push_str(&signs(chart, 70.0));
    let mut top = TOP;
    for (index, colours) in chart.colours().iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate(0 {top})\">");
        frame::panel(&mut out, chart, &layout, index, colours, &notes);
        out.push_str("</g>\n");
        top += layout.panels[index].height();
    }
    for (line, text) in footer.iter().enumerate() {
        let y = bottom + 14.0 + LINE * line as f64;
        let text = escaped(&fit(text, WIDTH - 40.0, FONT));
        let _ = writeln!(out, "<text class=\"note\" x=\"20\" y=\"{y}\">{text}</text>");
    }
    out.push_str("</svg>\n");
    out
}

/// One panel as a separate image, and its vertical axis as another, for a page that contains the style.
pub(super) fn figure(
    chart: &Chart,
    layout: &Layout,
    index: usize,
    colours: &[usize],
    notes: &[Note<'_>],
) -> String {
    let (name, height) = (chart.panels[index].name(), layout.panels[index].height());
    let mut out = format!(
        "<svg class=\"wingbeat\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
        px(height),
        escaped(&name)
    );
    frame::panel(&mut out, chart, layout, index, colours, notes);
    out.push_str("</svg>");
    out + &frame::ruler(layout, &layout.panels[index])
}

/// The legend of the symbols, from left to right at that height.
pub(super) fn signs(chart: &Chart, y: f64) -> String {
    let mut out = String::new();
    let mut x = 20.0;
    for (sign, sign_width, meaning) in key(chart) {
        let text = sign_width + 6.0;
        let _ = writeln!(
            out,
            "<g class=\"key\" transform=\"translate({x:.0} {y})\">{sign}<text x=\"{text:.0}\" y=\"4\">{meaning}\
             </text></g>"
        );
        x += text + width(meaning, FONT_SMALL) + 22.0;
    }
    out
}

/// The same for a page, as images with words that wrap.
pub(super) fn signs_of_page(chart: &Chart) -> String {
    let mut out = String::from("<p class=\"wingbeat signs\">");
    for (sign, width, meaning) in key(chart) {
        let _ = write!(
            out,
            "<span><svg class=\"key\" viewBox=\"0 -8 {width} 16\" width=\"{width}\" height=\"16\" \
             aria-hidden=\"true\">{sign}</svg> {meaning}</span> "
        );
    }
    out + "</p>"
}

pub(super) fn summary(chart: &Chart) -> String {
    let lines = chart.lines().count();
    let alerts: usize = chart.lines().map(|line| line.active_alerts()).sum();
    let mut parts =
        vec![format!("{} series", grouped(lines)), plural(chart.stamps.len(), "report")];
    parts.extend(chart.period());
    parts.push(plural(alerts, "active alert"));
    parts.join(" · ")
}

/// The symbols in use, with their widths and meanings.
fn key(chart: &Chart) -> Vec<(&'static str, f64, &'static str)> {
    let dots = || chart.lines().flat_map(|line| &line.dots);
    let has_alert = |is: fn(AlertStatus) -> bool| {
        dots().any(|dot| dot.alert.is_some_and(|(_, status)| is(status)))
    };
    let has_spread = dots().any(|dot| dot.lower.is_some() && dot.upper.is_some());
    let has_limit = dots().any(|dot| dot.lower_limit.is_some() || dot.upper_limit.is_some());
    let has_step = chart.lines().any(|line| !line.steps.is_empty());
    let is_active = has_alert(|status| status == AlertStatus::Active);
    let is_settled = has_alert(|status| status != AlertStatus::Active);
    let has_news = chart.stamps.iter().any(|stamp| !stamp.news.is_empty());
    let step = r#"<path class="step" d="M9 -6V6"/><path class="level" d="M0 -5H9M9 5H18"/>"#;
    let settled = r#"<circle class="settled" cx="9" r="5"/>"#;
    let signs = [
        (has_spread, r#"<rect class="band" y="-5" width="18" height="10"/>"#, "spread"),
        (has_limit, r#"<path class="limit" d="M0 0H18"/>"#, "limit"),
        (has_step, step, "change of level"),
        (is_active, r#"<circle class="alert" cx="9" r="5"/>"#, "alert"),
        (is_settled, settled, "alert dismissed or silenced"),
        (has_news, r#"<path class="news" d="M9 -7V7"/>"#, "environment changed"),
    ];
    let occurring = signs.into_iter().filter(|(occurs, ..)| *occurs);
    let mut key: Vec<_> = occurring.map(|(_, sign, meaning)| (sign, SIGN_WIDTH, meaning)).collect();
    if chart.lines().any(|line| line.last_change().is_some()) {
        // The width of a text symbol depends on its font.
        let room = width("± %", FONT).ceil() + 4.0;
        key.push(("<text class=\"quiet\" y=\"4\">± %</text>", room, LAST_CHANGE));
    }
    key
}

pub(super) fn notes(chart: &Chart) -> Vec<Note<'_>> {
    let all = chart.stamps.iter().enumerate().filter(|(_, stamp)| !stamp.news.is_empty());
    let mut all: Vec<_> = all.collect();
    all.drain(..all.len().saturating_sub(NOTES_MAX));
    let note = |(number, (stamp, content))| Note { stamp, number, content };
    (1..).zip(all).map(note).collect()
}

pub(super) fn footer(chart: &Chart, notes: &[Note<'_>]) -> Vec<String> {
    let mut lines: Vec<String> = notes
        .iter()
        .map(|Note { number, content, .. }| {
            let (time, news) = (full_time(content.time), content.news.join("; "));
            format!("{number}  {time}, {}: {news}", content.testbed)
        })
        .collect();
    let untold = chart.stamps.iter().filter(|stamp| !stamp.news.is_empty()).count() - notes.len();
    if untold > 0 {
        lines.push(format!(
            "{untold} earlier changes of the environment are marked without a number"
        ));
    }
    lines.extend(chart.drifts());
    if chart.panels.is_empty() {
        lines.push("There is nothing to draw.".to_owned());
    }
    lines
}

fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}
