//! Flame graphs, read back by an XML parser independent of inferno.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use wingbeat_profiler::export::{ExportError, Format, write};
use wingbeat_profiler::model::Mode;

use crate::golden;
use crate::small::{export, small};

/// Contents of an SVG.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    /// Title and subtitle.
    pub(crate) headings: Vec<String>,
    /// Colour and tooltip of each frame.
    pub(crate) frames: Vec<(String, String)>,
    pub(crate) total: u64,
}

impl Svg {
    /// The complete contents, for golden files.
    pub(crate) fn text(&self) -> String {
        let frames = self.frames.iter().map(|(fill, title)| format!("{fill:16} {title}\n"));
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
    let mut open: Vec<(String, Option<String>)> = Vec::new();
    let mut content = String::new();
    let mut title = None;
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                if let Some(total) = attribute(&start, "total_samples") {
                    svg.total = total.parse().unwrap();
                }
                content.clear();
                open.push((tag(&start), attribute(&start, "id")));
            }
            Event::Empty(start) => {
                // A frame is a tooltip followed by a rectangle.
                if let (Some(title), Some(fill)) = (title.take(), attribute(&start, "fill")) {
                    svg.frames.push((fill, title));
                }
            }
            Event::Text(text) => content.push_str(&text),
            Event::GeneralRef(reference) => content.push_str(resolved(&reference)),
            Event::End(_) => {
                let (tag, id) = open.pop().unwrap();
                match (tag.as_str(), id.as_deref()) {
                    ("title", _) => title = Some(content.clone()),
                    ("text", Some("title" | "subtitle")) => svg.headings.push(content.clone()),
                    _ => {}
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "unclosed: {open:?}");
    svg
}

/// `Char` of XML 1.0: parsers are lax about it, browsers are not.
fn assert_xml_characters(text: &str) {
    let is_char = |c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert_eq!(text.chars().find(|&c| !is_char(c)), None);
}

fn tag(start: &BytesStart<'_>) -> String {
    start.name().as_ref().to_owned()
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    Some(start.try_get_attribute(name).unwrap()?.value.into_owned())
}

fn resolved(entity: &str) -> &'static str {
    let predefined = [("lt", "<"), ("gt", ">"), ("amp", "&"), ("quot", "\""), ("apos", "'")];
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
    let has = |start: &str| svg.frames.iter().any(|(_, title)| title.starts_with(start));
    assert!(has("</text>\u{fffd}\u{fffd}\"'&lt: ]]> (7 samples"), "{:?}", svg.frames);
    assert!(has("\u{fffd}[31mred (7 samples"), "{:?}", svg.frames);
}

#[test]
fn no_samples_are_no_picture() {
    let mut profile = small();
    profile.samples.clear();
    let result = write(&profile, Format::FlameGraph, &mut Vec::new());
    assert!(matches!(result, Err(ExportError::NoSamples(Mode::OnCpu))), "{result:?}");
}
