//! The picture as a page: the SVG, which needs nothing, and a script that adds looking closer.
//!
//! The page is one file and asks for nothing else, which its policy also forbids. The script draws the
//! part that is chosen from data that lie in the page, by the rules of `layout`, `axis` and `svg/marks`.

use serde::Serialize;
use serde_json::Value;

use super::{
    chart::{Chart, Dot, Line},
    layout::Layout,
    svg::{STYLE, TOP, svg},
    thin::thin,
    words::escape,
};
use crate::{
    model::{Limit, Status},
    output::{number::Units, outcome_word},
};

const SCRIPT: &str = include_str!("page.js");
const PAGE_STYLE: &str = include_str!("page.css");

/// Values in a page at most, about. Of more, each piece of time keeps its extremes, alerts and changes.
const DOTS_MAX: usize = 60_000;

/// Draws a chart as a page. The same chart gives the same bytes.
///
/// # Errors
///
/// None that is known: the data are plain.
pub fn html(chart: &Chart) -> Result<String, serde_json::Error> {
    let picture = svg(chart);
    // A "<" in a name must not end the script.
    let data = serde_json::to_string(&Data::of(chart))?.replace('<', "\\u003c");
    // The picture carries its style itself, so that it can be saved; the page uses the same.
    debug_assert!(picture.contains(STYLE));
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<div id=\"tools\" hidden>\
         <span>Drag to zoom; Ctrl and wheel zoom too; double click or Esc shows all.</span>\
         <button id=\"reset\" disabled>Show all</button></div>\n{picture}\
         <div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&chart.title)
    ))
}

/// What the script draws from.
#[derive(Serialize)]
struct Data {
    left: f64,
    width: f64,
    height: f64,
    /// Texts that occur often; elsewhere they are numbers.
    texts: Vec<String>,
    stamps: Vec<StampData>,
    panels: Vec<PanelData>,
    /// Whether values were left out.
    thinned: bool,
}

#[derive(Serialize)]
struct PanelData {
    top: f64,
    span: f64,
    units: Units,
    lines: Vec<LineData>,
}

#[derive(Serialize)]
struct LineData {
    name: String,
    colour: usize,
    dots: Vec<DotData>,
    /// First point of the new level, level before, level after.
    steps: Vec<(usize, f64, f64)>,
}

/// Unix time in seconds, commit, branch, testbed, iterations, news.
type StampData = (i64, Option<String>, usize, usize, u32, Option<String>);

/// Stamp, iteration, value, lower, upper, lower limit, upper limit, outcome, alert's state; nothing at the
/// end is left out.
type DotData = Vec<Value>;

impl Data {
    fn of(chart: &Chart) -> Self {
        let layout = Layout::of(chart, TOP);
        let mut texts: Vec<String> = Vec::new();
        let mut number = |text: &str| {
            texts.iter().position(|known| known == text).unwrap_or_else(|| {
                texts.push(text.to_owned());
                texts.len() - 1
            })
        };
        let stamps = chart.stamps.iter().map(|stamp| {
            let hash = stamp.hash.as_ref().map(|hash| hash.chars().take(12).collect());
            let (branch, testbed) = (number(stamp.branch.as_str()), number(stamp.testbed.as_str()));
            let news = (!stamp.news.is_empty()).then(|| stamp.news.join("; "));
            (stamp.time.unix_timestamp(), hash, branch, testbed, stamp.iterations, news)
        });
        let stamps = stamps.collect();
        let dots: usize = chart.lines().map(|line| line.dots.len()).sum();
        let share = DOTS_MAX as f64 / dots.max(1) as f64;
        let frames = layout.panels.iter().zip(chart.colours());
        let panels = chart.panels.iter().zip(frames).map(|(panel, (frame, colours))| PanelData {
            top: frame.top,
            span: frame.span_min,
            units: frame.units.clone(),
            lines: panel
                .lines
                .iter()
                .zip(colours)
                .map(|(line, colour)| LineData::of(line, colour, share))
                .collect(),
        });
        Self {
            left: layout.left,
            width: layout.width,
            height: super::layout::PANEL_HEIGHT,
            panels: panels.collect(),
            texts,
            stamps,
            thinned: share < 1.0,
        }
    }
}

impl LineData {
    /// The line with that share of its values, or all.
    fn of(line: &Line, colour: usize, share: f64) -> Self {
        let count = line.dots.len();
        let mut kept: Vec<usize> = match share < 1.0 {
            // Each column keeps up to four.
            true => {
                let columns = share / 4.0;
                thin(
                    count,
                    |index| (index as f64 * columns) as usize,
                    |index| line.dots[index].value,
                )
            }
            false => (0..count).collect(),
        };
        if kept.len() < count {
            let alerts = (0..count).filter(|&index| line.dots[index].alert.is_some());
            kept.extend(alerts.chain(line.steps.iter().map(|step| step.dot)));
            kept.sort_unstable();
            kept.dedup();
        }
        let place = |dot: usize| kept.partition_point(|&index| index < dot);
        let steps = line.steps.iter().map(|step| (place(step.dot), step.before, step.after));
        Self {
            name: line.name.clone(),
            colour,
            steps: steps.collect(),
            dots: kept.iter().map(|&index| dot(&line.dots[index])).collect(),
        }
    }
}

fn dot(dot: &Dot) -> DotData {
    let mut data = vec![
        dot.stamp.into(),
        dot.iteration.into(),
        number(Some(dot.value)),
        number(dot.lower),
        number(dot.upper),
        number(dot.lower_limit),
        number(dot.upper_limit),
        dot.outcome.map(outcome_word).into(),
        dot.alert.map(alert).into(),
    ];
    while data.last().is_some_and(Value::is_null) {
        data.pop();
    }
    data
}

/// Whole numbers up to this are exact.
const WHOLE_END: f64 = 9e15;

/// A number to seven digits, which is more than is shown. Whole numbers stay exact: they may be counts.
fn number(value: Option<f64>) -> Value {
    let Some(value) = value else { return Value::Null };
    let is_whole = |value: f64| value.fract() == 0.0 && value.abs() < WHOLE_END;
    let short = match is_whole(value) {
        true => value,
        false => format!("{value:.6e}").parse().unwrap_or(value),
    };
    // Without ".0", which is two bytes for nothing.
    if is_whole(short) { (short as i64).into() } else { short.into() }
}

fn alert((limit, status): (Limit, Status)) -> &'static str {
    match (limit, status) {
        (Limit::Upper, Status::Active) => "alert: above the limit",
        (Limit::Lower, Status::Active) => "alert: below the limit",
        (_, Status::Dismissed) => "alert, dismissed",
        (_, Status::Silenced) => "alert, silenced",
    }
}
