//! Renders a layout as SVG: text without scripts or styles, so that any page may embed it.
//!
//! A frame is a nested `svg`: its position in percent makes the width flexible, and it clips names that are too long.

use std::fmt::Write as _;

use wingbeat_text::{plural, share};

use super::{
    Medium, Picture, Request, View, layout::Layout, layout::Placed, tree::Frame, tree::Tree,
};
use crate::{
    origin::Origin,
    scale::Change,
    words::{signed, step},
};

/// Height of a row, and of a frame in it.
const ROW: usize = 18;
const FRAME: usize = 17;

/// Height of the headings in a file, and its width.
const HEADINGS: usize = 52;
const FILE_WIDTH: usize = 1200;

/// Maximum characters of a name as a label, and in a tooltip.
const LABEL_CHARS_MAX: usize = 120;
const NAME_CHARS_MAX: usize = 400;

/// Minimum part of the width of a frame with a label.
const LABELLED_MIN: f64 = 0.02;

/// Differences of fewer standard deviations may be chance, and have no colour.
const DEVIATIONS_MIN: f64 = 2.0;

/// Smaller differences, as a part of the largest, have no colour.
const COLOURED_MIN: f64 = 0.02;

const MORE: [&str; 4] = ["#fbe3dc", "#f7bda5", "#f29a7c", "#ea7358"];
const LESS: [&str; 4] = ["#dfebf7", "#b4d3ed", "#8abbe2", "#639fd6"];
const SAME: &str = "#e4e6e8";
/// Only in the later profile, and only in the earlier.
const NEW: &str = "#f4b04e";
const GONE: &str = "#bba4ea";

/// State for drawing frames.
struct Pen<'a> {
    tree: &'a Tree,
    request: Request<'a>,
    write: &'a dyn Fn(f64) -> String,
    /// Largest difference of any frame.
    largest: f64,
    /// In lower case.
    search: Option<String>,
    rows: usize,
    top: usize,
}

pub(super) fn draw(
    tree: &Tree,
    layout: &Layout,
    request: Request<'_>,
    write: &dyn Fn(f64) -> String,
) -> Picture {
    let differences =
        layout.placed.iter().map(|it| tree.change(&tree.frames[it.frame]).difference().abs());
    let pen = Pen {
        tree,
        request,
        write,
        largest: differences.fold(0.0, f64::max),
        search: request.search.map(str::to_lowercase).filter(|text| !text.is_empty()),
        rows: layout.rows(),
        top: if request.medium == Medium::File { HEADINGS } else { 0 },
    };
    let legend = pen.legend(layout);
    let mut svg = pen.opening(&legend);
    let (mut count, mut share, mut end) = (0, 0.0, 0.0);
    for placed in &layout.placed {
        let frame = &tree.frames[placed.frame];
        let is_found = pen.is_found(frame);
        if is_found {
            count += 1;
            // Frames on top of a matching frame are counted with it; sums of widths are inexact.
            if placed.left >= end - 1e-9 {
                share += placed.width;
                end = placed.left + placed.width;
            }
        }
        pen.frame(&mut svg, *placed, frame, is_found);
    }
    svg.push_str("</svg>");
    let found = pen.search.is_some().then_some((count, share));
    Picture { svg, legend, found }
}

impl Pen<'_> {
    fn opening(&self, legend: &str) -> String {
        let height = self.top + self.rows * ROW;
        let words = escaped(&shown(&self.heading(), NAME_CHARS_MAX));
        let mut out = String::from("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"flame\" ");
        // Writing to a string cannot fail, here and below.
        let _ = match self.request.medium {
            Medium::Page => write!(out, "width=\"100%\" height=\"{height}\" "),
            Medium::File => {
                write!(
                    out,
                    "width=\"{FILE_WIDTH}\" height=\"{height}\" viewBox=\"0 0 {FILE_WIDTH} {height}\" "
                )
            }
        };
        let fonts = "font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\"";
        let _ = write!(out, "role=\"group\" aria-label=\"{words}\" fill=\"#1c2127\" {fonts}>");
        if self.request.medium == Medium::File {
            let legend = escaped(legend);
            let _ = write!(
                out,
                "<title>{words}</title><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
            );
            let _ = write!(
                out,
                "<text x=\"4\" y=\"18\" font-size=\"14\" font-weight=\"600\">{words}</text>"
            );
            let _ = write!(out, "<text x=\"4\" y=\"38\" fill=\"#5c6670\">{legend}</text>");
        }
        out
    }

    /// The title, with both values and the difference.
    fn heading(&self) -> String {
        let change = self.tree.change(&self.tree.frames[0]);
        let title = self.request.title;
        match self.request.view {
            View::Before => format!("{title} before: {}", (self.write)(change.before)),
            View::After => format!("{title} after: {}", (self.write)(change.after)),
            View::Single => format!("{title}: {}", (self.write)(change.after)),
            _ => format!("{title}: {}", step(change, self.write)),
        }
    }

    fn legend(&self, layout: &Layout) -> String {
        let mut words = match self.request.view {
            View::Difference => {
                "Width: after. Red: more than before, blue: less, each with what it calls; amber: new; grey: no more than chance."
            }
            View::Vanished => {
                "Width: before. Violet: gone; blue: less after, red: more, each with what it calls; grey: no more than chance."
            }
            View::Before | View::After | View::Single => {
                "Red: your code, yellow: libraries, blue: kernel, violet: waiting."
            }
        }
        .to_owned();
        if layout.hidden > 0 {
            let _ = write!(
                words,
                " {} narrower than {} not drawn.",
                plural(layout.hidden, "frame"),
                share::size(layout.width_min)
            );
        }
        words
    }

    fn is_found(&self, frame: &Frame) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|text| self.tree.name(frame).to_lowercase().contains(text))
    }

    fn frame(&self, out: &mut String, placed: Placed, frame: &Frame, is_found: bool) {
        let name = self.tree.name(frame);
        let y = self.top + (self.rows - 1 - placed.depth) * ROW;
        let (left, width) = (placed.left * 100.0, placed.width * 100.0);
        let class = match (&self.search, is_found) {
            (Some(_), true) => "frame found",
            _ => "frame",
        };
        let opacity = if self.search.is_some() && !is_found { " opacity=\"0.3\"" } else { "" };
        let _ = write!(
            out,
            "<svg class=\"{class}\" x=\"{left:.3}%\" y=\"{y}\" width=\"{width:.3}%\" height=\"{FRAME}\"{opacity}><title>{}\n{}</title><rect width=\"100%\" height=\"100%\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.6\"/>",
            escaped(&shown(name, NAME_CHARS_MAX)),
            escaped(&self.told(frame)),
            self.colour(frame)
        );
        if placed.width >= LABELLED_MIN {
            let label = escaped(&shown(name, LABEL_CHARS_MAX));
            let _ = write!(out, "<text x=\"3\" y=\"12.5\">{label}</text>");
        }
        out.push_str("</svg>");
    }

    /// Text of a frame's value or change.
    fn told(&self, frame: &Frame) -> String {
        let change = self.tree.change(frame);
        if !self.request.view.compares() {
            let is_before = self.request.view.has_widths_of_before();
            let value = if is_before { change.before } else { change.after };
            let whole = self.tree.frames[0].weight(is_before);
            let part = share::size(frame.weight(is_before) / whole);
            return format!("{} ({part})", (self.write)(value));
        }
        let own = self.tree.own_change(frame);
        let itself = if own == Change::default() || frame.children.is_empty() {
            String::new()
        } else {
            format!("; itself {}", signed(own, self.write))
        };
        let fate = match (frame.weight(true) > 0.0, frame.weight(false) > 0.0) {
            (true, false) => " (gone)",
            (false, true) => " (new)",
            _ => "",
        };
        format!("{}{itself}{fate}", step(change, self.write))
    }

    fn colour(&self, frame: &Frame) -> &'static str {
        if !self.request.view.compares() {
            return match self.tree.origin(frame) {
                Origin::Own => "#f7a98c",
                Origin::Library => "#f3df9f",
                Origin::Kernel => "#a9cdf0",
                Origin::State => "#c9b8f0",
            };
        }
        let change = self.tree.change(frame);
        let difference = change.difference();
        let part = difference.abs() / self.largest;
        // NaN if nothing differs.
        if change.deviations().abs() < DEVIATIONS_MIN || part.is_nan() || part < COLOURED_MIN {
            return SAME;
        }
        let level = ((part * MORE.len() as f64) as usize).min(MORE.len() - 1);
        match (frame.weight(true) > 0.0, frame.weight(false) > 0.0) {
            (true, false) => GONE,
            (false, true) => NEW,
            _ if difference > 0.0 => MORE[level],
            _ => LESS[level],
        }
    }
}

/// Sanitizes a name: truncates it, and removes characters that are invalid in XML or change the text direction.
fn shown(name: &str, chars_max: usize) -> String {
    let is_fit = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        !c.is_control() && !turns && !matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    let fit = |c: char| if is_fit(c) { c } else { char::REPLACEMENT_CHARACTER };
    let mut shown: String = name.chars().take(chars_max).map(fit).collect();
    if name.chars().nth(chars_max).is_some() {
        shown.pop();
        shown.push('…');
    }
    if shown.is_empty() { "[unknown]".to_owned() } else { shown }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flame, Metric, compare, side::tests::side};

    fn picture(before: &str, after: &str, view: View, search: Option<&str>) -> Picture {
        let metric = Metric { before: 100.0, after: 200.0, before_sd: 1.0, after_sd: 1.0 };
        let (before, after) = (side(before), side(after));
        let explanation = compare(&before, &after, metric).expect("comparable");
        let request = Request { view, medium: Medium::File, title: "parse latency", search };
        Flame::of(&before, &after, &explanation).draw(request, &|value| format!("{value:.0} ns"))
    }

    /// Colour and text of a frame.
    fn frame(picture: &Picture, name: &str) -> Option<(String, String)> {
        let (_, rest) = picture.svg.split_once(&format!("<title>{name}\n"))?;
        let (words, rest) = rest.split_once("</title>")?;
        let (_, rest) = rest.split_once("fill=\"")?;
        Some((rest.split_once('"')?.0.to_owned(), words.to_owned()))
    }

    const BEFORE: &str = "main;a 5000\nmain;b 4000\nmain;old 1000";
    const AFTER: &str = "main;a 2500\nmain;b 5000\nmain;new 2500\nmain;b;lib:rare 1";

    #[test]
    fn colours_are_differences() {
        let check = |view, name: &str, expected: Option<(&str, &str)>| {
            let found = frame(&picture(BEFORE, AFTER, view, None), name);
            let expected = expected.map(|(colour, words)| (colour.to_owned(), words.to_owned()));
            assert_eq!(found, expected, "{name}");
        };
        check(View::Difference, "all", Some((MORE[3], "100 ns → 200 ns, +100 ns ± 3 ns")));
        check(View::Difference, "a", Some((SAME, "50 ns → 50 ns, −0 ns ± 8 ns")));
        check(
            View::Difference,
            "b",
            Some((MORE[2], "40 ns → 100 ns, +60 ns ± 9 ns; itself +60 ns ± 9 ns")),
        );
        check(View::Difference, "new", Some((NEW, "0 ns → 50 ns, +50 ns ± 7 ns (new)")));
        // One sample may be chance.
        check(View::Difference, "rare", None);
        check(View::Difference, "old", None);
        check(View::Vanished, "old", Some((GONE, "10 ns → 0 ns, −10 ns ± 2 ns (gone)")));
        check(View::Before, "b", Some(("#f7a98c", "40 ns (40 %)")));
        check(View::After, "old", None);
    }

    #[test]
    fn headings_are_in_units_of_the_metric() {
        let check = |view, expected: &str| {
            let svg = picture(BEFORE, AFTER, view, None).svg;
            assert!(svg.contains(&format!("<title>{expected}</title>")), "{svg}");
        };
        check(View::Difference, "parse latency: 100 ns → 200 ns, +100 ns ± 3 ns");
        check(View::Before, "parse latency before: 100 ns");
        check(View::After, "parse latency after: 200 ns");
    }

    #[test]
    fn a_search_tells_how_much_it_found() {
        let check = |search, expected| {
            let picture = picture(BEFORE, AFTER, View::Difference, search);
            let found = picture.found.map(|(count, share)| (count, (share * 100.0).round()));
            assert_eq!(found, expected, "{search:?}");
            let outstanding = picture.svg.matches("frame found").count();
            assert_eq!(outstanding, expected.map_or(0, |(count, _)| count));
        };
        check(None, None);
        check(Some("NEW"), Some((1, 25.0)));
        check(Some("a"), Some((3, 100.0)));
        check(Some("nothing"), Some((0, 0.0)));
    }

    #[test]
    fn hostile_names_stay_text() {
        let check = |name: &str, expected: &str| {
            let stacks = format!("main;{name} 10");
            let svg = picture(&stacks, &stacks, View::Difference, Some(name)).svg;
            assert!(svg.contains(&format!("<title>{expected}\n")), "{svg}");
            assert!(!svg.contains("<script") && svg.len() < 20_000, "{svg}");
            assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        };
        check(
            "</script><script>alert(1)</script>",
            "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
        );
        check("\" onload='x' &amp", "&quot; onload=&#39;x&#39; &amp;amp");
        check("a\u{202e}b\u{0}\u{ffff}", "a\u{fffd}b\u{fffd}\u{fffd}");
        check(&"x".repeat(4096), &format!("{}…", "x".repeat(NAME_CHARS_MAX - 1)));
    }
}
