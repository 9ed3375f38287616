//! Flame graphs of one profile and of two, read back by an XML parser.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use wingbeat_profiler::diff::{Scaling, differential_svg, functions};
use wingbeat_profiler::export::Format;

use crate::golden;
use crate::small::{export, small};

/// Contents of an SVG.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    /// Title and the lines below it.
    pub(crate) headings: Vec<String>,
    /// Depth, colour and tooltip of each frame.
    pub(crate) frames: Vec<(u32, String, String)>,
    pub(crate) total: u64,
}

impl Svg {
    /// The complete contents, for golden files.
    pub(crate) fn text(&self) -> String {
        let line = |(depth, fill, title): &(u32, String, String)| {
            format!("{fill} {}{title}\n", " ".repeat(*depth as usize))
        };
        let frames = self.frames.iter().map(line);
        let frames: String = frames.collect();
        format!("{}\ntotal {}\n{frames}", self.headings.join("\n"), self.total)
    }
}

/// Parses an SVG; panics if it is not well-formed.
pub(crate) fn parse(bytes: &[u8]) -> Svg {
    let text = std::str::from_utf8(bytes).unwrap();
    assert_xml_characters(text);
    let mut svg = Svg::default();
    let mut reader = Reader::from_str(text);
    let mut open: Vec<BytesStart<'_>> = Vec::new();
    let mut content = String::new();
    let mut title = None;
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                if let Some(total) = attribute(&start, "data-total") {
                    svg.total = total.parse().unwrap();
                }
                content.clear();
                open.push(start);
            }
            Event::Empty(start) => {
                // A frame is a tooltip followed by a rectangle.
                let frame =
                    open.last().filter(|it| attribute(it, "class").as_deref() == Some("frame"));
                if let (Some(frame), Some(title)) = (frame, title.take()) {
                    let y: u32 = attribute(frame, "y").unwrap().parse().unwrap();
                    svg.frames.push((y, attribute(&start, "fill").unwrap(), title));
                }
            }
            Event::Text(text) => content.push_str(&text),
            Event::GeneralRef(reference) => content.push_str(resolved(&reference)),
            Event::End(_) => {
                let ended = open.pop().unwrap();
                match (ended.name().as_ref(), open.len()) {
                    ("title", 2..) => title = Some(content.replace('\n', " | ")),
                    ("text", 1) if !content.is_empty() => svg.headings.push(content.clone()),
                    _ => {}
                }
                content.clear();
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let root = svg.frames.iter().map(|(y, ..)| *y).max().unwrap_or(0);
    svg.frames.iter_mut().for_each(|(y, ..)| *y = (root - *y) / 18);
    assert!(open.is_empty(), "unclosed: {open:?}");
    svg
}

/// `Char` of XML 1.0: parsers are lax about it, browsers are not.
fn assert_xml_characters(text: &str) {
    let is_char = |c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert_eq!(text.chars().find(|&c| !is_char(c)), None);
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    Some(start.try_get_attribute(name).unwrap()?.value.into_owned())
}

fn resolved(entity: &str) -> &'static str {
    let predefined = [("lt", "<"), ("gt", ">"), ("amp", "&"), ("quot", "\""), ("#39", "'")];
    predefined.iter().find(|(name, _)| *name == entity).unwrap().1
}

#[test]
fn matches_the_golden_file() {
    golden::check("small.svg.txt", &parse(&export(&small(), Format::FlameGraph)).text());
}

#[test]
fn control_characters_and_markup_stay_well_formed() {
    let mut profile = small();
    profile.meta.target = "a\u{0}b <!-- --> ]]> & \u{ffff}".into();
    profile.functions[1].name = "</text>\u{1}\u{b}\"'&lt; ]]>".into();
    profile.processes[0].name = "\u{1b}[31mred".into();
    let svg = parse(&export(&profile, Format::FlameGraph));
    assert_eq!(svg.headings[0], "wingbeat: a\u{fffd}b <!-- --> ]]> & \u{fffd}");
    let has = |start: &str| svg.frames.iter().any(|(.., title)| title.starts_with(start));
    assert!(has("</text>\u{fffd}\u{fffd}\"'&lt: ]]> | 7 samples"), "{:?}", svg.frames);
    assert!(has("\u{fffd}[31mred | 7 samples"), "{:?}", svg.frames);
}

#[test]
fn differences_match_the_golden_file() {
    let mut before = small();
    before.samples.truncate(5);
    let (before, after) = (export(&before, Format::Folded), export(&small(), Format::Pprof));
    let files = [("before.folded", &*before), ("after.pb.gz", &*after)];
    let mut bytes = Vec::new();
    differential_svg(files, Scaling::ToAfter, &mut bytes).unwrap();
    golden::check("diff.svg.txt", &parse(&bytes).text());
}

#[test]
fn dangling_references_are_named() {
    // sample { location_id: 7, value: 1 }, sample_type {}, string_table [""].
    let bytes = [0x12, 0x06, 0x0a, 0x01, 0x07, 0x12, 0x01, 0x01, 0x0a, 0x00, 0x32, 0x00];
    assert_eq!(
        functions([("a.pb", &bytes), ("b.pb", &bytes)]).unwrap_err().to_string(),
        "a.pb: the pprof profile refers to location 7, which is missing"
    );
}
