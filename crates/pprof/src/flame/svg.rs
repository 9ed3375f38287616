//! Renders a layout as SVG: in a page without scripts or styles, so that any page may embed it.
//!
//! A frame is a nested `svg`: its position in percent makes the width flexible, and it clips names that are too long.

use std::fmt::{self, Write as _};

use wingbeat_text::{plural, share};

use super::{
    Colour, Flame, Medium, Picture, Request, View,
    layout::{Layout, Placed},
    tree::{Frame, Tree},
};
use crate::{
    scale::Change,
    words::{signed, step},
};

/// Height of a row, and of a frame in it.
const ROW: usize = 18;
const FRAME: usize = 17;

/// Width of a file, and the baseline of its first line of text.
const FILE_WIDTH: usize = 1200;
const TITLE_Y: usize = 20;

/// Zooms and searches in files.
const SCRIPT: &str = include_str!("zoom.js");

const SANS: &str = "system-ui, 'DejaVu Sans', sans-serif";
/// In files, so that the width of a text is known.
const MONOSPACE: &str = "'DejaVu Sans Mono', Menlo, Consolas, monospace";

/// Width of a character of 12 px in the widest of these fonts.
const CHAR_WIDTH: f64 = 7.3;
const LABEL_PADDING: f64 = 6.0;
const LABEL_CHARS_MIN: usize = 3;

/// Maximum characters of a line below the title.
const LINE_CHARS_MAX: usize = 170;

/// Maximum characters of a name as a label, and in a tooltip.
const LABEL_CHARS_MAX: usize = 120;
const NAME_CHARS_MAX: usize = 400;

/// Minimum part of the width of a frame with a label.
const LABELLED_MIN: f64 = 0.02;

/// Differences of fewer standard deviations may be chance, and have no colour.
const DEVIATIONS_MIN: f64 = 2.0;

/// Smaller differences, as a part of the largest, have no colour.
const COLOURED_MIN: f64 = 0.02;

const MORE: [Colour; 4] = [
    Colour(0xfb, 0xe3, 0xdc),
    Colour(0xf7, 0xbd, 0xa5),
    Colour(0xf2, 0x9a, 0x7c),
    Colour(0xea, 0x73, 0x58),
];
const LESS: [Colour; 4] = [
    Colour(0xdf, 0xeb, 0xf7),
    Colour(0xb4, 0xd3, 0xed),
    Colour(0x8a, 0xbb, 0xe2),
    Colour(0x63, 0x9f, 0xd6),
];
const SAME: Colour = Colour(0xe4, 0xe6, 0xe8);
/// Only in the later profile, and only in the earlier.
const NEW: Colour = Colour(0xf4, 0xb0, 0x4e);
const GONE: Colour = Colour(0xbb, 0xa4, 0xea);

/// State for drawing frames.
struct Pen<'a> {
    flame: &'a Flame,
    tree: &'a Tree,
    request: Request<'a>,
    write: &'a dyn Fn(f64) -> String,
    /// Largest difference of any frame.
    largest: f64,
    /// In lower case.
    search: Option<String>,
    rows: usize,
}

pub(super) fn draw(
    flame: &Flame,
    layout: &Layout,
    request: Request<'_>,
    write: &dyn Fn(f64) -> String,
) -> Picture {
    let tree = &flame.tree;
    let differences =
        layout.placed.iter().map(|it| tree.change(&tree.frames[it.frame]).difference().abs());
    let pen = Pen {
        flame,
        tree,
        request,
        write,
        largest: differences.fold(0.0, f64::max),
        search: request.search.map(str::to_lowercase).filter(|text| !text.is_empty()),
        rows: layout.rows(),
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
    if request.medium != Medium::Page {
        svg.push_str("</svg>");
    }
    if request.medium == Medium::InteractiveFile {
        let _ = write!(svg, "<script><![CDATA[\n{SCRIPT}]]></script>");
    }
    svg.push_str("</svg>");
    let found = pen.search.is_some().then_some((count, share));
    Picture { svg, legend, found }
}

impl Pen<'_> {
    fn opening(&self, legend: &str) -> String {
        let height = self.rows * ROW;
        let words = escaped(&shown(&self.heading(), NAME_CHARS_MAX));
        let hanging = if self.request.view == View::Hanging { " hanging" } else { "" };
        let mut out =
            format!("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"flame{hanging}\" ");
        let facts = &self.flame.facts;
        let lines = facts.iter().map(String::as_str).chain([legend]);
        let lines: Vec<String> = lines.flat_map(|line| wrapped(&shown(line, usize::MAX))).collect();
        // One more line for the frame under the pointer.
        let top = TITLE_Y + (lines.len() + 1) * ROW;
        // Writing to a string cannot fail, here and below.
        let _ = match self.request.medium {
            Medium::Page => write!(out, "width=\"100%\" height=\"{height}\" "),
            Medium::File | Medium::InteractiveFile => {
                let whole = top + height;
                write!(
                    out,
                    "width=\"{FILE_WIDTH}\" height=\"{whole}\" viewBox=\"0 0 {FILE_WIDTH} {whole}\" \
                     data-total=\"{}\" ",
                    self.tree.frames[0].weight(self.request.view.has_widths_of_before())
                )
            }
        };
        let _ = write!(
            out,
            "role=\"group\" aria-label=\"{words}\" fill=\"#1c2127\" font-family=\"{SANS}\" font-size=\"12\">"
        );
        if self.request.medium == Medium::Page {
            return out;
        }
        let _ = write!(
            out,
            "<title>{words}</title><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\
             <text x=\"4\" y=\"{TITLE_Y}\" font-size=\"14\" font-weight=\"600\">{words}</text>"
        );
        let mut y = TITLE_Y;
        for line in lines {
            y += ROW;
            let line = escaped(&line);
            let _ = write!(out, "<text x=\"4\" y=\"{y}\" fill=\"#5c6670\">{line}</text>");
        }
        let _ = write!(
            out,
            "<text class=\"details\" x=\"4\" y=\"{}\"></text>\
             <svg class=\"frames\" y=\"{top}\" height=\"{height}\" font-family=\"{MONOSPACE}\">",
            top - 5
        );
        out
    }

    /// The title with the total, or both totals and the difference.
    fn heading(&self) -> String {
        let change = self.tree.change(&self.tree.frames[0]);
        let title = self.request.title;
        if self.flame.facts.is_some() {
            return title.to_owned();
        }
        match self.request.view {
            View::Before => format!("{title} before: {}", (self.write)(change.before)),
            View::After => format!("{title} after: {}", (self.write)(change.after)),
            View::Single | View::Hanging => format!("{title}: {}", (self.write)(change.after)),
            _ => format!("{title}: {}", step(change, self.write)),
        }
    }

    fn legend(&self, layout: &Layout) -> String {
        let mut words = match (self.request.view, &self.flame.colours) {
            (_, Some(colours)) => colours,
            (View::Difference, _) => {
                "Width: after. Red: grew, blue: shrank, including callees; amber: new; grey: within noise."
            }
            (View::Vanished, _) => {
                "Width: before. Violet: gone; blue: shrank, red: grew, including callees; grey: within noise."
            }
            (_, None) if self.tree.has_guesses => {
                "Red: your code, and crates with unknown sources; yellow: libraries, blue: kernel, violet: waiting."
            }
            (_, None) => {
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
        let y = match self.request.view {
            View::Hanging => placed.depth * ROW,
            _ => (self.rows - 1 - placed.depth) * ROW,
        };
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
            escaped(&self.details(frame)),
            self.colour(frame)
        );
        if let Some(label) = self.label(name, placed.width) {
            let _ = write!(out, "<text x=\"3\" y=\"12.5\">{}</text>", escaped(&label));
        }
        out.push_str("</svg>");
    }

    /// The text in a frame of this part of the width.
    fn label(&self, name: &str, width: f64) -> Option<String> {
        if self.request.medium == Medium::Page {
            return (width >= LABELLED_MIN).then(|| shown(name, LABEL_CHARS_MAX));
        }
        let chars_max = ((width * FILE_WIDTH as f64 - LABEL_PADDING) / CHAR_WIDTH) as usize;
        let name = shown(name, NAME_CHARS_MAX);
        let count = name.chars().count();
        let is_whole = count <= chars_max;
        (chars_max >= LABEL_CHARS_MIN).then(|| match is_whole {
            true => name,
            // The end says more than crate and module.
            false => format!("…{}", name.chars().skip(count + 1 - chars_max).collect::<String>()),
        })
    }

    /// Text of a frame's value or change.
    fn details(&self, frame: &Frame) -> String {
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

    fn colour(&self, frame: &Frame) -> Colour {
        if !self.request.view.compares() {
            return self.tree.colour(frame);
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

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(red, green, blue) = self;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Lines of words that fit the width of a file.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE_CHARS_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
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
        drawn(before, after, Request { view, medium: Medium::File, title: "parse latency", search })
    }

    fn drawn(before: &str, after: &str, request: Request<'_>) -> Picture {
        let metric = Metric { before: 100.0, after: 200.0, before_sd: 1.0, after_sd: 1.0 };
        let (before, after) = (side(before), side(after));
        let explanation = compare(&before, &after, metric).expect("comparable");
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
        let check = |view, name: &str, expected: Option<(Colour, &str)>| {
            let found = frame(&picture(BEFORE, AFTER, view, None), name);
            let expected = expected.map(|(colour, words)| (colour.to_string(), words.to_owned()));
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
        check(View::Before, "b", Some((Colour(0xf7, 0xa9, 0x8c), "40 ns (40 %)")));
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
    fn a_search_counts_what_it_finds() {
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
    fn labels_of_files_fit_their_frames() {
        let name = "a::very::long::name::of::a::function";
        let stacks = format!("main;{name} 10\nmain;{name}_too 90");
        let svg = picture(&stacks, &stacks, View::After, None).svg;
        // A tenth of 1,200 pixels.
        assert!(svg.contains(">…f::a::function</text>"), "{svg}");
        assert!(svg.contains(&format!(">{name}_too</text>")), "{svg}");
    }

    #[test]
    fn only_interactive_files_have_a_script() {
        let check = |medium, expected: usize| {
            let view = View::Difference;
            let request = Request { view, medium, title: "a", search: None };
            let svg = drawn(BEFORE, AFTER, request).svg;
            assert_eq!(svg.matches("<script>").count(), expected, "{medium:?}");
            assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count(), "{medium:?}");
        };
        check(Medium::Page, 0);
        check(Medium::File, 0);
        check(Medium::InteractiveFile, 1);
        assert_eq!(SCRIPT.matches("]]>").count(), 0);
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
